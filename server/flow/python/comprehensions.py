"""Comprehensions: run like loops, exact where all that they go over is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import ir
from ...facts import UNKNOWN, Const, Mapping, ParameterOf, Parameters, Range, Scope, Sequence, Value, join, join_all
from ..frames import UNROLL_LIMIT, Frame
from .iteration import NAMES_LIMIT, Items, covered_by, first_name, iterate, one_by_one

if TYPE_CHECKING:
    from ..interp import Interpreter


def comprehension(run: Interpreter, e: ir.Comp) -> Value:
    frame = run.frame
    scope = Scope({}, frame.scope)
    inner = Frame(
        scope, frame.module, frame.unit, frame.base, frame.function, run.state.mark(), instance=frame.instance
    )
    inner.loops = list(frame.loops)
    place = run.place(e.at)
    run.frames.append(inner)
    try:
        results = _Results()
        exact = _generate(run, e, 0, results)
    finally:
        run.frames.pop()
    if e.kind == "dict":
        mapping = Mapping({}, place, complete=False)
        pairs: list[tuple[Value, Value]] = results  # type: ignore[assignment]
        for key, value in pairs:
            if exact and isinstance(key, Const) and isinstance(key.value, (str, int)):
                mapping.cells["key", key.value] = value
            else:
                old = mapping.cells.get("rest")
                mapping.cells["rest"] = value if old is None else join(old, value)
        mapping.complete = exact
        covered = covered_by(results.source) if len(e.generators) == 1 and not e.generators[0].ifs else None
        if covered is not None and isinstance(e.key, ir.Name) and first_name(e.generators[0].target) == e.key.id:
            mapping.cells["covers"] = covered
        return mapping
    kind = "generator" if e.kind == "gen" else e.kind
    first = e.generators[0]
    of = {"source": results.source} if isinstance(results.source, Parameters) and _only_frozen_left_out(e) else {}
    if exact:
        return Sequence(kind, {"items": tuple(results), **of}, place)
    cells: dict[str, object] = {"items": None, "each": join_all(results) if results else UNKNOWN, **of}
    if len(e.generators) == len(results) == 1 and not first.ifs and e.element == first.target._replace(at=e.element.at):
        cells["parts"] = (results[0],)  # `[p for p in parameters]`
    if of and first.ifs and kind != "generator" and _all_frozen(results.source):
        cells["nothing"] = cells["each"]  # as long as nobody puts anything into the list
    return Sequence(kind, cells, place)


class _Results(list[Any]):
    """What a comprehension gives, and what its first loop goes over."""

    source: Value = UNKNOWN


def _all_frozen(value: Value) -> bool:
    """Whether none of these parameters requires grad now."""
    return (
        isinstance(value, Parameters)
        and value.exact
        and bool(value.leaves)
        and all(leaf.cells.get("requires_grad") is False for leaf in value.leaves)
    )


def _only_frozen_left_out(e: ir.Comp) -> bool:
    """`[p for p in ... if p.requires_grad]`, and the same with names: everything, or everything that is not frozen."""
    first = e.generators[0]
    target = first.target
    if isinstance(target, ir.Tuple) and len(target.items) == 2:
        target = target.items[1]
    if len(e.generators) != 1 or not isinstance(target, ir.Name) or not isinstance(e.element, ir.Name):
        return False
    tests = all(
        isinstance(test, ir.Attr)
        and test.name == "requires_grad"
        and isinstance(test.value, ir.Name)
        and test.value.id == target.id
        for test in first.ifs
    )
    return e.element.id == target.id and tests


def _generate(run: Interpreter, e: ir.Comp, level: int, results: _Results) -> bool:
    """Run the generators from `level` on; true if the results are exactly the items."""
    if level == len(e.generators):
        value = run.eval(e.element)
        results.append((run.eval(e.key), value) if e.key is not None else value)
        return True
    generator = e.generators[level]
    iterable = run.eval(generator.iter)
    if level == 0:
        results.source = iterable
    found = iterate(run, iterable, generator.iter)
    if isinstance(iterable, Range) and iterable.counted and 0 < (iterable.length or 0) <= UNROLL_LIMIT:
        found = Items(found.each, [found.each] * iterable.length)  # type: ignore[operator]
    limit = UNROLL_LIMIT
    if generator.ifs and (named := one_by_one(run, iterable)) is not None:
        found, limit = Items(found.each, named), NAMES_LIMIT
    exact = found.items is not None and len(found.items) <= limit
    filtered = False
    for item in (found.items or []) if exact else [found.each]:
        run.assign(generator.target, item)
        passes = True
        for test in generator.ifs:
            truth = run.truth(run.eval(test))
            if truth is False and exact:
                passes = False
                break
            if truth is None:
                filtered = True
                _objects.draw(run, item)
                run.assume(test, True)
                narrowed = _trainable_only(run, test, generator.target)
                if narrowed is None:
                    narrowed = _some_of(item)
                if narrowed is not None:
                    run.assign(generator.target, narrowed)
        if passes:
            exact = _generate(run, e, level + 1, results) and exact
    return exact and not filtered


def _trainable_only(run: Interpreter, test: ir.Expr, target: ir.Expr) -> Value | None:
    """`for p in parameters if p.requires_grad`: only the leaves that are trainable now."""
    if isinstance(test, ir.Attr) and test.name == "requires_grad" and isinstance(test.value, ir.Name):
        value = run.eval(test.value)
        if isinstance(value, ParameterOf):
            kept = tuple(leaf for leaf in value.leaves if leaf.cells.get("requires_grad") is not False)
            return _replace(run, target, value, ParameterOf(kept, value.all_of))
    return None


def _some_of(item: Value) -> Value | None:
    """`for p in parameters if <something unknown>`: each leaf may be left out."""
    if isinstance(item, ParameterOf) and item.all_of:
        return ParameterOf(item.leaves, all_of=False)
    pair = item.cells.get("items") if isinstance(item, Sequence) and item.kind == "tuple" else None
    if isinstance(pair, tuple) and any(isinstance(v, ParameterOf) for v in pair):
        return Sequence("tuple", {"items": tuple(_some_of(v) or v for v in pair)}, item.place)  # type: ignore[union-attr]
    return None


def _replace(run: Interpreter, target: ir.Expr, old: Value, new: Value) -> Value:
    if isinstance(target, (ir.Tuple, ir.List)):
        return Sequence("tuple", {"items": tuple(new if run.eval(t) is old else run.eval(t) for t in target.items)})
    return new


# The parts of the interpreter know each other: these come when this one is complete.
from .. import objects as _objects  # noqa: E402
