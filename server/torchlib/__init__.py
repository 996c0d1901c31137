"""What torch's calls do to gradients, as data: learned from torch by `tools/learn_*.py`, never written from memory.

    op("torch.nn.functional.relu").grad        -> "flows"
    method("item").grad                        -> "cut_value"
    canonical("torch.optim.adam.Adam")         -> "torch.optim.Adam"
    module("torch.nn.LSTM").outputs         -> ("tensor", ("tensor", "tensor"))

Names are looked up as written in torch's documentation; `canonical` leads the other paths to the same object there.
The files are read at the first question (a few milliseconds); every answer is immutable and shared.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any, NamedTuple

# Names of which is remembered what they are, or that torch has none of them: each letter that is typed makes another one.
NAMES = 4096

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Output(NamedTuple):
    """One output of an op.

    `grad`: "flows", "zero" (a gradient of exact zeros), "error" (backward through it raises), "none".
    `kind`: "tensor", or the type's name ("float", "list", "Size", ...); alternatives are joined by "/".
    `dtype`: "float", "int", "bool", "complex", "quantized", joined by "/" where samples differ; "" if no tensor.
    `requires_grad`, when an input does: "always", "sometimes", "never"; "" if no tensor.
    """

    grad: str
    kind: str
    dtype: str
    requires_grad: str


class Op(NamedTuple):
    """What one public function, method or tensor attribute does.

    `grad`: "flows" | "zero" | "partial" | "cut" | "cut_dtype" | "cut_value" | "like" | "meta" | "depends" | "factory" |
    "int_only" | "no_derivative" | "raises" | "untested" (legend: docs/autograd.md).
    `shape`: "scalar" (0-dim whatever goes in), "elementwise" (0-dim if and only if all tensor inputs are), "reduce"
    (0-dim without a `dim` argument; of `max` and `min` with one tensor: two are elementwise), "nonscalar" (never 0-dim), "unknown". For an op with a `reduction` argument it
    says what holds for every value but "none". `sizes`: "broadcast" if the (first) output has the size of all inputs,
    broadcast (of an op with `reduction`: where that is "none"), else "".
    Positions count the arguments as the call is written: in a method call `self` is not counted, -1 is keyword only.
    In `inputs`, `saves` and `may_save` arguments are named by str(position) with `self` as "0", or by keyword.
    """

    name: str
    short: str  # the last word of its name
    grad: str
    shape: str
    sizes: str
    outputs: tuple[Output, ...]
    outputs_dim: tuple[Output, ...]  # those of a call with `dim`, where they are others (`max`); else empty
    fields: tuple[str, ...]  # the names of the outputs, where they have some: `x.sort().values`
    varies: bool  # the number of outputs does; `outputs` has one entry, for all of them
    inputs: Mapping[str, str]  # argument -> "flows" | "zero" | "none"
    alias: str  # the output shares memory with an input: "always" | "sometimes" | "never"
    inplace: bool  # changes an input (its version counter moves) and returns it
    attribute: bool  # `x.T`, `x.data`: not called
    saves: Mapping[str, tuple[str, ...]]  # argument that requires grad -> what is kept for backward; "out": the output
    may_save: Mapping[str, tuple[str, ...]]  # the same, of some calls only
    frees: str  # a second backward through it raises: "always" | "sometimes" | "never"; "" not measured
    reduction: int | None  # position of the argument `reduction`; None if there is none
    dim: Mapping[str, int]  # the arguments by which a reduction is kept to some dimensions -> position
    by_sample: Mapping[str, str]  # for "depends": behaviour -> a call that shows it
    error: str  # what torch says, for "raises" and "no_derivative"


def _load(name: str) -> Any:
    return json.loads((resources.files(__name__) / name).read_text(encoding="utf-8"))


@functools.cache
def _rows() -> tuple[list[Any], dict[str, int]]:
    rows = _load("ops.json")["rows"]
    return rows, {name: i for i, (_, names) in enumerate(rows) for name in names.split()}


def _outputs(found: list[str]) -> tuple[Output, ...]:
    return tuple(Output(*("" if word == "-" else word for word in o.split(" "))) for o in found)


def _kept(found: Mapping[str, list[str]]) -> Mapping[str, tuple[str, ...]]:
    return {k: tuple(v) for k, v in found.items()} or _NOTHING


@functools.lru_cache(NAMES)
def op(name: str) -> Op | None:
    """The op of this public name ("torch.cat", "torch.Tensor.item", "torch.nn.functional.relu"); None: not known."""
    rows, index = _rows()
    found = index.get(name)
    if found is None:
        other = canonical(name)
        return op(other) if other != name else None
    e = rows[found][0]
    return Op(
        name=name,
        short=name.rpartition(".")[2],
        grad=e["grad"],
        shape=e.get("shape", "unknown"),
        sizes=e.get("sizes", ""),
        outputs=_outputs(e.get("outputs", [])),
        outputs_dim=_outputs(e.get("outputs_dim", [])),
        fields=tuple(e.get("fields", ())),
        varies=e.get("varies", False),
        inputs=e.get("inputs", _NOTHING),
        alias=e.get("alias", "never"),
        inplace=e.get("inplace", False),
        attribute=e.get("property", False),
        saves=_kept(e.get("saves", {})),
        may_save=_kept(e.get("may_save", {})),
        frees=e.get("frees", ""),
        reduction=e.get("reduction", {}).get("reduction"),
        dim=e.get("dim", _NOTHING),
        by_sample=e.get("by_sample", _NOTHING),
        error=e.get("error", ""),
    )


def method(name: str) -> Op | None:
    """The tensor method or attribute `x.name`."""
    return op(f"torch.Tensor.{name}")


def torch_version() -> str:
    """The version of torch that the data was learned from."""
    return str(_load("ops.json")["torch"])


def ops() -> tuple[str, ...]:
    """Every name that `op` knows without going through `canonical`."""
    return tuple(_rows()[1])


# ---------------------------------------------------------------- modules, optimizers, factories, names


class Module(NamedTuple):
    """A class of `torch.nn`.

    `outputs`: the kind of `forward`'s result: "tensor", or a tuple of kinds (nested as the result is); "" if it has
    none that could be measured (containers, abstract classes).
    `shape`: as `Op.shape`, of the first output. `sizes`: "same" if that has the size of the first input, else "".
    `saves`: of "in" (the input) and "out", what is kept for backward in
    training mode, so that changing it in place makes backward raise.
    """

    name: str
    short: str  # the last word of its name
    container: bool  # Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict
    loss: bool
    reduction: int | None  # position of `reduction` in the constructor; None if there is none
    parameters: tuple[str, ...]  # with default arguments, names as in `named_parameters`
    outputs: Any
    shape: str
    sizes: str
    grad: str  # to the input: "flows", "zero", "none", "" not measured
    by_mode: bool  # train() and eval() differ
    inplace: bool  # the constructor takes `inplace`
    saves: tuple[str, ...]
    inputs: int  # tensors that `forward` was called with


class Factory(NamedTuple):
    """A function that makes a tensor from no tensor: `random`, and the dtype class of its result ("float", "int")."""

    name: str
    dtype: str
    random: bool
    takes_requires_grad: bool


class Optimizer(NamedTuple):
    """A class of `torch.optim`: `closure` is "needed", "allowed"."""

    name: str
    closure: str


class Scheduler(NamedTuple):
    """A class of `torch.optim.lr_scheduler`: `metric` says that `step` takes one."""

    name: str
    metric: bool


@functools.cache
def _library() -> dict[str, Any]:
    return _load("library.json")


def canonical(name: str) -> str:
    """The name under which torch documents what the dotted path `name` reaches; `name` itself if it has no other.

    "torch.autograd.grad_mode.no_grad" -> "torch.no_grad"; "torch.nn.modules.linear.Linear" -> "torch.nn.Linear".
    A member follows its owner: "torch.nn.modules.module.Module.eval" -> "torch.nn.Module.eval".
    """
    if not name.startswith("torch."):
        return name
    aliases = _library()["aliases"]
    found = aliases.get(name)
    if found is not None:
        return found
    head, dot, tail = name.rpartition(".")
    owner = aliases.get(head)
    return f"{owner}{dot}{tail}" if owner else name


@functools.lru_cache(NAMES)
def module(name: str) -> Module | None:
    """The class of `torch.nn` with this name ("torch.nn.Linear"), or with another path to it; None: not known."""
    name = canonical(name)
    e = _library()["modules"].get(name)
    if e is None:
        return None
    return Module(
        name=name,
        short=name.rpartition(".")[2],
        container=e.get("container", False),
        loss=e.get("loss", False),
        reduction=e.get("reduction"),
        parameters=tuple(e.get("parameters", ())),
        outputs=_tuples(e.get("outputs", "")),
        shape=e.get("shape", "unknown"),
        sizes=e.get("sizes", ""),
        grad=e.get("grad", ""),
        by_mode=e.get("by_mode", False),
        inplace=e.get("inplace", False),
        saves=tuple(e.get("saves", ())),
        inputs=e.get("inputs", 0),
    )


def _tuples(kinds: Any) -> Any:
    return tuple(map(_tuples, kinds)) if isinstance(kinds, list) else kinds


@functools.lru_cache(NAMES)
def factory(name: str) -> Factory | None:
    """The tensor factory with this name ("torch.randn"); None if it is none."""
    e = _library()["factories"].get(name := canonical(name))
    return Factory(name, e["dtype"], e["random"], e["requires_grad"]) if e else None


@functools.lru_cache(NAMES)
def optimizer(name: str) -> Optimizer | None:
    """The optimizer class with this name ("torch.optim.SGD"); None if it is none."""
    e = _library()["optimizers"].get(name := canonical(name))
    return Optimizer(name, e["closure"]) if e else None


@functools.lru_cache(NAMES)
def scheduler(name: str) -> Scheduler | None:
    """The learning-rate scheduler with this name; None if it is none."""
    e = _library()["schedulers"].get(name := canonical(name))
    return Scheduler(name, e["metric"]) if e else None


@functools.lru_cache(NAMES)
def star_names(module: str) -> tuple[str, ...]:
    """What `from module import *` binds, for torch's own modules; empty for others."""
    return tuple(_library()["stars"].get(module, "").split())
