"""Paths of Windows, macOS and Linux, on whatever system this runs: what pathlib says of them is the measure."""

from __future__ import annotations

import ntpath
from pathlib import PurePosixPath, PureWindowsPath

import pytest

from gradline import disk, paths, report
from gradline.lsp import convert

WINDOWS = [
    (r"C:\proj\train.py", "C:/proj/train.py"),
    (r"c:\proj\train.py", "C:/proj/train.py"),
    (r"C:/proj\sub/train.py", "C:/proj/sub/train.py"),
    (r"\\server\share\proj\train.py", "//server/share/proj/train.py"),
    (r"\\?\C:\proj\train.py", "C:/proj/train.py"),
    (r"\\?\c:\a very long one\train.py", "C:/a very long one/train.py"),
    (r"\\?\UNC\server\share\train.py", "//server/share/train.py"),
    (r"\\.\C:\proj\train.py", "C:/proj/train.py"),
    ("C:\\", "C:"),
    ("c:", "C:"),
    ("\\\\server\\share\\", "//server/share"),
    (r"D:\ünïcode 😀\a#b%c.py", "D:/ünïcode 😀/a#b%c.py"),
]
FILES = [ours for _, ours in WINDOWS if ours.endswith(".py")]
POSIX = ["/proj/train.py", "/a b/ü/a#b%c?.py", "/back\\slash.py", "/c:/x.py", "/x"]


@pytest.mark.parametrize(("theirs", "ours"), WINDOWS)
def test_one_spelling(theirs, ours):
    assert paths.spelled(theirs, windows=True) == ours
    assert paths.spelled(ours, windows=True) == ours
    assert "\\" not in ours and not ours.endswith("/")


def test_a_backslash_is_a_letter_elsewhere():
    assert paths.spelled("/back\\slash.py", windows=False) == "/back\\slash.py"


@pytest.mark.parametrize("path", FILES)
def test_folders_of_windows(path):
    above = [str(one).rstrip("\\") for one in PureWindowsPath(path).parents]
    assert [one.replace("/", "\\") for one in paths.parents(path)] == above
    assert paths.folder(path).replace("/", "\\") == above[0]
    top = list(paths.parents(path))[-1]
    assert paths.is_top(top) and list(paths.parents(top)) == [] and paths.folder(top) == "/"
    assert ntpath.isabs(paths.listable(top).replace("/", "\\")), "a drive without a slash is a relative path"


@pytest.mark.parametrize("path", POSIX)
def test_folders_elsewhere(path):
    assert list(paths.parents(path)) == [str(one) for one in PurePosixPath(path).parents]
    assert list(disk._parents(path)) == list(paths.parents(path))


@pytest.mark.parametrize("path", FILES)
def test_addresses_of_windows(path):
    uri = paths.uri_of(path)
    assert uri == PureWindowsPath(path).as_uri()
    assert paths.of_uri(uri) == path
    assert convert.path_of(convert.uri_of(path)) == path


@pytest.mark.parametrize("path", POSIX)
def test_addresses_elsewhere(path):
    if path != "/c:/x.py":  # a folder `c:` at the top, which no editor can tell from a drive
        assert paths.of_uri(paths.uri_of(path)) == path
        assert paths.of_uri(PurePosixPath(path).as_uri()) == path
        assert convert.path_of(convert.uri_of(path)) == path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///c%3A/proj/a%20b.py", "C:/proj/a b.py"),  # as VS Code writes it
        ("file:///c:/proj/train.py", "C:/proj/train.py"),
        ("file:///C:/proj/train.py", "C:/proj/train.py"),
        ("FILE:///C:/proj/train.py", "C:/proj/train.py"),
        ("file://server/share/a.py", "//server/share/a.py"),
        ("file://wsl%24/Ubuntu/home/a.py", "//wsl$/Ubuntu/home/a.py"),
        ("file://localhost/proj/a.py", "/proj/a.py"),
        ("file:///proj/a%23b%3Fc%25.py", "/proj/a#b?c%.py"),
        ("file:///proj/bad%FF.py", "/proj/bad\udcff.py"),
        ("untitled:Untitled-1", None),
        ("vscode-notebook-cell:/c%3A/n.ipynb#W0", None),
        ("", None),
    ],
)
def test_addresses_as_editors_write_them(uri, path):
    assert paths.of_uri(uri) == path
    assert convert.path_of(uri) == (path or uri)


@pytest.mark.parametrize(
    ("path", "top", "rest"),
    [
        ("C:/proj/a.py", "C:/proj", "a.py"),
        ("C:/Proj/Sub/a.py", "c:/proj", "Sub/a.py"),
        ("C:/project/a.py", "C:/proj", None),
        ("C:/a.py", "C:", "a.py"),
        ("D:/a.py", "C:", None),
        ("//Server/Share/a.py", "//server/share", "a.py"),
        ("/proj/a.py", "/proj", "a.py"),
        ("/Proj/a.py", "/proj", None),
        ("/a.py", "/", "a.py"),
        ("/proj", "/proj", None),
    ],
)
def test_what_lies_below(path, top, rest):
    assert paths.below(path, top) == rest


def test_a_report_on_windows_names_files_from_here():
    made = report.Report((), lambda path: None, {}, "C:/Proj")
    assert made.name("C:/proj/sub/a.py") == "sub/a.py"
    assert made.name("D:/a.py") == "D:/a.py"


def test_the_top_of_a_drive_is_listed_as_such(monkeypatch):
    asked = []

    def scandir(path):
        asked.append(path)
        raise OSError

    monkeypatch.setattr(disk.os, "scandir", scandir)
    some = disk.Disk([])
    some.is_file("C:/train.py")
    some.is_file("//server/share/train.py")
    some.is_file("C:/proj/train.py")
    some.is_file("/train.py")
    assert asked == ["C:/", "//server/share/", "C:/proj", "/"]
