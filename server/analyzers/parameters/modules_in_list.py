"""Modules or parameters lie in a plain list or dict of a module: they are not registered, and not trained."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ... import ir
from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...facts import Class, Function, Leaf, Mapping, Object, Sequence, Tensor, Union
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.objects import find, is_module
from ...messages import say
from ...rule import Rule
from ._held import all_known, held, leaves_in, members, overrides, registrations, vague_containers
from ._uses import RIGHT, UNSURE, WRONG, key_fits, uses

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    places: dict[tuple[int, str], events.Attribute] = {}
    for event in flow.of(events.Attribute):
        if isinstance(event.owner, Object) and isinstance(event.value, (Sequence, Mapping)) and is_module(event.owner):
            places[id(event.owner), event.name] = event
    if not places or vague_containers(flow):
        return
    modules, parameters = registrations(flow)
    optimized = held(flow)
    optimizers = list(flow.of(events.OptimizerMade))
    if not all_known(flow):
        return
    reached = {leaf for event in flow.of(events.Backward) for leaf in event.reached}
    for event in places.values():
        owner, container = event.owner, event.value
        assert isinstance(owner, Object) and isinstance(container, (Sequence, Mapping))
        if owner.attrs.get(event.name) is not container or event.value_place is None or _hides(container):
            continue
        if owner.cells.get("dynamic") or owner.cells.get("escaped"):
            continue
        if overrides(owner, "parameters", "named_parameters", "_apply", "__setattr__", "__getattr__"):
            continue
        lost: list[Leaf] = []
        for member in members(container):
            if isinstance(member, Object) and (id(member) in modules or member.cells.get("escaped")):
                continue
            for leaf in leaves_in(flow, member):
                known = (leaf in parameters and isinstance(member, Tensor)) or leaf in optimized
                if not known and leaf.cells.get("requires_grad") is True and not leaf.cells.get("escaped"):
                    lost.append(leaf)
        if not lost:
            continue
        if optimizers and reached:
            proven = any(leaf in reached for leaf in lost)
        else:
            proven = event.own and not optimizers and _made_here(lost, event) and _used(flow, owner, event.name)
        if proven:
            yield _finding(flow, event, lost)


def _finding(flow: Flow, event: events.Attribute, lost: list[Leaf]) -> Finding:
    assert event.value_place is not None
    place = event.value_place
    made = (leaf.place for leaf in lost)
    outside = dict.fromkeys(p for p in made if p is not None and not _within(p, place))
    kind = "dict" if isinstance(event.value, Mapping) else getattr(event.value, "kind", "list")
    names = flow.names(lost)
    holds = _holds(event.value)
    if holds == "parameter" and any(leaf.kind == "tensor" and leaf.place in outside for leaf in lost):
        holds = ""  # a ParameterList would make Parameters of their own of them, and they are named elsewhere
    return Finding(
        "", "", RULE.severity, place,
        say("`self.{name}` is a plain {kind}: what lies in it ({names}) is not registered, so `parameters()` does "
            "not hold it and no optimizer trains it", name=event.name, kind=kind, names=names),
        tuple(Step(p, say("this is put into it")) for p in list(outside)[:4]),
        data=(("holds", holds), ("kind", "dict" if kind == "dict" else "list"), ("attribute", event.name)),
    )  # fmt: skip


def _holds(container: object) -> str:
    """ "module" or "parameter" if the container holds nothing else, "lists" if it holds lists of modules; "" if it is mixed, nested or not known."""
    if isinstance(container, Mapping):
        if "rest" in container.cells or any(
            not isinstance(key[1], str) or not key_fits(key[1]) for key in container.cells if isinstance(key, tuple)
        ):
            return ""
        items: tuple[object, ...] = tuple(container.cells.values())
    elif isinstance(container, Sequence):
        found = container.cells.get("items")
        items = found if isinstance(found, tuple) else (container.cells.get("each"),)
    else:
        return ""
    flat = [option for item in items for option in (item.options if isinstance(item, Union) else (item,))]
    if flat and all(isinstance(item, Object) and is_module(item) for item in flat):
        return "module"
    if flat and all(isinstance(item, Sequence) and _holds(item) == "module" for item in flat):
        return "lists"
    return "parameter" if flat and all(isinstance(item, Tensor) and any(members(item)) for item in flat) else ""


def _within(inner: Place, outer: Place) -> bool:
    return inner.path == outer.path and outer.start <= inner.start and inner.end <= outer.end


def _hides(container: Sequence | Mapping) -> bool:
    """`self.teacher = [teacher]`: one thing in a display is how a module is kept out of `parameters()` on purpose."""
    if isinstance(container, Mapping):
        return len(container.cells) == 1 and isinstance(next(iter(container.cells.values())), Object) and (
            container.complete and "rest" not in container.cells
        )  # fmt: skip
    items = container.cells.get("items") if isinstance(container, Sequence) else None
    if isinstance(items, tuple):
        return len(items) < 2 and not isinstance(next(iter(items), None), Sequence)
    return False


def _made_here(lost: list[Leaf], event: events.Attribute) -> bool:
    """Whether the contents were made by the class itself, not handed to it."""
    owner = event.owner
    assert isinstance(owner, Object)
    if not isinstance(owner.cls, Class):
        return False
    inits = [base.names.get("__init__") for base in owner.cls.mro if isinstance(base, Class)]
    spans = [(f.module.path, f.unit.start, f.unit.start + len(f.unit.text)) for f in inits if isinstance(f, Function)]
    return all(
        leaf.place is not None
        and any(path == leaf.place.path and start <= leaf.place.start < end for path, start, end in spans)
        for leaf in lost
    )


def _used(flow: Flow, owner: Object, name: str) -> bool:
    """Whether `forward` of the class reads the attribute."""
    cls = owner.cls
    assert isinstance(cls, Class)
    assert flow.run is not None
    found = find(cls, "forward", flow.run)
    forward = found[0] if found is not None else None
    body = forward.code.body if isinstance(forward, Function) and isinstance(forward.code, ir.Def) else ()
    # What is used without gradients is not meant to be trained.
    return _mentions(body, name) and not any(_mentions(body, mode) for mode in ("no_grad", "inference_mode"))


def _mentions(node: object, name: str) -> bool:
    if isinstance(node, ir.Attr) and node.name == name:
        return True
    return isinstance(node, tuple) and any(_mentions(part, name) for part in node)


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Let torch's own container hold them.

    Needs: the place is the right side of the assignment; `holds` is "module" or "parameter" if all that lies in it is
    that and lies directly in it, and with string keys in a dict; `kind` is "list" or "dict".
    """
    holds, kind = finding.get("holds"), finding.get("kind")
    tree = context.class_tree(finding.place)
    if tree is None or not holds:
        return None
    cst = tree.cst
    prefix = _package(tree)
    if holds == "lists" and prefix is not None:
        return _nested(tree, context, finding, prefix)
    value: Any = tree.exactly(finding.place, cst.BaseExpression)
    if value is None or prefix is None:
        return None
    container = f"{prefix}.{'Module' if holds == 'module' else 'Parameter'}{'Dict' if kind == 'dict' else 'List'}"
    code = tree.code(value)
    own = isinstance(value, (cst.List, cst.ListComp, cst.Dict, cst.DictComp, cst.Tuple))
    if isinstance(value, (cst.Tuple, cst.GeneratorExp)) and not value.lpar:
        code = f"({code})"
    empty = code in ("[]", "{}", "list()", "dict()")
    usable, wrapped = _go_on(context, tree, finding, str(holds), str(kind))
    if usable == WRONG:
        return None
    safe = (own or empty) and usable == RIGHT
    return Fix(
        say("Hold them in `{container}`", container=container),
        Applicability.SAFE if safe else Applicability.UNSAFE,
        (tree.replace(value, f"{container}({'' if empty else code})"), *wrapped),
    )


