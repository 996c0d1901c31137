"""Sources in memory: modules by path, where an import leads, and which imports may touch grad mode.

Opens no file itself: `Files` is given by the face (`disk.Disk` for the command and the server, a dict in tests). An
unsaved buffer (`Project.update`) wins over what `Files` would read.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import sys
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from . import ir
from .memo import VERSIONS, Memo
from .text import Source
from .units import Units, cut

# Words that may change grad mode when they run at module level; nothing else outlives a `with` block (claims M9).
SWITCHES = re.compile(r"set_grad_enabled|(?:_grad|inference_mode)\s*\([^()]*\)\s*\.__enter__|enter_context\(\s*torch")
SWITCHING_WORDS = ("set_grad_enabled", "__enter__", "enter_context")  # one of them is in whatever that matches
# Libraries that are modelled or known to leave grad mode alone; they are never opened.
MODELLED = frozenset({"torch", "numpy", "torchvision", "torchaudio", "scipy", "pandas", "matplotlib", "sklearn", "tqdm",
                      "jax", "tensorflow", "transformers", "accelerate", "lightning", "pytorch_lightning", "PIL", "cv2",
                      "einops", "wandb", "datasets", "setuptools", "pytest"})  # fmt: skip
# Imports whose targets are remembered while files are edited: each letter of a name that is typed is another one.
IMPORTS = 50_000
# How many files of one installed package are looked at for an effect on grad mode.
ENVIRONMENT_LIMIT = 60


class Answer(Protocol):
    """What was found out from some files."""

    @property
    def reads(self) -> frozenset[str]: ...


class Files(Protocol):
    """The outside world as the engine sees it. Paths are absolute, with `/`."""

    def read(self, path: str) -> Source | None:
        """The file's text, or None if it is not there or can't be read (which `Files` reports its own way)."""
        ...

    def is_file(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def search_path(self, path: str) -> list[str]:
        """Folders in which an absolute import made in `path` is looked for, in order."""
        ...

    def is_project(self, path: str) -> bool:
        """Whether a file belongs to the user's code (and not to the environment)."""
        ...


@dataclass(eq=False)
class Module:
    """One file as the engine knows it; a folder without `__init__.py` is a module without units.

    It is cut when its units are first asked for: most files of a check hold nothing to be looked for.
    """

    path: str
    is_package: bool
    source: Source
    in_project: bool
    anchor: Units | None = field(default=None, repr=False)  # the units of the text before, see `units.cut`
    bindings: dict[str, tuple[int, ...]] | None = field(default=None, repr=False)  # see `flow.scopes`
    folder: str = field(init=False, repr=False)  # where its relative imports begin
    _imports: list[tuple[int, str, tuple[str, ...]]] | None = field(default=None, repr=False)

    _units: Units | None = field(default=None, init=False, repr=False)
    switches: bool | None = field(default=None, init=False, repr=False)  # see `Project.may_switch`; None: nobody asked

    @property
    def units(self) -> Units:
        if self._units is None:
            self._units, self.anchor = cut(self.source.text, self.anchor), None
        return self._units

    def put(self, source: Source, units: Units) -> None:
        """Another text of the same file, cut already."""
        self.source, self._units = source, units
        self.anchor = self.bindings = self._imports = self.switches = None

    @property
    def latest_units(self) -> Units | None:
        """The units, or, if nobody asked for them yet, those that they are to be anchored in."""
        return self._units if self._units is not None else self.anchor

    def __post_init__(self) -> None:
        bare = self.is_package and not self.path.endswith(".py")
        self.folder = self.path if bare else posixpath.dirname(self.path)

    @property
    def name(self) -> str:
        stem = posixpath.basename(self.path)
        if stem == "__init__.py":
            stem = posixpath.basename(posixpath.dirname(self.path))
        return stem.removesuffix(".py")

    @property
    def imports_known(self) -> bool:
        """Whether somebody asked for the imports."""
        return self._imports is not None

    def imports(self) -> list[tuple[int, str, tuple[str, ...]]]:
        """The imports of the module's own level, as (level, dotted name, names asked of it)."""
        if self._imports is None:
            self._imports = []
            for unit in self.units:
                if unit.kind == "code" and not unit.is_def and "import" in unit.text:
                    self._imports.extend(_imports_of(unit.ir))
                elif unit.kind == "block" and "import" in unit.text:
                    for child in unit.children:
                        if "import" in child.text:
                            self._imports.extend(_imports_of(child.ir))
        return self._imports


