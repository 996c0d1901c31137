"""Files on the disk: which ones to check, reading them, and where the imports of one of them are looked for.

`Disk` is the `Files` that a `Project` reads through. It runs nothing: an environment is recognised by what lies in
it. Paths are absolute, with `/` between the names on every system; a symbolic link keeps the name that the user
knows it by. What can't be read becomes a `Problem`, never an exception.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sysconfig
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pathspec

from . import paths, text
from .config import Configuration
from .paths import folder as _folder
from .paths import parents as _parents
from .patterns import gitignore

MARKERS = ("pyproject.toml", "gradline.toml", ".gradline.toml", "setup.py", "setup.cfg", ".git", ".hg")
IGNORE_FILES = (".gitignore", ".ignore")  # the later one wins, as in ripgrep and ruff
SETTINGS = frozenset(("pyproject.toml", "gradline.toml", ".gradline.toml", *IGNORE_FILES))
ENVIRONMENTS = (".venv", "venv", "env", ".env")  # looked for in the project's root and above
TURN = 200  # files whose stamps are looked at before others have a turn: a millisecond
MAX_TEXT = 1_000_000  # bytes of an ignore file, a `.pth` file or a `pyvenv.cfg`; real ones have a few hundred
MAX_LINES = 1_000_000  # of one program; each costs some hundred bytes of memory to read
MAX_BYTES = 50_000_000  # a Python text longer than this is data; reading it would only cost memory


class Problem(NamedTuple):
    """Something that could not be checked, as a sentence without a full stop, and whether that is an error."""

    path: str
    message: str
    fatal: bool = True


def normal(path: str) -> str:
    """`path` absolute, without `.` and `..`, with `/` between the names; `~` is the user's home."""
    return paths.spelled(os.path.abspath(os.path.expanduser(path)))


class _Stamp(NamedTuple):
    """By which a file or folder is seen to be another one."""

    time: int
    size: int


def _stamp(path: str) -> _Stamp | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return _Stamp(status.st_mtime_ns, 0 if stat.S_ISDIR(status.st_mode) else status.st_size)


def _counts(name: str, is_dir: bool) -> bool:
    """Whether it may be a program, lead to one, or hold settings."""
    if is_dir:
        return name != "__pycache__" and not name.startswith(".")
    return name.endswith((".py", ".ipynb")) or name in SETTINGS


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()


def _kind(path: str) -> str:
    """What a path leads to that is neither a file nor a folder."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return "something"
    kinds = (
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for test, name in kinds if test(mode)), "something special")


def _lines(path: str) -> list[str] | None:
    """The lines of a small text that belongs to no program; None if it is no file, too long, or can't be read."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_TEXT:  # opening a pipe would wait for its other end
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_TEXT).splitlines()
    except (OSError, ValueError):
        return None


class _Ignores(NamedTuple):
    """The ignore rules that hold in a folder: each with the folder that its patterns are relative to."""

    specs: tuple[tuple[str, pathspec.GitIgnoreSpec], ...] = ()

    def hides(self, path: str, is_dir: bool) -> bool:
        """Whether git would ignore `path`: the innermost file that says anything about it decides."""
        for root, spec in reversed(self.specs):
            said = spec.check_file(path[len(root) + 1 :] + ("/" if is_dir else "")).include
            if said is not None:
                return said
        return False


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link in a circle


def _list(folder: str) -> dict[str, bool]:
    listing: dict[str, bool] = {}
    try:
        with os.scandir(paths.listable(folder or "/")) as entries:
            for entry in entries:
                try:
                    if entry.is_dir():
                        listing[entry.name] = True
                    elif entry.is_file():
                        listing[entry.name] = False
                except OSError:
                    continue  # a link in a circle
    except (OSError, ValueError):
        pass  # a folder that isn't there, or that we may not see, holds nothing to import
    return listing