def _go_on(context: FixContext, tree: Tree, finding: Finding, holds: str, kind: str) -> tuple[str, tuple[Edit, ...]]:
    """Whether what the program does with the container goes on with torch's, and the edits that it needs."""
    cst = tree.cst
    whole = context.file_tree(finding.place.path)
    value = whole.exactly(finding.place, cst.BaseExpression) if whole is not None else None
    if whole is None or value is None:
        return UNSURE, ()
    around = [one for one in whole.ancestors(value) if isinstance(one, cst.ClassDef)]
    if not around:
        return UNSURE, ()
    name = str(finding.get("attribute"))
    given = [
        assign
        for assign in whole.nodes(cst.Assign, cst.AnnAssign)
        if around[0] in whole.ancestors(assign) and assign.value is not None
        for target in (assign.targets if isinstance(assign, cst.Assign) else (assign,))
        if whole.code(target.target) == f"self.{name}"
    ]
    if len(given) > 1:
        return WRONG, ()  # torch refuses anything else where a module or a parameter is registered
    return uses(context, whole, around[0], name, holds, kind)


def _nested(tree: Tree, context: FixContext, finding: Finding, prefix: str) -> Fix | None:
    """`self.x = []` to which displays of modules are appended: containers in a container."""
    cst = tree.cst
    value: Any = tree.exactly(finding.place, cst.List)
    if value is None or value.elements:
        return None
    edits = [tree.replace(value, f"{prefix}.ModuleList()")]
    for call in tree.nodes(cst.Call):
        if tree.code(call.func) == f"self.{finding.get('attribute')}.append":
            item = call.args[0].value
            if not isinstance(item, (cst.List, cst.ListComp)):
                return None
            edits.append(tree.replace(item, f"{prefix}.ModuleList({tree.code(item)})"))
    usable, wrapped = _go_on(context, tree, finding, "module", "list")
    if usable == WRONG or len(edits) < 2:
        return None
    message = say("Hold them in `{prefix}.ModuleList`, inside and outside", prefix=prefix)
    return Fix(message, Applicability.SAFE if usable == RIGHT else Applicability.UNSAFE, (*edits, *wrapped))


def _package(tree: Tree) -> str | None:
    """How the class of a tree writes `torch.nn` (`nn`, `torch.nn`), from the base class that it names; else None."""
    cst = tree.cst
    for node in tree.nodes(cst.ClassDef):
        for base in node.bases:
            code = tree.code(base.value)
            if code.endswith(".Module"):
                return code.removesuffix(".Module")
    return None


RULE = Rule(code="GL501", severity=Severity.WARNING, check=check)
