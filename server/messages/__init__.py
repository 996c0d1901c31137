"""Texts that are written in English where they are made, and can be shown in another language.

    message = say("{how} turns gradients off for all that runs later", how=mode.how)
    message == "`torch.no_grad()` turns gradients off for all that runs later"
    translated(message, "zh-cn")

    use("zh-cn")  # once, by the face that this process is
    told(message)  # in the language that is used

A `Text` is the English text itself, so whoever knows nothing of languages reads English; it remembers of which template
and values it was made. A catalogue (`zh-cn.json`) gives for each English template the one in its language, as gettext's
and VS Code's do. What has no entry stays English. `tools/extract_messages.py`
lists what a catalogue must have.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

Packed = Any  # a str, or a template and its values as plain tuples


class Text(str):
    """An English text with what it was made of: `template`, and `values` for its placeholders, Texts among them."""

    __slots__ = ("template", "values")
    template: str
    values: tuple[tuple[str, object], ...]

    def __new__(cls, english: str, template: str = "", values: tuple[tuple[str, object], ...] = ()) -> Text:
        self = super().__new__(cls, english)
        self.template = template or english
        self.values = values
        return self

    def __getnewargs__(self) -> tuple[str, str, tuple[tuple[str, object], ...]]:  # type: ignore[override]
        return str(self), self.template, self.values


def say(template: str, /, **values: object) -> Text:
    """The English text of a template, such as `"{how} ends the graph"`, that can be translated.

    Values are names, code and numbers, or Texts, which are translated too. The template must be written out in the
    call, or it is not found by those who translate. Raises KeyError if a value is missing.
    """
    return Text(template.format(**values) if values else template, template, tuple(values.items()))


def joined(parts: Iterable[str], separator: str) -> str:
    """Texts in a row, each still to be translated: `separator` is a template with `{first}` and `{rest}`."""
    *others, whole = parts
    for part in reversed(others):
        whole = say(separator, first=part, rest=whole)
    return whole


def listed(parts: Iterable[str]) -> str:
    """Texts in a row, with commas between them."""
    return joined(parts, "{first}, {rest}")


def inner(text: str) -> str:
    """A text that begins with a capital letter, as it stands within an English sentence."""
    english = text[:1].lower() + text[1:]
    return Text(english, text.template, text.values) if isinstance(text, Text) else english


def translated(text: str, language: str) -> str:
    """The text in a language (`zh-cn`), or in English as far as the catalogue does not know it."""
    if language == ENGLISH:
        return str(text)
    catalogue = _catalogue(language)
    if not isinstance(text, Text):
        return catalogue.get(text, text)
    template = catalogue.get(text.template, text.template)
    if not text.values:
        return template
    values = {name: translated(value, language) if isinstance(value, Text) else value for name, value in text.values}
    return template.format(**values)


ENGLISH = "en"


class _Chosen:
    """The language that people are spoken to in by this process."""

    language = ENGLISH


def use(language: str) -> None:
    """Speak this language (one of `languages()`) to people from here on; programs are always told English."""
    _Chosen.language = language if language in languages() else ENGLISH


def used() -> str:
    """The language that people are spoken to in."""
    return _Chosen.language


def told(text: str) -> str:
    """The text as it is told to people, in the language that is used."""
    return str(text) if _Chosen.language == ENGLISH else translated(text, _Chosen.language)


def tell(template: str, /, **values: object) -> str:
    """`told(say(...))`: for texts that are shown where they are made."""
    return told(say(template, **values))


@functools.cache
def languages() -> tuple[str, ...]:
    """The languages that gradline speaks, as lower-case tags; English comes first."""
    names = sorted(entry.name for entry in resources.files(__name__).iterdir())
    return (ENGLISH, *(name.removesuffix(".json") for name in names if name.endswith(".json")))


def spoken(tag: str) -> str | None:
    """The language of `languages()` that a tag asks for, None if gradline does not speak it.

    A tag is a locale of POSIX (`zh_CN.UTF-8`) or of the web and VS Code (`zh-cn`, `zh-Hans-CN`). A language without a
    country stands for the one that most of its readers read.
    """
    tag = tag.partition(".")[0].partition("@")[0].replace("_", "-").lower()
    parts = tag.split("-")
    if parts[0] in ("c", "posix", "en"):
        return ENGLISH
    if parts[0] == "zh":
        traditional = "hant" in parts or ("hans" not in parts and not {"tw", "hk", "mo"}.isdisjoint(parts))
        tag = "zh-tw" if traditional else "zh-cn"
    return next((language for language in languages() if language in (tag, parts[0])), None)


@functools.cache
def _catalogue(language: str) -> Mapping[str, str]:
    """What a language has for each English template; nothing if it is not known."""
    if language not in languages():
        return {}
    return json.loads((resources.files(__name__) / f"{language}.json").read_text(encoding="utf-8"))


def packed(text: str) -> Packed:
    """The text as plain strings and tuples, for what is kept on disk."""
    if not isinstance(text, Text):
        return text
    return (str(text), text.template, tuple((k, packed(v) if isinstance(v, str) else v) for k, v in text.values))


def unpacked(plain: Packed) -> str:
    """What `packed` was given."""
    if isinstance(plain, str):
        return plain
    english, template, values = plain
    return Text(english, template, tuple((k, unpacked(v) if isinstance(v, (str, tuple)) else v) for k, v in values))
