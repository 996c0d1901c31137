"""The lattice: what is known of a value while a program is interpreted, and how two such knowledges join.

Three kinds of thing live here.

*Values* are never written to once made (they are not `frozen`: that makes them three times as dear) and say what an expression evaluates to: a constant, a number, a tensor, a function, a name
of another library, or `Unknown`. *Objects* (instances, lists, dicts, leaves) have an identity and cells that change
over time; the cells are plain dicts which only `state.State` writes, so that a branch can be undone and joined.
*Nodes* are the abstract autograd graph: what torch would build with `grad_fn`, one node for each operation whose
result requires grad. What a loss reaches is found by walking it, as torch does.

    w = nn.Parameter(...)          Tensor(node=Node(leaf=w))
    y = (w * 2).sum()              Tensor(node=Node("sum", inputs=(Node("*", inputs=(Node(leaf=w),)),)), rank=SCALAR)
    z = y.detach()                 Tensor(node=None, cuts=(Cut(".detach()", place, sources=(y.node,)),))

Unknown is silence: a join of two things that differ in a way that matters is `Unknown`, or a tensor that is not
`certain`, and no rule may claim anything of those.
"""

from __future__ import annotations

import functools
from collections import abc
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar, overload

from .findings import Place

if TYPE_CHECKING:
    from . import ir
    from .project import Module
    from .units import Unit

SCALAR, MANY, ANY_RANK = "scalar", "many", "?"  # one element / more than one for some input / not known
FLOAT, INT, ANY_DTYPE = "float", "int", "?"  # a dtype that can carry gradients / one that can not / not known
AGREEMENT, LOSS = "agreement", "loss"  # what a number measures: how often two things are equal; a loss of torch
ON, OFF, INFERENCE, MAYBE = "on", "off", "inference", "maybe"  # grad mode

# A bound on alternatives: a value that may be more than four things is not known in any useful sense.
UNION_LIMIT = 4
# Graph walks stop here: beyond it a program is not judged (real scripts stay below a tenth of it).
WALK_LIMIT = 20_000


T = TypeVar("T")


def replace(value: T, **changes: object) -> T:
    """`dataclasses.replace`, three times as fast: a third of all tensors are made so."""
    kind = type(value)
    made = kind(*_values_of(kind)(value))
    for name, new in changes.items():
        object.__setattr__(made, name, new)  # also of what is frozen
    return made


@functools.cache
def _values_of(kind: type) -> abc.Callable[[object], abc.Iterable[object]]:
    """What gives the values of the fields of a dataclass, in order."""
    names = [each.name for each in fields(kind) if each.init]
    return attrgetter(*names) if len(names) > 1 else lambda value: [getattr(value, name) for name in names]


@dataclass(eq=False, slots=True)
class Frames:
    """Where the interpretation stood: the call sites that led here, innermost first, as a linked list."""

    place: Place
    label: str  # what was called or imported there
    kind: str  # "call" or "import"
    up: Frames | None


def call_places(stack: Frames | None) -> abc.Iterator[Place]:
    """Where the calls stand that led somewhere, innermost first."""
    while stack is not None:
        yield stack.place
        stack = stack.up


@dataclass(eq=False, slots=True)
class Mode:
    """Grad mode at a moment, and who set it."""

    kind: str
    place: Place | None = None  # what switched it; None for torch's default
    how: str = ""  # "torch.no_grad()", "torch.set_grad_enabled(False)", ...
    persistent: bool = False  # set by a call, not undone by leaving a block
    stack: Frames | None = None
    off: Mode | None = None  # of a mode that is not known: the persistent switch that may have turned it off

    @property
    def records(self) -> bool:
        """Operations surely build a graph."""
        return self.kind == ON


DEFAULT_MODE = Mode(ON)


class Switched(NamedTuple):
    """A call that put a module into a mode: "train", "eval", "own" (of a single layer), "?" or "new" (as it was made)."""

    kind: str
    place: Place | None


NEW_MODES = frozenset({Switched("new", None)})


class Value:
    """Anything an expression may evaluate to."""

    __slots__ = ()