class Disk:
    """The files below `roots` (the workspace) and those that they import. Listings are remembered until `forget`."""

    def __init__(
        self,
        roots: Sequence[str],
        configuration: Configuration | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.roots = tuple(normal(root) for root in roots)
        self.near: set[str] = set()  # folders of single files that are looked at: the user's own, but not searched
        self.configuration = configuration or Configuration()
        self.problems: list[Problem] = []
        self.seen: dict[str, bytes | None] = {}  # the files that were read, with a hash of the bytes that were there
        self.walked: set[str] = set()  # the folders whose files were asked for
        self._environ = environ
        self._listings: dict[str, dict[str, bool]] = {}
        self._stamps: dict[str, _Stamp | None] = {}  # of the files that were read, and those with settings
        self._held: dict[str, tuple[_Stamp | None, frozenset[str]]] = {}  # of the folders: what counts there
        self._search: dict[str, list[str]] = {}
        self._sites: dict[str, tuple[str, ...]] = {}
        self._project_roots: dict[str, str] = {}  # of the files in a folder
        self._asked: set[str] = set()
        self._named: set[str] = set()

    # What a Project asks

    def read(self, path: str) -> text.Source | None:
        """The text at `path`; None (and a problem) if it can't be read, decoded, or is no notebook."""
        asked = path in self._asked  # a dependency that can't be read is no failure of the check
        try:
            with open(path, "rb") as file:
                size = (status := os.fstat(file.fileno())).st_size
                self._stamps[path] = _Stamp(status.st_mtime_ns, size)
                data = file.read(MAX_BYTES + 1) if size <= MAX_BYTES else b""
            if max(size, len(data)) > MAX_BYTES:
                # in a folder such a file is data; who names it wants it checked
                said = f"is larger than {MAX_BYTES // 1_000_000} MB and was not read"
                self._problem(path, said, path in self._named)
                return None
        except FileNotFoundError:
            self._problem(path, "vanished before it was read", False)
            return None
        except OSError as error:
            self._problem(path, f"can't be read: {_reason(error)}", asked)
            return None
        self.seen[path] = _hash(data)
        return self.decode(path, data)

    def decode(self, path: str, data: bytes) -> text.Source | None:
        """What `read` makes of a file with these bytes."""
        try:
            decoded = text.decode(data)
        except text.UndecodableError as error:
            self._problem(path, f"can't be decoded: {error}", path in self._asked)
            return None
        if path.endswith(".ipynb"):
            from . import notebooks  # most checks meet none

            try:
                return self._bounded(path, notebooks.read(decoded.text).source(path))
            except notebooks.NotebookError as error:
                self._problem(path, f"can't be read: {error}", path in self._asked)
                return None
        return self._bounded(path, text.Source(decoded.text, path))

    def _bounded(self, path: str, source: text.Source) -> text.Source | None:
        """The source, unless it has more lines than anybody writes."""
        if source.text.count("\n") <= MAX_LINES:
            return source
        self._problem(path, f"has more than {MAX_LINES:,} lines and was not read", path in self._named)
        return None

    def is_file(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return self._listing(folder or "/").get(name) is False

    def is_dir(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return not name or self._listing(folder or "/").get(name) is True

    def listdir(self, path: str) -> list[str]:
        """The names in a folder, sorted; empty if there is no such folder or it can't be listed."""
        return sorted(self._listing(path))

    def search_path(self, path: str) -> list[str]:
        """Where an absolute import made in `path` is looked for, first the workspace, then the environment.

        A file outside a package is taken to be run as a script, or imported by one that lies in a folder above it:
        its own folder comes first, then the folders up to the project's root. For a file in a package that is the
        folder that holds the outermost package; its own folder comes last, for those who run such files as scripts.
        """
        folder = _folder(path)
        if folder not in self._search:
            self._search[folder] = self._roots_for(path)
        return self._search[folder]

    def is_project(self, path: str) -> bool:
        """Whether `path` is the user's own code: in the workspace (or near a single file) and not in an environment."""
        if not any(path.startswith(root.rstrip("/") + "/") for root in (*self.roots, *self.near)):
            return False
        if "/site-packages/" in path or "/dist-packages/" in path:
            return False
        return not any(path.startswith(site + "/") for site in self._environment(path))

    # For those who hold a Disk

    def forget(self) -> None:
        """Forgets what folders hold and the problems met, as files have come or gone."""
        self._listings.clear()
        self._search.clear()
        self._sites.clear()
        self._project_roots.clear()
        self.problems.clear()

    def altered(self, besides: Container[str] = ()) -> Iterator[tuple[str, bool] | None]:
        """The files that are not as they were when they were read or their folder was looked into, and whether they
        have come or gone; None now and then. `touched` is to be called with those that have been dealt with."""
        for number, (path, before) in enumerate(list(self._stamps.items())):
            if path not in besides and (now := _stamp(path)) != before:
                yield path, now is None or before is None
            if number % TURN == 0:
                yield None
        for number, (folder, (before, names)) in enumerate(list(self._held.items())):
            if (now := _stamp(folder or "/")) != before:
                present = frozenset(name for name, is_dir in _list(folder).items() if _counts(name, is_dir))
                for name in names ^ present:
                    path = f"{folder.rstrip('/')}/{name}"
                    yield (
                        path if _counts(name, False) else f"{path}/__init__.py",
                        True,
                    )  # a folder is what it may lead to
                if names == present:  # something that does not count has come or gone
                    self._held[folder] = now, names
            if number % TURN == 0:
                yield None

    def touched(self, paths: Iterable[str]) -> None:
        """Files have come, gone or changed: they are looked at anew when they are asked for."""
        self.forget()
        self._held.clear()
        for path in paths:
            self._stamps.pop(path, None)

    def digest(self, path: str) -> bytes | None:
        """A hash of the bytes of a file; None if it can't be read."""
        try:
            with open(path, "rb") as file:
                return _hash(file.read())
        except OSError:
            return None

    def names_digest(self, folder: str) -> bytes:
        """A hash of what lies in a folder, as far as an import can lead there."""
        names = [
            f"{name}/" if is_dir else name
            for name, is_dir in sorted(self._listing(folder).items())
            if (is_dir and name.isidentifier() and name != "__pycache__") or name.endswith(".py")
        ]
        return hashlib.blake2b("\n".join(names).encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def listed(self) -> list[str]:
        """The folders that were looked into so far."""
        return list(self._listings)

    def visited(self, files: Mapping[str, bytes | None], folders: Iterable[str]) -> None:
        """Files and folders that were read elsewhere for this check: it depends on them, too."""
        self.seen.update(files)
        for folder in folders:
            self._listing(folder)

    def ask_for(self, paths: Iterable[str]) -> None:
        """These files were asked for: that one of them can't be read is an error."""
        self._asked.update(paths)

    def root_of(self, path: str) -> str:
        """The project's root: the nearest folder with a `pyproject.toml`, a repository or the like, within the
        workspace folder that holds `path`; that folder itself if there is none."""
        return self._project_root(path)

    def discover(self, paths: Iterable[str], force_exclude: bool = False) -> list[str]:
        """The files to check for `paths`, sorted, each once.

        A file that is named is checked whatever the settings say (unless `force_exclude`); a folder is walked, less
        what its settings, the default excludes and the ignore files leave out. Links to folders are not followed,
        as they lead to data sets or round in circles.
        """
        found: dict[str, None] = {}
        for given in paths:
            path = normal(given)
            if os.path.isdir(path):
                found.update(dict.fromkeys(self._walk(path)))
            elif os.path.exists(path) and not os.path.isfile(path):
                self._problem(path, f"is {_kind(path)} and no file: nothing is read from it (`-` is standard input)")
            elif os.path.exists(path):
                self._named.add(path)
                if not (force_exclude and self._left_out(path)):
                    found[path] = None
            elif os.path.islink(path):
                self._problem(path, "is a link that leads nowhere")
            else:
                self._problem(path, "does not exist")
        self._asked.update(found)
        return sorted(found)

    # Walking

    def _problem(self, path: str, message: str, fatal: bool = True) -> None:
        """Notes a problem once. `fatal`: what was asked for was not done."""
        problem = Problem(path, message, fatal)
        if problem not in self.problems:
            self.problems.append(problem)

    def _listing(self, folder: str) -> dict[str, bool]:
        """What lies in a folder: name to whether it is a folder. Sockets, pipes and dead links are left out."""
        listing = self._listings.get(folder)
        if listing is None:
            before = _stamp(folder or "/")
            listing = self._listings[folder] = _list(folder)
            self._hold(folder, before, listing)
        return listing

    def _hold(self, folder: str, before: _Stamp | None, listing: Mapping[str, bool]) -> None:
        """Remembers a folder as it was when it was looked into."""
        names = frozenset(name for name, is_dir in listing.items() if _counts(name, is_dir))
        self._held[folder] = before, names
        for name in names & SETTINGS:
            self._stamps.setdefault(f"{folder.rstrip('/')}/{name}", _stamp(f"{folder}/{name}"))

    def _walk(self, top: str) -> Iterator[str]:
        ignores = self._ignores_above(top)
        if any(ignores.hides(folder, True) for folder in (top, *_parents(top))):
            ignores = _Ignores()  # asked for by name
        stack = [(top, ignores)]
        while stack:
            folder, ignores = stack.pop()
            self.walked.add(folder)
            before = _stamp(folder)
            settings = self.configuration.for_folder(folder)
            ignores = self._with_ignores_of(folder, ignores) if settings.respect_gitignore else _Ignores()
            try:
                with os.scandir(paths.listable(folder)) as entries:
                    listing = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                gone = error.errno == errno.ENOENT
                self._problem(folder, f"can't be listed: {_reason(error)}", fatal=not gone)
                continue
            self._hold(folder, before, {entry.name: _is_dir(entry) for entry in listing})
            for entry in listing:
                path = f"{folder.rstrip('/')}/{entry.name}"
                try:
                    is_dir = entry.is_dir(follow_symlinks=False)
                    if not is_dir and (not settings.includes(path) or not entry.is_file()):
                        continue
                    if is_dir and os.path.exists(f"{path}/pyvenv.cfg"):
                        continue
                except OSError:
                    continue
                if settings.excludes(path, is_dir) or ignores.hides(path, is_dir):
                    continue
                if is_dir:
                    stack.append((path, ignores))
                else:
                    yield path

    def _left_out(self, path: str) -> bool:
        """Whether walking the project would leave out this file or a folder above it."""
        settings = self.configuration.for_folder(_folder(path))
        top = self._project_root(path).rstrip("/") + "/"
        above = [up for up in _parents(path) if up.startswith(top)]
        ignores = self._ignores_above(path) if settings.respect_gitignore else _Ignores()
        chain = [(path, False), *((up, True) for up in above)]
        return any(settings.excludes(item, is_dir) or ignores.hides(item, is_dir) for item, is_dir in chain)

    def _ignores_above(self, top: str) -> _Ignores:
        """The ignore files of the folders between the repository's root and `top`, both less `top` itself."""
        above: list[str] = []
        for folder in (top, *_parents(top)):
            above.append(folder)
            if os.path.exists(f"{folder}/.git"):
                break
        else:
            return _Ignores()  # no repository: what lies above is somebody else's
        ignores = _Ignores(self._spec(above[-1], f"{above[-1]}/.git/info/exclude"))
        for folder in reversed(above[1:]):
            ignores = self._with_ignores_of(folder, ignores)
        return ignores

    def _with_ignores_of(self, folder: str, ignores: _Ignores) -> _Ignores:
        more = [spec for name in IGNORE_FILES for spec in self._spec(folder, f"{folder}/{name}")]
        return _Ignores(ignores.specs + tuple(more)) if more else ignores

    def _spec(self, folder: str, path: str) -> tuple[tuple[str, pathspec.GitIgnoreSpec], ...]:
        lines = _lines(path)
        if lines is None:
            return ()
        try:
            return ((folder.rstrip("/"), gitignore(lines)),)
        except ValueError as error:
            self._problem(path, f"has a pattern that git would not understand: {error}", fatal=False)
            return ()

    # Imports

    def _project_root(self, path: str) -> str:
        own = _folder(path)
        if own not in self._project_roots:
            self._project_roots[own] = self._find_project_root(path)
        return self._project_roots[own]

    def _find_project_root(self, path: str) -> str:
        inside = [root for root in self.roots if path.startswith(root.rstrip("/") + "/")]
        top = max(inside, key=len, default="")
        for folder in _parents(path):
            if folder == top or any(os.path.exists(f"{folder}/{marker}") for marker in MARKERS):
                return folder
        return _folder(path)

    def _roots_for(self, path: str) -> list[str]:
        own = _folder(path)
        root = self._project_root(path)
        settings = self.configuration.for_folder(own)
        package = own  # the folder that holds the outermost package around `path`
        while package != "/" and self.is_file(f"{package}/__init__.py"):
            package = _folder(package)
        roots = [package]
        for folder in _parents(package):
            if not folder.startswith(root):
                break
            roots.append(folder)
        configured = [normal(os.path.join(settings.root, name)) for name in settings.src]
        roots += [folder for folder in (f"{root}/src", *configured) if self.is_dir(folder)] + [root]
        if package != own and not path.endswith("/__init__.py"):
            roots.append(own)
        return list(dict.fromkeys([*roots, *self._environment(path)]))

    def _environment(self, path: str) -> tuple[str, ...]:
        """The site-packages folders (and what their `.pth` files add) of the environment that `path` is run in."""
        root = self._project_root(path)
        if root not in self._sites:
            settings = self.configuration.for_folder(_folder(path))
            self._sites[root] = tuple(self._find_environment(root, settings.environment))
        return self._sites[root]

    def _find_environment(self, root: str, configured: str | None) -> list[str]:
        if configured:
            sites = sites_of(configured)
            if not sites:
                self._problem(normal(configured), "is no Python environment (setting `environment`)", fatal=False)
            return sites
        names = [self._environ.get("VIRTUAL_ENV", "")]
        for folder in (root, *_parents(root)):
            names += [f"{folder}/{name}" for name in ENVIRONMENTS if os.path.exists(f"{folder}/{name}/pyvenv.cfg")]
        names.append(self._environ.get("CONDA_PREFIX", ""))
        for name in names:
            if name and (sites := sites_of(name)):
                return sites
        return _with_pth([normal(sysconfig.get_paths()[key]) for key in ("purelib", "platlib")])


def root_above(folder: str) -> str:
    """The project that a folder belongs to: the nearest one at or above it with a `pyproject.toml`, a repository or the
    like; without any, the folder that holds the outermost package around it."""
    while folder != "/" and os.path.isfile(f"{folder}/__init__.py"):
        folder = _folder(folder)
    for above in (folder, *_parents(folder)):
        if any(os.path.exists(f"{above}/{marker}") for marker in MARKERS):
            return above
    return folder


def sites_of(environment: str) -> list[str]:
    """The folders that hold the packages of an environment, given as its folder or as an interpreter in it."""
    prefix = normal(environment)
    if os.path.isfile(prefix):  # not resolved: the link in a virtual environment is what makes it one
        prefix = _folder(_folder(prefix)) if _folder(prefix).endswith(("/bin", "/Scripts")) else _folder(prefix)
    sites = _site_folders(prefix)
    base = _pyvenv(prefix)
    if base.get("include-system-site-packages", "").lower() == "true" and "home" in base:
        home = normal(base["home"])
        sites += _site_folders(_folder(home) if home.endswith("/bin") else home)
    return _with_pth(sites)


def _site_folders(prefix: str) -> list[str]:
    found: list[str] = []
    for lib, names in (("lib", None), ("local/lib", None), ("lib64", None), ("Lib", ("",))):
        below = names if names is not None else _names(f"{prefix}/{lib}", "python3")
        for name in below:
            for leaf in ("site-packages", "dist-packages"):
                folder = "/".join(part for part in (prefix.rstrip("/"), lib, name, leaf) if part)
                folder = folder if prefix != "/" else "/" + folder
                if os.path.isdir(folder):
                    found.append(folder)
    seen: dict[str, str] = {}
    for folder in found:  # lib64 is often a link to lib, and a file system may not tell lib from Lib
        seen.setdefault(os.path.realpath(folder), folder)
    return list(seen.values())


def _names(folder: str, prefix: str) -> list[str]:
    try:
        return sorted((name for name in os.listdir(folder) if name.startswith(prefix)), reverse=True)
    except OSError:
        return []


def _pyvenv(prefix: str) -> dict[str, str]:
    pairs = [line.partition("=") for line in _lines(f"{prefix}/pyvenv.cfg") or ()]
    return {key.strip().lower(): value.strip() for key, equals, value in pairs if equals}


def _with_pth(sites: list[str]) -> list[str]:
    """`sites` and the folders that plain lines of their `.pth` files name (editable installs); code is not run."""
    found = list(sites)
    for site in sites:
        for name in _names(site, ""):
            if not name.endswith(".pth"):
                continue
            for line in _lines(f"{site}/{name}") or ():
                line = line.strip()
                if line and not line.startswith(("#", "import ", "import\t")):
                    folder = normal(os.path.join(site, line))
                    if os.path.isdir(folder):
                        found.append(folder)
    return list(dict.fromkeys(found))
