"""Settings: `[tool.gradline]` in `pyproject.toml`, or `gradline.toml`; the nearest file above a source file holds.

As with ruff, settings of several files are not merged, unless one names another in `extend`. Paths and patterns are
relative to the folder of the file that they stand in; patterns are written as in `.gitignore`. Rules are named by
code (`GL101`), by name (`detached-loss`), by the beginning of a code (`GL1`: the family), or `ALL`.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pathspec

from .findings import Severity
from .paths import below, is_top, spelled
from .patterns import gitignore
from .rule import Rule, rules
from .suppress import UNUSED_SUPPRESSION

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILES = ("gradline.toml", ".gradline.toml", "pyproject.toml")  # in one folder, the first one that has settings holds
DEFAULT_EXCLUDE = (
    ".bzr", ".direnv", ".eggs", ".git", ".git-rewrite", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".nox",
    ".pants.d", ".pyenv", ".pytest_cache", ".pytype", ".ruff_cache", ".svn", ".tox", ".venv", ".vscode",
    "__pycache__", "__pypackages__", "_build", "buck-out", "build", "dist", "node_modules", "site-packages",
    "venv",
)  # fmt: skip
DEFAULT_INCLUDE = ("*.py", "*.ipynb")
OFF = "off"
MAX_BYTES = 4_000_000  # of a settings file; the largest lock tables that share a pyproject.toml are far below


class ConfigError(Exception):
    """Settings that can't be used; the text says where, what, and what to do."""

    def __init__(self, file: str, line: int | None, message: str) -> None:
        self.file, self.line, self.message = file, line, message
        place = f"{file}:{line}" if line else file
        super().__init__(f"{place}: {message}")


@functools.cache
def catalog() -> dict[str, Rule]:
    """Every rule that settings can name, by code: those of the analyzers, and the one about suppressions."""
    return {UNUSED_SUPPRESSION.code: UNUSED_SUPPRESSION, **rules()}