@dataclass(eq=False, slots=True)
class Unknown(Value):
    """Nothing is known. `foreign`: it comes from a library that is not torch, so its `.item()` is not torch's."""

    foreign: bool = False
    doubt: str = ""


UNKNOWN = Unknown()
FOREIGN = Unknown(foreign=True)


@dataclass(eq=False, slots=True)
class Const(Value):
    """A Python constant whose value is known (`None`, a bool, a str, a number)."""

    value: object
    made: Place | None = None  # of a None: the function without a return, or the `backward()`, that gave it


class Member(NamedTuple):
    """A member of an enumeration of the project, as the value of a `Const`: equal to itself only."""

    cls: int  # the identity of the class
    name: str

    def __repr__(self) -> str:
        return self.name


NONE = Const(None)
TRUE, FALSE = Const(True), Const(False)


@dataclass(eq=False, slots=True)
class Number(Value):
    """A Python number of unknown value; `cut` when it was taken out of a tensor that had a graph."""

    cut: Cut | None = None
    source: Place | None = None  # the call that made it (`.item()`), whether or not a graph was lost
    how: str = ""
    measure: str = ""  # AGREEMENT or LOSS: a number that should rise, or fall, as training goes on


@dataclass(eq=False, slots=True)
class Text(Value):
    """A str of unknown value."""


@dataclass(eq=False, slots=True)
class Array(Value):
    """A NumPy array; `cut` when it was taken out of a tensor that had a graph."""

    cut: Cut | None = None


@dataclass(eq=False, slots=True)
class Cut:
    """A place where the line ends: the result of an operation that has no graph although an input had one."""

    how: str  # as a reader would say it: ".detach()", "torch.no_grad()", "argmax"
    kind: str  # "detach" "data" "number" "numpy" "rewrap" "mode" "inference" "op" "zero" "leaf"
    place: Place
    sources: tuple[Node, ...] = ()  # the graph that was lost
    mode: Mode | None = None
    stack: Frames | None = None


@dataclass(eq=False, repr=False, slots=True)
class Node:
    """One recorded operation (`grad_fn`), or a leaf (`AccumulateGrad`).

    `saves` says that backward needs saved tensors, which the first backward frees; None: not known.
    `phi` marks the join of several possible graphs.
    """

    op: str
    place: Place | None
    inputs: tuple[Node, ...] = ()
    cuts: tuple[Cut, ...] = ()  # inputs that were cut before they came here
    leaf: Leaf | None = None
    saves: bool | None = None
    phi: bool = False
    zero: bool = False  # the gradient through it is exactly zero
    opaque: bool = False  # reaches things that are not known
    stack: Frames | None = None
    saved: tuple[tuple[Storage, int], ...] = ()  # what backward needs, and its version when it was saved
    error: str = ""  # backward through it raises this
    by: Value | None = None  # what it was multiplied with or divided by, if that is no tensor
    average: bool = False  # a mean over all elements

    def __repr__(self) -> str:
        return f"Node({self.op!r}, {self.leaf.label!r})" if self.leaf is not None else f"Node({self.op!r})"


@dataclass(eq=False, slots=True)
class Tensor(Value):
    """A tensor (or, if `opaque`, a structure of tensors that came out of a data loader and carries no graph).

    `certain` and `node`: it surely has this graph. `certain` without a node: it surely has none, and `cuts` tells
    where it lost one (none: it never had one). Not `certain`: nothing is claimed about its graph.
    """

    node: Node | None = None
    cuts: tuple[Cut, ...] = ()
    certain: bool = True
    rank: str = ANY_RANK
    dtype: str = ANY_DTYPE
    leaf: Leaf | None = None  # it *is* this leaf
    opaque: bool = False
    inference: bool = False  # made in inference mode
    mode: Place | None = None  # what set that mode
    tag: str = ""  # what it is the output of, where a rule asks ("softmax", "sigmoid", "scaled", ...)
    made: Place | None = None  # where it was made
    measure: str = ""  # as for a Number
    storage: Storage | None = None
    shape: tuple[object, ...] | None = None  # sizes where known: ints, or names of unknown sizes

    @property
    def live(self) -> bool:
        return self.certain and self.node is not None and (not self.node.phi or flags_hold(self.node))

    @property
    def dead(self) -> bool:
        return self.certain and self.node is None