def _unread(answers: dict[str, Answer], paths: Iterable[str]) -> dict[str, Answer]:
    """The answers that were found out without these files."""
    return {path: answer for path, answer in answers.items() if answer.reads.isdisjoint(paths)}


def _imports_of(body: ir.Body) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    for statement in body:
        if isinstance(statement, ir.Import):
            for alias in statement.names:
                yield 0, alias.name, ()
        elif isinstance(statement, ir.ImportFrom):
            yield statement.level, statement.module, tuple(alias.name for alias in statement.names)
        elif isinstance(statement, ir.Try):
            yield from _imports_of(statement.body)
            for handler in statement.handlers:
                yield from _imports_of(handler.body)
        elif isinstance(statement, ir.If):
            yield from _imports_of(statement.body)
            yield from _imports_of(statement.orelse)


class Project:
    """The files that are known, and the answers that were derived from them."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._overlay: dict[str, Source] = {}
        self._modules: dict[str, Module | None] = {}
        self._resolved: dict[tuple[str, int, str], str | None] = {}
        self._paths: dict[str, str | None] = {}  # of a dotted name's folder and stem, the file or folder that is it
        self._switching: dict[str, bool] = {}
        self._first: dict[str, object] = {}  # `effect` of modules before it was first edited, if it was
        self._altered: dict[str, object] = {}  # and what it is now, where it is another
        self._anchors: dict[str, Units] = {}
        self._memos: dict[str, Memo[Any]] = {}
        self.recalled: dict[str, Answer] = {}  # answers that were made elsewhere, in another process or an earlier run
        self.current: dict[str, Answer] = {}  # those that were asked for, and that no edit has touched since
        self.known_effects: dict[str, object] = {}  # `effects` of modules that were read elsewhere
        self.definitions: object = None  # what the interpreter has made of modules (see `flow.interpret`)
        self.changed: set[str] = set()  # paths that were updated since
        self.typed = ""  # the open file that was edited last
        self.edited: object = None  # the last run of the program in it (see `flow.resuming`)
        self.cancelled: Callable[[], bool] | None = None  # whether what is being found out is still wanted
        self.revision = 0  # goes up with every change of a text

    def update(self, path: str, text: str | Source | None) -> None:
        """Set the text of a file (an unsaved buffer wins over `Files`), or forget what is known of it (None)."""
        self.changed.add(path)
        self.revision += 1
        if len(self._resolved) + len(self._paths) > IMPORTS:
            self._resolved.clear()
            self._paths.clear()
        old = self._modules.pop(path, None)
        known = old is not None or path in self._overlay
        self.typed = path if path in self._overlay and text is not None else ""
        if old is not None and old.latest_units is not None:
            self._anchors[path] = old.latest_units  # while the new text is broken, its units keep the bounds they had
        if text is None:
            self._overlay.pop(path, None)
        else:
            self._overlay[path] = text if isinstance(text, Source) else Source(text, path)
        self.recalled = _unread(self.recalled, {path})
        self.current = _unread(self.current, {path})
        if not known or old is None:
            self._forget()  # an import may lead elsewhere now
            return
        try:
            new = self.module(path)
        except Exception:  # settings that can't be used decide whether it is the user's own
            self._forget()
            raise
        if new is None:
            self._forget()
        elif not self._switches_alike(old, new):
            # Importing it, from however far, may do something else to grad mode now.
            self._first.setdefault(path, self.effect(old))
            self._altered[path] = self.effect(new)
            if self._altered[path] == self._first[path]:
                del self._altered[path]
            self.definitions = self.edited = None
            self._switching.clear()
            self.recalled.clear()
            self.current.clear()
            for memo in self._memos.values():
                memo.turn(self._world)

    @property
    def _world(self) -> Hashable:
        return frozenset((path, repr(effect)) for path, effect in self._altered.items())

    def _forget(self) -> None:
        self.definitions = self.edited = None
        self._resolved.clear()
        self._paths.clear()
        self._switching.clear()
        self._first.clear()
        self._altered.clear()
        self.recalled.clear()
        self.current.clear()
        self.known_effects.clear()
        for memo in self._memos.values():
            memo.forget()

    def _switches_alike(self, old: Module, new: Module) -> bool:
        """Whether an edit leaves alone what importing the module may do to grad mode."""
        if not old.imports_known:
            return True  # nobody asked
        return self._switches(old) == self._switches(new) and old.imports() == new.imports()

    def effects(self) -> dict[str, object]:
        """Of each module whose imports were followed, what decides what importing it may do to grad mode."""
        followed = (module for module in self._modules.values() if module is not None and module.imports_known)
        return {**self.known_effects, **{module.path: self.effect(module) for module in followed}}

    def effect(self, module: Module) -> object:
        """What decides what importing the module may do to grad mode: plain values, equal if nothing has changed."""
        return self._switches(module), module.imports()

    def memo(self, name: str, versions: int = VERSIONS) -> Memo[Any]:
        """The answers of one kind that are remembered with this project."""
        if name not in self._memos:
            memo: Memo[Any] = Memo(self._text, versions)
            self._memos[name] = memo
            memo.turn(self._world)
        return self._memos[name]

    def _text(self, path: str) -> str | None:
        module = self.module(path)
        return module.source.text if module is not None else None

    @contextlib.contextmanager
    def trial(self, texts: dict[str, str]) -> Generator[None, None, None]:
        """As if these files held these texts, for a moment."""
        before = self._modules, self._switching, self.recalled, self.current, self.typed
        self._modules, self._switching, self.definitions, self.typed = dict(self._modules), {}, None, ""
        self.recalled, self.current = _unread(self.recalled, texts), _unread(self.current, texts)
        try:
            for path, text in texts.items():
                old = before[0].get(path)
                source = Source(text, path)
                self._modules[path] = Module(path, bool(old and old.is_package), source, True)
            yield
        finally:
            self._modules, self._switching, self.recalled, self.current, self.typed = before
            self.definitions = None

    @contextlib.contextmanager
    def standing_in(self, module: Module) -> Generator[None, None, None]:
        """With this module in the place of the one at its path, whose text it has in another layout."""
        real = self._modules[module.path]
        self._modules[module.path] = module
        try:
            yield
        finally:
            self._modules[module.path] = real

    def source(self, path: str) -> Source | None:
        module = self.module(path)
        return module.source if module is not None else None

    def modules(self) -> list[Module]:
        """Every module of the user's that was read so far."""
        return [module for module in self._modules.values() if module is not None and module.in_project]

    def module(self, path: str) -> Module | None:
        """The module in this file, read and cut once; None if it can't be read."""
        if path in self._modules:
            return self._modules[path]
        source = self._overlay.get(path) or self.files.read(path)
        module = None
        if source is not None:
            package = posixpath.basename(path) == "__init__.py"
            module = Module(path, package, source, self.files.is_project(path), self._anchors.pop(path, None))
        self._modules[path] = module
        return module

    # ------------------------------------------------------------ imports

    def resolve(self, importer: Module, level: int, dotted: str) -> Module | None:
        """The module that an import in `importer` leads to; None if it is not the project's (or not to be read)."""
        key = (importer.folder, level, dotted)
        if key not in self._resolved:
            self._resolved[key] = self._beside(importer, level, dotted) if level else self._find(importer, dotted)
        found = self._resolved[key]
        if found is None or (not level and found + ".py" == importer.path):
            return None  # `import torch` in a file `utils/torch.py`: no module imports itself
        return self._at(found)

    @staticmethod
    def _beside(importer: Module, level: int, dotted: str) -> str:
        """Where a relative import leads."""
        folder = importer.folder
        for _ in range(level - 1):
            folder = posixpath.dirname(folder)
        return posixpath.join(folder, *dotted.split(".")) if dotted else folder

    def submodule(self, package: Module, name: str) -> Module | None:
        """The module `package.name`, if there is such a file or folder."""
        if not package.is_package:
            return None
        return self._at(f"{package.folder}/{name}")

    def _find(self, importer: Module, dotted: str) -> str | None:
        top = dotted.partition(".")[0]
        folders = [importer.folder] if not importer.is_package else []
        if top in ("torch", "numpy") and self._exists(posixpath.join(importer.folder, "__init__")):
            folders = []  # the folder of a package is not searched, whatever its files are called
        if top not in MODELLED:
            folders += self.files.search_path(importer.path)
        for folder in dict.fromkeys(folders):
            base = posixpath.join(folder, *dotted.split("."))
            if self._exists(posixpath.join(folder, top)) and self._exists(base):
                if top in sys.stdlib_module_names and not self.files.is_project(base + ".py"):
                    return None
                return base
        return None

    def _exists(self, base: str) -> bool:
        return (
            base + ".py" in self._overlay
            or self.files.is_file(base + ".py")
            or f"{base}/__init__.py" in self._overlay
            or self.files.is_dir(base)
        )

    def _at(self, base: str) -> Module | None:
        if base not in self._paths:
            self._paths[base] = self._path(base)
        path = self._paths[base]
        if path is None:
            return None
        if path == base and path not in self._modules:
            self._modules[path] = Module(path, True, Source("", path), self.files.is_project(path))
        return self.module(path)

    def _path(self, base: str) -> str | None:
        init = f"{base}/__init__.py"
        if init in self._overlay or self.files.is_file(init):
            return init
        if base + ".py" in self._overlay or self.files.is_file(base + ".py"):
            return base + ".py"
        return base if self.files.is_dir(base) else None

    # ------------------------------------------------------------ effects of an import

    def may_switch(self, module: Module) -> bool:
        """Whether importing the module may change grad mode; it is interpreted only then.

        A fold over the import graph, by words: true is a reason to look, not a claim.
        """
        known = self._switching.get(module.path)
        if known is not None:
            return known
        budget = ENVIRONMENT_LIMIT
        seen: set[str] = set()
        todo = [module]
        result = False
        while todo and not result:
            current = todo.pop()
            if current.path in seen:
                continue
            seen.add(current.path)
            if self._switching.get(current.path):
                result = True
                break
            if not current.in_project:
                budget -= 1
                if budget < 0:
                    continue
            result = self._switches(current)
            for level, dotted, names in current.imports():
                target = self.resolve(current, level, dotted)
                if target is None or (not target.in_project and not self._same_package(current, target)):
                    if target is not None and current.in_project:
                        todo.append(target)
                    continue
                todo.append(target)
                todo.extend(s for s in (self.submodule(target, name) for name in names if name != "*") if s is not None)
        self._switching[module.path] = result
        if not result:
            for path in seen:
                self._switching[path] = False
        return result

    @staticmethod
    def _same_package(a: Module, b: Module) -> bool:
        return posixpath.dirname(a.folder) == posixpath.dirname(b.folder) or b.folder.startswith(a.folder)

    @staticmethod
    def _switches(module: Module) -> bool:
        if module.switches is None:
            module.switches = _switches(module)
        return module.switches


def _switches(module: Module) -> bool:
    """Whether the module's own top level switches, or calls a function of the module that does."""
    text = module.source.text
    if not any(word in text for word in SWITCHING_WORDS) or not SWITCHES.search(text):
        return False
    top: list[str] = []
    switching: list[str] = []
    for unit in module.units:
        if unit.kind == "class" or unit.is_def:
            if SWITCHES.search(unit.text):
                switching.append(unit.name)
        elif not unit.text.startswith(("import", "from", "if __name__")):
            if SWITCHES.search(unit.text):
                return True
            top.append(unit.text)
    return any(re.search(rf"\b{name}\b", text) for name in switching for text in top)
