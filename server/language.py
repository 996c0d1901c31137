"""Which language people are spoken to in: by the environment of a command, by what an editor says it is shown in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

VARIABLE = "GRADLINE_LANG"  # goes before all others


def of_environment(environ: Mapping[str, str]) -> str | None:
    """The language that the environment asks for, as gettext reads it; None if it names none that gradline speaks.

    The locale is the first of LC_ALL, LC_MESSAGES and LANG that is set. Where it is one at all (and not `C`), the list
    of languages in LANGUAGE goes before it.
    """
    from .messages import spoken

    if own := environ.get(VARIABLE):
        return spoken(own)
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := environ.get(name))), "")
    if locale.partition(".")[0] in ("", "C", "POSIX"):
        return None
    tags = [*environ.get("LANGUAGE", "").split(":"), locale]
    return next((language for tag in tags if (language := spoken(tag)) is not None), None)


def for_terminal() -> None:
    """Speak to people in the language of the environment, if the terminal can write it."""
    from .messages import ENGLISH, use

    language = of_environment(os.environ) or ENGLISH
    use(language if language == ENGLISH or _writes(language) else ENGLISH)


def for_editor(locale: str | None) -> None:
    """Speak in the language that an editor is shown in (`zh-cn`), and that the user has not chosen another instead of."""
    from .messages import ENGLISH, spoken, use

    own = os.environ.get(VARIABLE)
    use(spoken(own or locale or "") or ENGLISH)


def _writes(language: str) -> bool:
    """Whether standard output and the error stream have the characters of a language."""
    from .messages import say, translated

    word = translated(say("error"), language)
    try:
        for stream in (sys.stdout, sys.stderr):
            word.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