@dataclass(eq=False, slots=True)
class Storage:
    """What views share. Cells: `writes`, the in-place writes so far (`Writes`): torch's version counter."""

    cells: dict[str, object] = field(default_factory=dict)


# Values that a tensor may be one of, after which nothing is claimed: a function of hundreds of branches joins as many.
JOIN_LIMIT = 256


def flags_hold(node: Node) -> bool:
    """Of a join: whether each leaf that it may be surely requires grad still (it may have been frozen since)."""
    todo, seen = [node], {id(node)}
    while todo:
        node = todo.pop()
        if node.leaf is not None:
            if node.leaf.cells.get("requires_grad") is not True:
                return False
        elif node.phi:
            new = [n for n in node.inputs if id(n) not in seen]
            seen.update(map(id, new))
            todo += new
            if len(seen) > JOIN_LIMIT:
                return False
    return True


MAYBE_TENSOR = Tensor(certain=False)
DATA = Tensor(opaque=True)


# In-place writes that are told apart; a storage written more often has no known version.
WRITES_LIMIT = 64


@dataclass(eq=False, slots=True)
class Writes:
    """The places of the writes to a storage in order; not `exact`: there may have been others."""

    places: tuple[Place, ...] = ()
    exact: bool = True

    def add(self, place: Place) -> Writes:
        if not self.exact or len(self.places) >= WRITES_LIMIT:
            return Writes(self.places, False)
        return Writes((*self.places, place))

    def join(self, other: Writes) -> Writes:
        shared = 0
        for a, b in zip(self.places, other.places, strict=False):
            if a != b:
                break
            shared += 1
        exact = self.exact and other.exact and shared == len(self.places) == len(other.places)
        return Writes(self.places[:shared], exact)


NO_WRITES = Writes()


@dataclass(eq=False, repr=False)
class Leaf:
    """A trainable leaf, or all the parameters of one library module together.

    Cells: `requires_grad` (True, False, None = not known), `grad` (a `training.Grad`), `escaped`. The label is written
    by way of `vars` (`State.put`), so this has a dict.
    """

    label: str
    place: Place | None
    kind: str  # "parameter", "tensor", "weights"
    cells: dict[str, object] = field(default_factory=dict)
    node: Node | None = None

    storage: Storage = field(default_factory=Storage)

    def __post_init__(self) -> None:
        self.cells.setdefault("requires_grad", True)
        self.node = Node("leaf", self.place, leaf=self)

    def __repr__(self) -> str:
        return f"Leaf({self.label!r}, {self.kind!r})"


@dataclass(eq=False, slots=True)
class External(Value):
    """A name in a library: `torch.nn.Linear`, `numpy.sum`. Nothing of that library is read."""

    name: str


@dataclass(eq=False, slots=True)
class Builtin(Value):
    """One of Python's builtins."""

    name: str


@dataclass(eq=False, slots=True)
class Method(Value):
    """A method of a value that is not a project function: `loss.backward`, `optimizer.step`, `items.append`."""

    owner: Value
    name: str


@dataclass(eq=False, slots=True)
class Function(Value):
    """A project function: its code, where its names come from, and what `self` is if it is bound."""

    code: ir.Def | ir.Lambda
    unit: Unit
    base: int  # offset of the unit in the module's text
    module: Module
    closure: Scope | None = None
    owner: Class | None = None  # the class whose body defines it
    bound: Value | None = None
    decorators: tuple[tuple[Value, Place], ...] = ()  # outermost first; only those that change how it runs
    defaults: tuple[tuple[str, Value], ...] = ()
    copied: bool = False  # another object was made of it, of which nothing here tells: under a grad mode, as a method

    @property
    def name(self) -> str:
        return getattr(self.code, "name", "lambda")


@dataclass(eq=False, slots=True)
class Scope:
    """The names of one running function, class body or module."""

    names: dict[str, object]
    up: Scope | None = None
    globals: tuple[str, ...] = ()
    nonlocals: tuple[str, ...] = ()
    captured: bool = False  # a function or class that was made in it may outlive it

    def capture(self) -> None:
        scope: Scope | None = self
        while scope is not None and not scope.captured:
            scope.captured = True
            scope = scope.up


