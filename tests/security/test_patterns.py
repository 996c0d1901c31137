"""Patterns of ignore files and settings: what pathspec says, and in reasonable time even where pathspec takes hours."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from gradline.patterns import gitignore

NAMES = st.lists(
    st.sampled_from(["a", "b", ".", "ab", "aab", "*", "[ab]", "[!a]", "?", "\\*", "[]a]"]), min_size=1, max_size=6
)
PIECES = st.one_of(NAMES.map("".join), st.just("**"), st.just("*"))
PATTERNS = st.builds(
    lambda head, pieces, tail: head + "/".join(pieces) + tail,
    st.sampled_from(["", "", "/", "!", "**/"]),
    st.lists(PIECES, min_size=1, max_size=5),
    st.sampled_from(["", "", "/", "/**"]),
)
PATHS = st.lists(st.text("ab.*", min_size=1, max_size=6), min_size=1, max_size=6).map("/".join)


@settings(max_examples=2000, deadline=None)
@given(st.lists(PATTERNS, min_size=1, max_size=3), st.lists(PATHS, min_size=1, max_size=8))
def test_they_match_what_they_did(patterns, paths):
    try:
        known = GitIgnoreSpec.from_lines(patterns)
    except ValueError:
        with pytest.raises(ValueError):
            gitignore(patterns)
        return
    ours = gitignore(patterns)
    for path in (*paths, *(f"{path}/" for path in paths)):
        assert ours.match_file(path) == known.match_file(path), (patterns, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a*a*a*a*a*a*a*b", "a" * 250),
        ("*[ab]*?*a*a*a*a*a*a*a*a*a*b", "a" * 250),
        ("**/a/**/a/**/a/**/a/**/a/**/b", "/".join("a" * 2000)),
        ("*a*a/*a*a/*a*a/**/*a*a/**/*a*b", "/".join(["aaaaaaaa"] * 200)),
        ("a*" * 60 + "b", "a" * 250),
    ],
)
def test_a_hostile_pattern_takes_no_time(pattern, path):
    began = time.process_time()
    assert not gitignore([pattern]).match_file(path)
    assert gitignore([pattern]).match_file(path + "b" if "/" not in pattern else path + "/aab/b")
    assert time.process_time() - began < 2


def test_a_hostile_project_does_not_hang_the_check(tmp_path):
    (tmp_path / ("a" * 200 + ".py")).write_text("x = 1\n")
    (tmp_path / ".gitignore").write_text("*a*a*a*a*a*a*a*b\n")
    (tmp_path / "gradline.toml").write_text(
        'exclude = ["*a*a*a*a*a*a*a*b"]\nper-file-ignores = { "*a*a*a*a*a*a*a*b" = ["ALL"] }\n'
    )
    run = subprocess.run(
        [sys.executable, "-m", "gradline", "check", "--no-cache"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "All checks passed!\n", "")
