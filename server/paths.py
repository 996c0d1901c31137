"""Paths as text: absolute, `/` between the names on every system, one spelling for one file. Pure: asks no disk.

A path of Windows has a capital drive letter (`C:/a.py`; editors write small ones), and a share begins with two slashes
(`//server/share/a.py`). The top of each is written without a slash at its end: `C:`, `//server/share`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote, urlsplit

WINDOWS = os.name == "nt"
_DRIVE = re.compile(r"[A-Za-z]:(?=/|$)")
_SHARE = re.compile(r"//[^/]+/[^/]+$")


def spelled(path: str, windows: bool = WINDOWS) -> str:
    """An absolute path of this system (of Windows, if asked) in our spelling. `\\\\?\\` only lifts limits, and goes."""
    if not windows:
        return path
    path = path.replace("\\", "/")
    for prefix, instead in (("//?/UNC/", "//"), ("//?/", ""), ("//./", "")):
        if path.upper().startswith(prefix):
            path = instead + path[len(prefix) :]
            break
    if _DRIVE.match(path):
        path = path[0].upper() + path[1:]
    return path.rstrip("/") if is_top(path.rstrip("/")) else path


def is_top(path: str) -> bool:
    """Whether nothing lies above: `/`, `C:`, `//server/share`."""
    return path == "/" or _DRIVE.fullmatch(path) is not None or _SHARE.fullmatch(path) is not None


def folder(path: str) -> str:
    """The folder that holds `path`; `/` for whatever has none."""
    return "/" if is_top(path) else path.rpartition("/")[0] or "/"


def parents(path: str) -> Iterator[str]:
    """The folders that hold `path`, nearest first, the top last."""
    while not is_top(path) and (up := folder(path)) != path:
        yield up
        path = up


def listable(path: str) -> str:
    """A folder as the system must be asked for it: `C:` alone would be wherever on that drive the process stands."""
    return path.rstrip("/") + "/" if is_top(path) else path


def below(path: str, top: str) -> str | None:
    """`path` as seen from the folder `top`; None if it does not lie below. Windows knows no capital letters."""
    start = top.rstrip("/") + "/"
    if path.startswith(start) or (
        (_DRIVE.match(top) or top.startswith("//")) and path.lower().startswith(start.lower())
    ):
        return path[len(start) :]
    return None


def uri_of(path: str) -> str:
    """The `file:` address of an absolute path. A name that is no text goes by its bytes."""
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        return f"file://{host}{slash}{quoted(rest)}"
    drive = _DRIVE.match(path)
    return f"file:///{drive[0]}{quoted(path[2:])}" if drive else f"file://{quoted(path)}"


def of_uri(uri: str) -> str | None:
    """The path that a `file:` address names (`file:///c%3A/a%20b.py`); None if it is none."""
    parts = urlsplit(uri)
    if parts.scheme.lower() != "file":
        return None
    path = unquote(uri.partition(":")[2].removeprefix("//").removeprefix(parts.netloc), errors="surrogateescape")
    if parts.netloc and parts.netloc.lower() != "localhost":
        return spelled(f"//{unquote(parts.netloc)}{path}", windows=True)
    if _DRIVE.match(path[1:]):
        return spelled(path[1:], windows=True)
    return path or None


def is_absolute(path: str) -> bool:
    return path.startswith("/") or _DRIVE.match(path) is not None


def quoted(path: str) -> str:
    """A path or a part of one as it stands in an address."""
    try:
        return quote(path, errors="surrogateescape")
    except UnicodeEncodeError:
        return quote(path, errors="surrogatepass")