@dataclass(eq=False, slots=True)
class Class(Value):
    """A project class. `mro` has the class itself first; a base that is not known makes `open` true."""

    name: str
    place: Place
    module: Module
    names: dict[str, object]
    bases: tuple[Value, ...]
    mro: tuple[Value, ...] = ()
    open: bool = False
    decorators: tuple[Value, ...] = ()
    fields: tuple[tuple[str, Value | None], ...] = ()  # annotated names, for dataclasses
    makes_modules: bool | None = None  # whether an `nn.Module` is among its bases; None: nobody asked

    def is_a(self, name: str) -> bool:
        """Whether a library class of this name is among its bases."""
        return any(isinstance(base, External) and base.name == name for base in self.mro)


@dataclass(eq=False, slots=True)
class Object(Value):
    """An instance. `cls` is a project `Class` or the `External` name of a library's class.

    `attrs` are its attributes; `cells` what the interpreter remembers of it (`params`, `training`, `escaped`, ...).
    """

    cls: Value
    place: Place | None
    attrs: dict[str, object] = field(default_factory=dict)
    cells: dict[str, object] = field(default_factory=dict)
    label: str = ""

    @property
    def kind(self) -> str:
        """The library class that decides what it is: `torch.nn.Module`, `torch.optim.Optimizer`, ... or ""."""
        if isinstance(self.cls, External):
            return self.cls.name
        if isinstance(self.cls, Class):
            for base in self.cls.mro:
                if isinstance(base, External):
                    return base.name
        return ""


@dataclass(eq=False, slots=True)
class Sequence(Value):
    """A list, tuple or set. Cells: `items` (a tuple, or None when the length is not known) and `each` (the join)."""

    kind: str
    cells: dict[str, object] = field(default_factory=dict)
    place: Place | None = None


@dataclass(eq=False, slots=True)
class Mapping(Value):
    """A dict. Cells: one `("key", k)` for each known constant key; `rest` is the join of the others.

    `covers`: the parameters for which there surely is an entry of their name, if that is known.
    """

    cells: dict[object, object] = field(default_factory=dict)
    place: Place | None = None
    complete: bool = True  # no key but the known ones was ever there when it was made


@dataclass(eq=False, slots=True)
class Parameters(Value):
    """`module.parameters()` or `named_parameters()`: an iterator over leaves; `exact` if nothing was filtered."""

    owner: Value
    named: bool
    leaves: tuple[Leaf, ...]
    exact: bool = True
    place: Place | None = None
    cells: dict[str, object] = field(default_factory=dict)  # `used`: where the generator was used up
    trainable_only: bool = False


@dataclass(eq=False, slots=True)
class ParameterOf(Value):
    """The loop variable of `for p in module.parameters()`: each leaf in turn; `all_of`: it stands for every one."""

    leaves: tuple[Leaf, ...]
    all_of: bool = True


@dataclass(eq=False, slots=True)
class StateOf:
    """What a `state_dict()` is of: its tensors are the module's own, not copies. Each call makes another one."""

    module: Object
    place: Place


@dataclass(eq=False, slots=True)
class GradOf(Value):
    """`.grad` of a leaf (or of a tensor that is none)."""

    leaves: tuple[Leaf, ...]
    of: Value


@dataclass(eq=False, slots=True)
class Context(Value):
    """A grad-mode object: `torch.no_grad()`, `torch.set_grad_enabled(flag)`, used by `with` or as a decorator."""

    mode: Mode | None  # None: changes nothing that is known to matter (`nullcontext()`)
    before: Mode | None = None  # what is restored on leaving; set when it acts at construction
    name: str = ""
    place: Place | None = None  # where an `autocast` that keeps copies of weights, or a `no_sync`, was made
    owner: Object | None = None  # the module whose `no_sync()` it is


