"""Which language people are spoken to in: by the environment of a command, by what an editor says it is shown in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

VARIABLE = "GRADLINE_LANG"  # goes before all others
LOCALES = ("LC_ALL", "LC_MESSAGES", "LANG")


def of_environment(environ: Mapping[str, str]) -> str | None:
    """The language that the environment asks for, as gettext reads it; None if it names none that gradline speaks.

    The locale is the first of LC_ALL, LC_MESSAGES and LANG that is set. Where it is one at all (and not `C`), the list
    of languages in LANGUAGE goes before it.
    """
    from .messages import spoken

    if own := environ.get(VARIABLE):
        return spoken(own)
    locale = next((value for name in LOCALES if (value := environ.get(name))), "")
    if locale.partition(".")[0] in ("", "C", "POSIX"):
        return None
    tags = [*environ.get("LANGUAGE", "").split(":"), locale]
    return next((language for tag in tags if (language := spoken(tag)) is not None), None)


def of_windows(number: int) -> str | None:
    """The language that Windows is shown in, by the number that it has there (2052: Chinese in China)."""
    from locale import windows_locale

    from .messages import spoken

    return spoken(windows_locale.get(number, ""))


def _of_system() -> str | None:
    """What the system is shown in, where no environment tells; None where that is not known."""
    if sys.platform != "win32":
        return None
    import ctypes

    return of_windows(ctypes.windll.kernel32.GetUserDefaultUILanguage())


def for_terminal() -> None:
    """Speak to people in the language of the environment or of Windows, if the terminal can write it."""
    from .messages import ENGLISH, use

    told = any(os.environ.get(name) for name in (VARIABLE, *LOCALES))
    language = (of_environment(os.environ) if told else _of_system()) or ENGLISH
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