def find_rule(word: str) -> Rule | None:
    """The rule with this code or name, whatever the case; None if there is none."""
    word = word.strip().lower().replace("_", "-")
    return next((rule for rule in catalog().values() if word in (rule.code.lower(), rule.name)), None)


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'select'?`, or nothing if no known word is near."""
    near = {option.lower(): option for option in known}
    best = difflib.get_close_matches(word.lower(), near, n=1, cutoff=0.6)
    return f"; did you mean '{near[best[0]]}'?" if best else ""


def rule_words() -> list[str]:
    return [word for rule in catalog().values() for word in (rule.code, rule.name)]


def _selects(selector: str, rule: Rule) -> int:
    """How closely `selector` names `rule`: 0 not at all, else the more the closer."""
    if selector == "ALL":
        return 1
    if selector == rule.name or selector == rule.code:
        return 9
    return len(selector) if rule.code.startswith(selector) else 0


def selector_of(word: str) -> str:
    """A code, a name, a code's beginning or `ALL` in its one spelling; ValueError says what is wrong with it."""
    text = word.strip()
    if text.upper() == "ALL":
        return "ALL"
    if rule := find_rule(text):
        return rule.code
    code = text.upper()
    if re.fullmatch(r"GL\d{0,3}", code) and any(name.startswith(code) for name in catalog()):
        return code
    raise ValueError(f"unknown rule '{word}'{suggestion(text, rule_words())}")


@dataclass(frozen=True)
class Overrides:
    """What the command line says; it goes over the settings of every file."""

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """The settings that hold for a source file. `root` is the folder that paths and patterns are relative to."""

    root: str
    file: str | None = None
    select: tuple[str, ...] = ("ALL",)
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    severity: tuple[tuple[str, str], ...] = ()
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    include: tuple[str, ...] = DEFAULT_INCLUDE
    respect_gitignore: bool = True
    src: tuple[str, ...] = ()
    environment: str | None = None
    overrides: Overrides = field(default_factory=Overrides)
    _memo: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def severity_of(self, rule: Rule, path: str | None = None, default: Severity | None = None) -> Severity | None:
        """How loud `rule` is in the file at `path`; None if it is off there.

        Where the settings say nothing of it that is `default`, or else the rule's own severity.
        """
        if path is not None and rule.code in self._ignored_in(path):
            return None
        if rule.code not in self._severities():
            return None
        return self._severities()[rule.code] or default or rule.severity

    def enabled(self) -> list[Rule]:
        """The rules that are on for at least some files, in the order of their codes."""
        return [rule for rule in catalog().values() if rule.code in self._severities()]

    def excludes(self, path: str, is_dir: bool) -> bool:
        """Whether `exclude` or `extend-exclude` leave out this file or folder itself."""
        plain, spec = self._once("exclude", self._split_excludes)
        if path.rpartition("/")[2] in plain:
            return True
        return spec is not None and spec.match_file(self._relative(path) + ("/" if is_dir else ""))

    def includes(self, path: str) -> bool:
        """Whether a file of this name is looked at when its folder is checked."""
        if self.include == DEFAULT_INCLUDE:
            return path.endswith((".py", ".ipynb"))
        spec = self._once("include", lambda: gitignore(self.include))
        return spec.match_file(self._relative(path))

    def _once(self, key: str, make: Callable[[], Any]) -> Any:
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    def _split_excludes(self) -> tuple[frozenset[str], pathspec.GitIgnoreSpec | None]:
        """Plain names apart from real patterns: the names are most of them, and a set is faster."""
        patterns = [*self.exclude, *self.extend_exclude]
        if any(pattern.startswith("!") for pattern in patterns):
            return frozenset(), gitignore(patterns)
        plain = {pattern for pattern in patterns if not set("*?[]!/\\# ") & set(pattern)}
        rest = [pattern for pattern in patterns if pattern not in plain]
        return frozenset(plain), gitignore(rest) if rest else None

    def _relative(self, path: str) -> str:
        return below(path, self.root) or path.lstrip("/")

    def _severities(self) -> dict[str, Severity | None]:
        """The rules that are on, by code, with the severity that is set for them, if one is."""
        return self._once("severities", self._compute_severities)

    def _compute_severities(self) -> dict[str, Severity | None]:
        found: dict[str, Severity | None] = {}
        for rule in catalog().values():
            on = _decide(rule, (*self.select, *self.extend_select), self.ignore)
            selector, level = max(self.severity, key=lambda item: _selects(item[0], rule), default=("", ""))
            if not selector or not _selects(selector, rule):
                level = ""
            on = on and level != OFF
            if self.overrides.select is not None:
                on = _decide(rule, (*self.overrides.select, *self.overrides.extend_select), self.overrides.ignore)
            elif self.overrides.extend_select or self.overrides.ignore:
                on = _decide(rule, self.overrides.extend_select, self.overrides.ignore, on)
            if on:
                found[rule.code] = Severity(level) if level not in ("", OFF) else None
        return found

    def _ignored_in(self, path: str) -> frozenset[str]:
        if not self.per_file_ignores:
            return frozenset()
        specs = self._once("per-file", self._per_file_specs)
        name = self._relative(path)
        return frozenset(
            rule.code
            for inverse, spec, selectors in specs
            if spec.match_file(name) != inverse
            for rule in catalog().values()
            if any(_selects(selector, rule) for selector in selectors)
        )

    def _per_file_specs(self) -> list[tuple[bool, pathspec.GitIgnoreSpec, tuple[str, ...]]]:
        return [
            (pattern.startswith("!"), gitignore([pattern.removeprefix("!")]), selectors)
            for pattern, selectors in self.per_file_ignores
        ]


def _decide(rule: Rule, select: Sequence[str], ignore: Sequence[str], otherwise: bool = False) -> bool:
    """As ruff decides it: the closer of the two selectors wins, and `ignore` when both are as close."""
    on = max((_selects(selector, rule) for selector in select), default=0)
    off = max((_selects(selector, rule) for selector in ignore), default=0)
    return on > off if on or off else otherwise


class Configuration:
    """The settings of a workspace: finds and reads the file that holds in a folder, once.

    With `file`, that file holds everywhere; with `isolated`, none does. `for_folder` and `for_path` raise
    ConfigError.
    """

    def __init__(self, file: str | None = None, overrides: Overrides | None = None, isolated: bool = False) -> None:
        self.given = (file and os.path.abspath(file), isolated)  # to make the like of it elsewhere
        self._overrides = overrides or Overrides()
        self._default = Settings(root=spelled(os.getcwd()), overrides=self._overrides)
        self._fixed: Settings | None = self._default if isolated else None
        if file is not None:
            settings = self._load(spelled(os.path.abspath(file)), must=True)
            assert settings is not None
            # patterns of a file given by name are relative to where the command runs, as with ruff
            self._fixed = replace(settings, root=self._default.root, _memo={})
        self._folders: dict[str, Settings] = {}

    def for_path(self, path: str) -> Settings:
        return self.for_folder(path.rpartition("/")[0] or "/")

    def for_folder(self, folder: str) -> Settings:
        if self._fixed is not None:
            return self._fixed
        if folder not in self._folders:
            self._folders[folder] = self._search(folder)
        return self._folders[folder]

    def forget(self) -> None:
        """Reads the files anew when next asked."""
        self._folders.clear()

    def _search(self, folder: str) -> Settings:
        for name in FILES:
            file = f"{folder.rstrip('/')}/{name}"
            if os.path.isfile(file) and (settings := self._load(file)) is not None:
                return settings
        if is_top(folder):
            return self._default
        return self.for_folder(folder.rpartition("/")[0] or "/")

    def _load(self, file: str, must: bool = False, seen: tuple[str, ...] = ()) -> Settings | None:
        table = _read_table(file)
        if table is None:
            if must and not file.endswith("pyproject.toml"):
                raise ConfigError(file, None, "has no settings")
            if must:
                raise ConfigError(file, None, "has no [tool.gradline] table")
            return None
        root = file.rpartition("/")[0] or "/"
        reader = _Reader(file, table)
        values = reader.values()
        base = Settings(root=root, file=file, overrides=self._overrides)
        if extend := table.get("extend"):
            if not isinstance(extend, str):
                raise ConfigError(file, reader.line("extend"), "'extend' must be a path, such as \"../gradline.toml\"")
            parent = spelled(os.path.normpath(os.path.join(root, os.path.expanduser(extend))))
            if parent in (*seen, file):
                raise ConfigError(file, reader.line("extend"), f"'extend' leads in a circle: {parent}")
            if not os.path.isfile(parent):
                raise ConfigError(file, reader.line("extend"), f"'extend' names a file that is not there: {parent}")
            inherited = self._load(parent, must=True, seen=(*seen, file))
            assert inherited is not None
            base = replace(inherited, root=root, file=file, _memo={})
            for key in ("src",):  # keep what the parent's relative paths meant
                absolute = tuple(os.path.join(inherited.root, item) for item in getattr(inherited, key))
                base = replace(base, **{key: absolute})
        return replace(base, **values, _memo={})


def _read_table(file: str) -> Mapping[str, Any] | None:
    """The table of settings in a file, None if it is a `pyproject.toml` without one."""
    try:
        if os.path.exists(file) and not os.path.isfile(file):
            raise ConfigError(file, None, "is no file: give one that holds settings")
        with open(file, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(file, None, f"is larger than {MAX_BYTES // 1_000_000} MB: that can't be settings")
    except OSError as error:
        raise ConfigError(file, None, f"can't be read: {(error.strerror or str(error)).lower()}") from None
    pyproject = file.endswith("pyproject.toml")
    try:
        document: Mapping[str, Any] = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(file, line, "is not UTF-8, which TOML must be; save it as UTF-8") from None
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        place = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        message = str(error)[: place.start()] if place else str(error).removesuffix(" (at end of document)")
        line = int(place[1]) if place else data.count(b"\n") + 1
        column = f" at column {place[2]}" if place else ""
        raise ConfigError(file, line, f"is no valid TOML: {message[:1].lower()}{message[1:]}{column}") from None
    if not pyproject:
        return document
    tool = document.get("tool")
    table = tool.get("gradline") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ConfigError(file, _line_of(data.decode(), "gradline"), "[tool.gradline] must be a table of settings")
    return table


def _line_of(text: str, word: str, after: str = "") -> int | None:
    """The line where a key or a string stands, below the line that holds `after`; a help for the eye, no more."""
    start = text.find(after) if after else 0
    pattern = rf"(?<![\w.-])[\"']?{re.escape(word)}[\"']?(?![\w-])"
    match = re.compile(pattern).search(text, max(start, 0)) or re.search(pattern, text)
    return text.count("\n", 0, match.start()) + 1 if match else None


class _Reader:
    """Turns a table into the arguments of `Settings`, and says precisely what is wrong with it."""

    def __init__(self, file: str, table: Mapping[str, Any]) -> None:
        self.file = file
        self.table = table
        self.where = "[tool.gradline]" if file.endswith("pyproject.toml") else "the settings"

    def line(self, word: str) -> int | None:
        with open(self.file, encoding="utf-8-sig") as stream:
            text = stream.read()
        return _line_of(text, word, "[tool.gradline" if self.where.startswith("[") else "")

    def fail(self, word: str, message: str) -> ConfigError:
        return ConfigError(self.file, self.line(word), message)

    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in self.table.items():
            if key not in KEYS:
                raise self.fail(key, f"unknown setting '{key}' in {self.where}{suggestion(key, KEYS)}")
            read = KEYS[key].read
            if read is not None:
                values[key.replace("-", "_")] = read(self, key, value)
        return values

    def strings(self, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fail(key, f"'{key}' must be a list of strings, such as {KEYS[key].example}")
        return tuple(value)

    def selectors(self, key: str, value: object) -> tuple[str, ...]:
        found = []
        for word in self.strings(key, value):
            try:
                found.append(selector_of(word))
            except ValueError as error:
                raise self.fail(word, f"{error} in '{key}' (`gradline rules` lists them)") from None
        return tuple(found)

    def patterns(self, key: str, value: object) -> tuple[str, ...]:
        patterns = self.strings(key, value)
        for pattern in patterns:
            try:
                gitignore([pattern])
            except ValueError as error:
                raise self.fail(pattern, f"'{key}' has the pattern '{pattern}', which is invalid: {error}") from None
        return patterns

    def boolean(self, key: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise self.fail(key, f"'{key}' must be true or false")
        return value

    def path(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not value or "\0" in value:
            raise self.fail(key, f"'{key}' must be a path, such as {KEYS[key].example}")
        return spelled(os.path.join(self.file.rpartition("/")[0], os.path.expanduser(value)))

    def per_file(self, key: str, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
        if not isinstance(value, dict):
            raise self.fail(key, f"'{key}' must be a table of patterns, such as {KEYS[key].example}")
        self.patterns_of_table(key, value)
        found = []
        for pattern, words in value.items():
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise self.fail(pattern, f'\'{key}."{pattern}"\' must be a list of rules, such as ["GL101"]')
            try:
                found.append((pattern, tuple(selector_of(word) for word in words)))
            except ValueError as error:
                raise self.fail(pattern, f"{error} in '{key}' (`gradline rules` lists them)") from None
        return tuple(found)

    def patterns_of_table(self, key: str, value: Mapping[str, Any]) -> None:
        for pattern in value:
            try:
                gitignore([pattern.removeprefix("!")])
            except ValueError as error:
                raise self.fail(pattern, f"'{key}' has the pattern '{pattern}', which is invalid: {error}") from None

    def severities(self, key: str, value: object) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, dict):
            raise self.fail(key, f"'{key}' must be a table, such as {KEYS[key].example}")
        levels = [OFF, *(level.value for level in Severity)]
        found = []
        for word, level in value.items():
            try:
                selector = selector_of(word)
            except ValueError as error:
                raise self.fail(word, f"{error} in '{key}' (`gradline rules` lists them)") from None
            if level not in levels:
                hint = suggestion(str(level), levels)
                known = ", ".join(f'"{name}"' for name in levels)
                raise self.fail(word, f"'{key}.{word}' is {level!r}, but must be one of {known}{hint}")
            found.append((selector, level))
        return tuple(found)


@dataclass(frozen=True)
class Key:
    """One setting: how it is read, what it is for, its default and an example, both as TOML."""

    read: Callable[[_Reader, str, Any], Any] | None
    help: str
    default: str
    example: str


KEYS: dict[str, Key] = {
    "select": Key(_Reader.selectors, "The rules that are on.", '["ALL"]', '["GL1", "detached-loss"]'),
    "extend-select": Key(_Reader.selectors, "Rules that are on besides those of `select`.", "[]", '["GL203"]'),
    "ignore": Key(_Reader.selectors, "The rules that are off.", "[]", '["GL301"]'),
    "per-file-ignores": Key(
        _Reader.per_file,
        "Rules that are off in the files that a pattern names; `!` before it: in all others.",
        "{}",
        '{ "tests/**" = ["ALL"] }',
    ),
    "severity": Key(
        _Reader.severities,
        'How loud a rule is: "error", "warning", "info", "hint", or "off".',
        "{}",
        '{ GL301 = "warning", no-grad-without-effect = "off" }',
    ),
    "exclude": Key(
        _Reader.patterns,
        "Files and folders that are not looked at.",
        "[" + ", ".join(f'"{name}"' for name in DEFAULT_EXCLUDE) + "]",
        '["third_party", "experiments/old/"]',
    ),
    "extend-exclude": Key(
        _Reader.patterns, "The same, besides those of `exclude`.", "[]", '["third_party", "*_pb2.py"]'
    ),
    "include": Key(_Reader.patterns, "The files of a folder that are looked at.", '["*.py", "*.ipynb"]', '["*.py"]'),
    "respect-gitignore": Key(
        _Reader.boolean, "Whether what `.gitignore` and `.ignore` leave out is left out here too.", "true", "false"
    ),
    "src": Key(
        _Reader.strings,
        "Folders that absolute imports are looked for in, besides the root, `src`, and the script's own.",
        "[]",
        '["python", "libs/core"]',
    ),
    "environment": Key(
        _Reader.path,
        "The environment whose packages are imported: its folder, or a Python interpreter in it.",
        "found: $VIRTUAL_ENV, a `.venv`, `venv` or `env` folder, $CONDA_PREFIX",
        '".venv"',
    ),
    "extend": Key(None, "A file whose settings hold where this one says nothing.", "none", '"../gradline.toml"'),
}