@dataclass(eq=False, slots=True)
class Range(Value):
    """Something to loop over whose elements are `each`: `enumerate`, `range`, `zip`, a data loader, a generator."""

    each: Value
    mode: Mode | None = None  # the grad mode in which a generator stands at its `yield`
    place: Place | None = None
    length: int | None = None
    counted: bool = False  # it is a `range(...)`
    covers: tuple[Leaf, ...] | None = None  # pairs, one for each of these parameters, with its name


@dataclass(eq=False, slots=True)
class Union(Value):
    """One of a few values."""

    options: tuple[Value, ...]


@dataclass(eq=False, slots=True)
class Wrapped(Value):
    """A function in a class body under `@property`, `@staticmethod` or `@classmethod` (`kind`)."""

    kind: str
    function: Value


@dataclass(eq=False, slots=True)
class Partial(Value):
    """`functools.partial(function, *positional, **keywords)`."""

    function: Value
    positional: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]


@dataclass(eq=False, slots=True)
class Super(Value):
    """`super()`: attributes are looked up behind `after` in the class of `instance`."""

    instance: Value
    after: Class


@dataclass(eq=False, slots=True)
class ModuleValue(Value):
    """An imported project module."""

    module: Module


# ---------------------------------------------------------------- join


def same(a: object, b: object) -> bool:
    """Whether two values are known to be the same, cheaply: by identity, or equal constants."""
    if a is b:
        return True
    if isinstance(a, Const) and isinstance(b, Const):
        return type(a.value) is type(b.value) and a.value == b.value
    return False


@overload
def join(a: Value, b: Value) -> Value: ...
@overload
def join(a: object, b: object) -> object: ...
def join(a: object, b: object) -> object:
    """What is known when it may be either of the two."""
    if same(a, b):
        return a
    if isinstance(a, Mode) and isinstance(b, Mode):
        return join_modes(a, b)
    if not isinstance(a, Value) or not isinstance(b, Value):
        return join_plain(a, b)
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return UNKNOWN
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return join_tensors(a, b)
    if isinstance(a, (Number, Const)) and isinstance(b, (Number, Const)):
        return join_numbers(a, b)
    if isinstance(a, Array) and isinstance(b, Array):
        return Array(a.cut if b.cut is not None else None)
    if isinstance(a, ParameterOf) and isinstance(b, ParameterOf):
        return ParameterOf(tuple(dict.fromkeys(a.leaves + b.leaves)), all_of=False)
    if isinstance(a, Range) and isinstance(b, Range):
        return Range(join(a.each, b.each))
    if isinstance(a, Sequence) and isinstance(b, Sequence) and a.kind == b.kind != "contextmanager":
        return join_sequences(a, b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return join_mappings(a, b)
    options = (*alternatives(a), *(o for o in alternatives(b) if not any(same(o, x) for x in alternatives(a))))
    if len(options) > UNION_LIMIT:
        return UNKNOWN
    return Union(options)


def join_sequences(a: Sequence, b: Sequence) -> Value:
    """Two lists that are not the same object: only what their elements have in common is kept."""
    if a.kind == "contextmanager":
        return UNKNOWN
    one, other = a.cells.get("items"), b.cells.get("items")
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return Sequence(a.kind, {"items": tuple(join(x, y) for x, y in zip(one, other, strict=True))}, a.place)
    return Sequence(a.kind, {"items": None, "each": join(element(a), element(b))}, a.place)


def join_mappings(a: Mapping, b: Mapping) -> Value:
    """Two dicts that are not the same object: a key that only one has may be missing."""
    if a.cells.keys() == b.cells.keys():
        return Mapping({k: join(v, b.cells[k]) for k, v in a.cells.items()}, a.place, a.complete and b.complete)
    cells = {k: join(v, b.cells[k]) for k, v in a.cells.items() if k in b.cells and k != "rest"}
    for one, other in ((a, b), (b, a)):
        if "of" in one.cells and "of" not in other.cells:  # a module's state, or a copy of one
            cells["of"], cells["copied"] = one.cells["of"], True
    return Mapping({**cells, "rest": UNKNOWN}, a.place, False)


class Surely(tuple[Value, ...]):
    """What is in a list of unknown length on every way here."""

    def join(self, other: Surely) -> Surely:
        return Surely(v for v in self if any(v is w for w in other))


def element(value: Sequence) -> object:
    """The join of everything in a sequence."""
    items = value.cells.get("items")
    if isinstance(items, tuple):
        return join_all(items) if items else UNKNOWN
    return value.cells.get("each", UNKNOWN)


@overload
def join_all(values: abc.Sequence[Value]) -> Value: ...
@overload
def join_all(values: abc.Sequence[object]) -> object: ...
def join_all(values: abc.Sequence[object]) -> object:
    result = values[0]
    for value in values[1:]:
        result = join(result, value)
    return result


def alternatives(value: Value) -> tuple[Value, ...]:
    return value.options if isinstance(value, Union) else (value,)


def join_plain(a: object, b: object) -> object:
    """Cells that are no values: flags, tuples of leaves, other records; None says that it is not known."""
    joined = getattr(a, "join", None)
    if joined is not None and type(a) is type(b):
        return joined(b)
    if isinstance(a, frozenset) and isinstance(b, frozenset):
        return a | b
    return a if a == b else None


def join_modes(a: Mode, b: Mode) -> Mode:
    off = next((m.off or m for m in (a, b) if m.off or (m.kind == OFF and m.persistent)), None)
    if a.kind == b.kind:
        return a if a.place is not None and (a.off or not b.off) else b
    shown = off or (a if a.kind in (OFF, INFERENCE) else b)
    return Mode(MAYBE, shown.place, shown.how, shown.persistent, shown.stack, off)


def join_numbers(a: Value, b: Value) -> Value:
    if isinstance(a, Const) and isinstance(b, Const):
        numbers = (int, float)
        if (
            isinstance(a.value, bool)
            or isinstance(b.value, bool)
            or not (isinstance(a.value, numbers) and isinstance(b.value, numbers))
        ):
            return Union((a, b))
        return Number()
    if any(isinstance(v, Const) and (v.value is None or isinstance(v.value, (str, bool))) for v in (a, b)):
        return Union((a, b))
    numbers = [v for v in (a, b) if isinstance(v, Number)]
    known = next((v for v in numbers if v.cut is not None), next((v for v in numbers if v.source is not None), None))
    measures = {v.measure for v in numbers}
    measure = measures.pop() if len(measures) == 1 else ""
    if known is None:
        return Number(measure=measure)
    return known if known.measure == measure else replace(known, measure=measure)


def _unflagged(tensor: Tensor) -> Tensor:
    """A leaf that does not require grad, as the plain tensor that it is to operations."""
    if tensor.leaf is not None and tensor.leaf.cells.get("requires_grad") is False:
        return replace(tensor, node=None, leaf=None)
    return tensor


def join_tensors(a: Tensor, b: Tensor) -> Tensor:
    cuts = tuple(dict.fromkeys(a.cuts + b.cuts))
    node: Node | None
    flags = [t.leaf.cells.get("requires_grad") for t in (a, b) if t.leaf is not None]
    frozen = a.leaf is not b.leaf and False in flags
    if frozen:
        a, b = _unflagged(a), _unflagged(b)
    # A leaf that is frozen now may be thawed, and what was joined with it would not know.
    certain = not frozen and a.certain and b.certain and (a.node is None) == (b.node is None) and None not in flags
    if a.node is not None and b.node is not None:
        node = a.node if a.node is b.node else Node("phi", None, (a.node, b.node), phi=True)
    elif a.node is not None or b.node is not None:
        node = Node("phi", None, tuple(n for n in (a.node, b.node) if n is not None), phi=True)
    else:
        node = None
    return Tensor(
        node=node,
        cuts=cuts,
        certain=certain,
        rank=a.rank if a.rank == b.rank else ANY_RANK,
        dtype=a.dtype if a.dtype == b.dtype else ANY_DTYPE,
        leaf=a.leaf if a.leaf is b.leaf else None,
        opaque=a.opaque and b.opaque,
        inference=a.inference and b.inference,
        tag=a.tag if a.tag == b.tag else "",
        measure=a.measure if a.measure == b.measure else "",
        made=a.made,
        storage=a.storage if a.storage is b.storage else None,
        shape=a.shape if a.shape == b.shape else None,
    )
