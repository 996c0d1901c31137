"""Calls: of project functions and classes, of decorated and partial functions, and of what is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import ir, torchlib
from ..facts import (
    FALSE,
    NEW_MODES,
    NONE,
    TRUE,
    UNKNOWN,
    Array,
    Builtin,
    Class,
    Const,
    Context,
    External,
    Frames,
    Function,
    GradOf,
    Leaf,
    Mapping,
    Method,
    Mode,
    Number,
    Object,
    ParameterOf,
    Parameters,
    Partial,
    Range,
    Scope,
    Sequence,
    Super,
    Tensor,
    Text,
    Union,
    Unknown,
    Value,
    Wrapped,
    call_places,
    element,
    join,
    join_all,
    same,
)
from ..findings import Place
from .frames import Args, Frame
from .objects import bound, find, is_module
from .operations import flatten, graph_of
from .python import call_builtin, call_container

if TYPE_CHECKING:
    from .interp import Interpreter


def call(run: Interpreter, func: Value, args: Args, e: ir.Call | None) -> Value:
    """Call a value. `e` is the call expression, if there is one."""
    if isinstance(func, Function):
        return call_function(run, func, args, e)
    if isinstance(func, External):
        return _library.call_external(run, func.name, args, e)
    if isinstance(func, Method):
        return call_method(run, func, args, e)
    if isinstance(func, Builtin):
        return call_builtin(run, func, args, e)
    if isinstance(func, Class):
        return instantiate(run, func, args, e)
    if isinstance(func, Object):
        return call_object(run, func, args, e)
    if isinstance(func, Partial):
        merged = Args([*func.positional, *args.positional], {**dict(func.keywords), **args.keywords}, args.spread,
                      [*(args.places[:1] * len(func.positional)), *args.places])  # fmt: skip
        return call(run, func.function, merged, e)
    if isinstance(func, Context):
        target = args.positional[0] if args.positional else UNKNOWN
        if isinstance(target, Function):
            return with_mode(target, func, run.place(e.at) if e is not None else None)
        return target
    if isinstance(func, Union):
        results: list[Value] = []
        if (put := _replacing.of_several(run, func, args)) is not None:
            return put

        def way(option: Value):
            def go() -> bool:
                run.guesses += 1
                try:
                    results.append(call(run, option, args, e))
                finally:
                    run.guesses -= 1
                return False

            return go

        run.branch(*(way(o) for o in func.options))
        return join_all(results)  # type: ignore[return-value]
    if isinstance(func, Wrapped):
        return call(run, func.function, args, e)
    for value in args.all():
        escape(run, value)
    return unknown_result(run, func, args)


def unknown_result(run: Interpreter, func: Value, args: Args) -> Value:
    """The result of a call that is not followed."""
    return func if isinstance(func, Unknown) and func.foreign else UNKNOWN


def selects(run: Interpreter, index: Number) -> None:
    """A loop's number chooses something: an item, or what unknown code makes of it."""
    run.notes.setdefault("selected", set()).add(id(index))  # type: ignore[attr-defined]
    run.notes.setdefault("selecting", []).append(index)  # type: ignore[attr-defined]


def escape(run: Interpreter, value: Value, depth: int = 3) -> None:
    """A value goes where it can't be followed: what happens to it there is not known.

    A tensor may be back-propagated there, a module called or changed, an optimizer stepped.
    """
    if isinstance(value, Number) and value.how == "range":
        selects(run, value)
        return
    if isinstance(value, Tensor):
        if value.tag == "data-of-leaf":  # it may be written there
            for leaf in _tensors.behind_data(value):
                run.state.put(leaf.cells, "written", True)
        node, _ = graph_of(value)
        if node is not None and node not in run.handed:
            run.state.set(run.handed, node, True)
            _training.taint(run, node)
        return
    if isinstance(value, Object):
        if value.cells.get("escaped"):
            return
        run.state.set(value.cells, "escaped", True)
        leaves: tuple[Leaf, ...] | list[Leaf] = ()
        if is_module(value):
            leaves = _modules.leaves_of(run, value)[0]
        elif _training.is_optimizer(value):
            leaves = _training.optimizer_leaves(value)
        for leaf in leaves:
            run.state.set(leaf.cells, "escaped", True)
            if is_module(value) and leaf.cells.get("requires_grad") is False:
                run.state.set(leaf.cells, "requires_grad", None)  # it may be thawed there, or get another beside it
        if depth and isinstance(value.cls, Class):
            for name, inner in list(value.attrs.items()):
                if isinstance(inner, (Object, Tensor)):
                    escape(run, inner, depth - 1)
                if not is_module(value) and isinstance(inner, (Const, Number, Array, Text, Tensor)):
                    run.state.set(value.attrs, name, UNKNOWN)  # whoever got it may have set it anew
    elif isinstance(value, (Parameters, ParameterOf)):
        for leaf in value.leaves:
            run.state.set(leaf.cells, "escaped", True)
    elif isinstance(value, Sequence) and depth:
        items = value.cells.get("items")
        for item in items if isinstance(items, tuple) else (element(value),):
            if isinstance(item, Value):
                escape(run, item, depth - 1)
        if value.kind == "list":
            run.state.set(value.cells, "each", UNKNOWN)
            run.state.set(value.cells, "items", None)
    elif isinstance(value, Mapping) and depth:
        for key, item in list(value.cells.items()):
            if isinstance(item, Value):
                escape(run, item, depth - 1)
            if isinstance(item, (Const, Number, Array)):
                run.state.set(value.cells, key, UNKNOWN)
        run.state.set(value.cells, "rest", UNKNOWN)
    elif isinstance(value, Function) and value.bound is not None:
        escape(run, value.bound, depth - 1)
    elif isinstance(value, Union):
        for option in value.options:
            escape(run, option, depth)
    elif isinstance(value, Method):
        escape(run, value.owner, depth - 1)


# ---------------------------------------------------------------- project functions


def call_function(run: Interpreter, func: Function, args: Args, e: ir.Expr | None) -> Value:
    modes = [(context, place) for context, place in func.decorators if isinstance(context, Context)]
    if not modes:
        compiled = run.compiled
        for decorator, place in func.decorators:
            if isinstance(decorator, External):
                run.compiled = (
                    place if decorator.name == "torch.compile" else None if decorator.name in EAGER else run.compiled
                )
        try:
            return enter_function(run, func, args, e)
        finally:
            run.compiled = compiled
    before = run.state.mode
    for context, place in modes:
        if context.mode is not None:
            mode = context.mode
            _modes.switch(run, Mode(mode.kind, place, mode.how, False, run.stack), record=False)
    try:
        result = enter_function(run, func, args, e)
    finally:
        run.state.mode = before
    if isinstance(result, Range) and result.mode is not None:
        return Range(result.each, None, result.place)  # a decorated generator keeps its mode to itself (claim M22)
    return result


def _perhaps_made(run: Interpreter, instance: Value | None) -> None:
    """A constructor of a base is not followed: `Module.__init__` may have run by now."""
    if isinstance(instance, Object) and instance.cells.get("init") is False:
        run.state.set(instance.cells, "init", None)


def _in_base_init(run: Interpreter, func: Function) -> bool:
    """Whether the `__init__` of a base class calls this, which is no `__init__`.

    A framework's base class sets itself up in hundreds of steps, anew for every class that is judged alone, and what its
    helpers do is seen where they are judged.
    """
    caller = run.frames[-1].function if run.frames else None
    if caller is None or caller.name != "__init__" or func.name == "__init__":
        return False
    return isinstance(caller.bound, Object) and caller.bound.cls is not caller.owner


def enter_function(run: Interpreter, func: Function, args: Args, e: ir.Expr | None) -> Value:
    code = func.code
    key = (func.module.path, func.base + ir.unpack(code.at)[0])
    run.executed.add(key)
    run.read.add(func.module.path)
    if run.alone and func.module.path in run.borrowed:
        run.read |= run.borrowed[func.module.path]  # they may have been made for a function that was judged before
    depth = 0
    for frame in run.frames:
        if frame.function is not None and frame.function.code is code:
            depth += 1
    if len(run.frames) > run.depth_limit or depth >= 2 or (run.alone and _in_base_init(run, func)):
        for value in args.all():
            escape(run, value)
            if depth:  # a recursion that goes on
                _replacing.unseen(run, value)
        if func.name == "__init__":
            _perhaps_made(run, func.bound)
        return UNKNOWN
    if func.name == "__init__" and func.bound is None and run.frames and run.frames[-1].function is not None:
        making = run.frames[-1].function.bound  # `Base.__init__(config)`, without the instance
        if not any(value is making for value in args.all()):
            _perhaps_made(run, making)
    run.tick()
    scope = Scope({}, func.closure)
    bind_arguments(run, func, args, scope)
    caller = run.frames[-1] if run.frames else None
    frame = Frame(scope, func.module, func.unit, func.base, func, run.state.mark(), cls=func.owner)
    receiver = func.bound
    if isinstance(receiver, Object) and func.name == "forward" and is_module(receiver):
        frame.instance = receiver
    elif run.instance is not None:
        frame.instance = run.instance
    elif caller is not None:
        frame.instance = caller.instance
    run.instance = None
    stack = run.stack
    if e is not None and caller is not None:
        run.stack = Frames(run.place(e.at), func.name, "call", stack)
    outer = run.notes.get("modes")
    if is_manager(func):
        run.notes["modes"] = None  # what an exception leaves behind is told where the block is entered
    run.frames.append(frame)
    if run.watch is not None:
        for param in code.params:
            run.observe(param, scope.names[param.name])  # type: ignore[arg-type]
    try:
        if isinstance(code, ir.Lambda):
            return run.eval(code.body)
        if not run.run_body(code.body):
            made = ir.unpack(code.name_at)
            nothing = Const(None, Place(func.module.path, func.base + made[0], func.base + made[1]))
            frame.exits.append((nothing, None))
    finally:
        run.frames.pop()
        run.stack = stack
        run.notes["modes"] = outer
    return finish(run, func, frame, code, e)


def finish(run: Interpreter, func: Function, frame: Frame, code: ir.Def, e: ir.Expr | None) -> Value:
    """Join the ways out of a function, and say what its call evaluates to."""
    state, names = run.state, frame.scope.names
    # Its own names go with it, unless a function made in it still sees them.
    gone = not frame.scope.captured
    if len(frame.exits) == 1 and frame.exits[0][1] is None:
        value = frame.exits[0][0]
        if gone:
            state.forget(names, frame.mark)
    elif frame.exits:
        ways = [state.changes(frame.mark) if changes is None else changes for _, changes in frame.exits]
        if gone:
            ways = [{where: entry for where, entry in way.items() if entry[0] is not names} for way in ways]
        state.undo(frame.mark)
        state.merge(ways)
        value = join_all([v for v, _ in frame.exits])
    else:
        value = UNKNOWN  # it never returns: it raises, or loops for ever
    if code.is_generator:
        return generator(run, func, frame, run.place(e.at) if e is not None and run.frames else None)
    if code.is_async:
        return UNKNOWN
    return value


def is_manager(func: Function) -> bool:
    return any(isinstance(d, External) and d.name == "contextlib.contextmanager" for d, _ in func.decorators)


def generator(run: Interpreter, func: Function, frame: Frame, place: Place | None) -> Value:
    """A generator's call: its body was run through; what it yields, and the grad mode in which it waits."""
    if not frame.yields:
        return Range(UNKNOWN)
    values = join_all([v for v, _ in frame.yields])
    mode = frame.yields[0][1]
    now = run.state.mode
    if is_manager(func):
        cells = {"value": values, "at_yield": mode, "at_end": now, "items": None, "protected": frame.protected}
        return Sequence("contextmanager", cells)
    leaks = mode if mode.kind != now.kind else None
    code = func.code
    given = [v for v, _ in frame.yields]
    if (
        leaks is None
        and isinstance(code, ir.Def)
        and not code.is_async
        and _only_yields(code.body)
        and all(_was_there(v, func) for v in given)
    ):
        if len(given) == sum(isinstance(s, ir.ExprStmt) and isinstance(s.value, ir.Yield) for s in code.body):
            return Sequence("generator", {"items": tuple(given)}, place)
        return Sequence("generator", {"items": None, "each": values, "parts": _apart(given)}, place)
    return Range(values, leaks, mode.place)  # type: ignore[arg-type]


def _only_yields(body: ir.Body) -> bool:
    """Whether a body does nothing but yield, in loops or not: then everything that was yielded surely is."""
    for s in body:
        if isinstance(s, ir.For) and not s.is_async and not s.orelse:
            if not _only_yields(s.body):
                return False
        elif not isinstance(s, ir.ExprStmt) or not isinstance(s.value, (ir.Yield, ir.YieldFrom, ir.Const)):
            return False
    return True


def _was_there(value: Value, func: Function) -> bool:
    """Whether a generator gives a parameter, or a tensor that something else has made: what it makes itself is made when
    it is asked for it, and not when the generator is."""
    if isinstance(value, ParameterOf):
        return True
    if not isinstance(value, Tensor):
        return False
    if value.leaf is not None or value.node is None:
        return value.leaf is not None
    start, end = (func.base + offset for offset in ir.unpack(func.code.at))
    places = [value.node.place, *call_places(value.node.stack)]
    return not any(place is None or (place.path == func.module.path and start <= place.start < end) for place in places)


def _apart(values: list[Value]) -> tuple[Value, ...]:
    """What a generator has yielded, once: the body of a loop is passed more often than that."""
    found: list[Value] = []
    for value in values:
        if isinstance(value, ParameterOf):
            known = any(isinstance(v, ParameterOf) and v.leaves == value.leaves for v in found)
        else:
            known = any(same(value, v) for v in found)
        if not known:
            found.append(value)
    return tuple(found)


def bind_arguments(run: Interpreter, func: Function, args: Args, scope: Scope) -> None:
    """Give the parameters their values; what can't be known is UNKNOWN."""
    names = scope.names
    defaults = dict(func.defaults)
    positional = list(args.positional)
    if func.bound is not None:
        positional.insert(0, func.bound)
    keywords = dict(args.keywords)
    index = 0
    for param in func.code.params:
        value: Value
        if param.kind == "*":
            rest = positional[index:]
            index = len(positional)
            if args.spread:
                value = Sequence("tuple", {"items": None, "each": UNKNOWN})
            else:
                value = Sequence("tuple", {"items": tuple(rest)})
        elif param.kind == "**":
            value = Mapping({("key", k): v for k, v in keywords.items()}, None, not args.spread)
            keywords = {}
        elif param.kind != "kw" and index < len(positional):
            value = positional[index]
            index += 1
        elif param.name in keywords:
            value = keywords.pop(param.name)
        elif args.spread:
            value = UNKNOWN
        elif param.name in defaults:
            value = defaults[param.name]
        else:
            value = UNKNOWN
        names[param.name] = value  # nobody sees this scope yet, so nothing is to be undone


def with_mode(function: Function, context: Context, place: Place | None) -> Function:
    """The function decorated by a grad-mode object."""
    where = place or (context.mode.place if context.mode is not None else None)
    return under(function, ((context, where), *function.decorators))  # type: ignore[arg-type]


def under(function: Function, decorators: tuple[tuple[Value, Place], ...]) -> Function:
    """The function with these decorators."""
    function.copied = True
    return Function(
        function.code, function.unit, function.base, function.module, function.closure, function.owner, function.bound,
        decorators, function.defaults,
    )  # fmt: skip


KEEPS = frozenset(
    [
        "torch.compile",
        "torch.jit.script",
        "torch.jit.ignore",
        "torch.jit.unused",
        "torch.jit.export",
        "abc.abstractmethod",
        "typing.override",
        "typing.no_type_check",
        "functools.lru_cache",
        "functools.cache",
        "functools.wraps",
        "torch.amp.custom_fwd",
        "torch.amp.custom_bwd",
        "torch.cuda.amp.custom_fwd",
        "torch.cuda.amp.custom_bwd",
    ]
)


EAGER = frozenset({"torch.compiler.disable", "torch._dynamo.disable"})  # what runs outside the compiled graph


def decorate(run: Interpreter, function: Function, s: ir.Def) -> Value:
    """Apply decorators, innermost first. Those of libraries that are not known leave the function as it is."""
    value: Value = function
    for decorator_e in reversed(s.decorators):
        place = run.place(decorator_e.at)
        mode = run.state.mode
        decorator = run.eval(decorator_e)
        run.state.mode = mode  # decorating restores what `set_grad_enabled` did when it was made (claim M19)
        value = decorated(run, decorator, value, place, s)
    return value


def decorated(run: Interpreter, decorator: Value, value: Value, place: Place, s: ir.Def) -> Value:
    function = value.function if isinstance(value, Wrapped) else value
    if isinstance(decorator, Context):
        if s.is_async:
            return value  # covers only the making of the coroutine (claim M24)
        if isinstance(value, Wrapped) and isinstance(function, Function):
            return Wrapped(value.kind, with_mode(function, decorator, place))
        return with_mode(value, decorator, place) if isinstance(value, Function) else value
    if isinstance(decorator, Builtin) and decorator.name in ("property", "staticmethod", "classmethod"):
        return Wrapped(decorator.name, value)
    if isinstance(decorator, External):
        name = decorator.name
        if name in _modes.ENTERED and isinstance(value, Function):
            kind = _modes.ENTERED[name]
            if kind is None:
                return value
            shown = Context(Mode(kind, place, f"@{name}"), name=name)
            return with_mode(value, shown, place)
        if name in ("functools.cached_property", "abc.abstractproperty"):
            return Wrapped("property", value)
        if name.startswith("builtins.property."):
            return Wrapped("property", UNKNOWN)
        if (name in ("contextlib.contextmanager", "torch.compile") or name in EAGER) and isinstance(value, Function):
            return under(value, (*value.decorators, (decorator, place)))
        return value
    if isinstance(decorator, (Function, Class)) and isinstance(value, Function):
        result = call(run, decorator, Args([value], {}), None)
        if isinstance(result, (Function, Partial, Object)):
            return result
        return UNKNOWN
    if isinstance(decorator, Partial) and isinstance(value, Function):
        result = call(run, decorator, Args([value], {}), None)
        return result if isinstance(result, Function) else value
    return value


# ---------------------------------------------------------------- classes and objects


def instantiate(run: Interpreter, cls: Class, args: Args, e: ir.Call | None) -> Value:
    place = run.place(e.at) if e is not None else cls.place
    function_base = next((b for b in cls.mro if isinstance(b, External) and b.name == "torch.autograd.Function"), None)
    obj = Object(cls, place, label=cls.name)
    if function_base is None and any(isinstance(b, External) and b.name.startswith("enum.") for b in cls.mro):
        return UNKNOWN
    module = is_module(obj)
    if module:
        obj.cells["training"] = True
        obj.cells["modes"] = NEW_MODES
    if module and run.alone and any(f.function is not None and f.function.owner is not None for f in run.frames):
        # A part of the class that is judged: its own parts are not looked at, it is judged by itself.
        obj.cells.update(init=True, dynamic=True, closed=True)
        for value in args.all():
            escape(run, value)
        return obj
    init = find(cls, "__init__", run)
    run.objects.append(obj)
    if init is not None and isinstance(init[0], Function):
        if module:
            obj.cells["init"] = False
        call(run, bound(init[0], obj), args, e)
    elif any(isinstance(d, External) and d.name in ("dataclasses.dataclass",) for d in cls.decorators) or is_dataclass(
        cls
    ):
        fill_fields(run, obj, cls, args)
    else:
        library_init(run, obj, args, place)
    post = find(cls, "__post_init__", run)
    if post is not None and isinstance(post[0], Function):
        call(run, bound(post[0], obj), Args([], {}), None)
    _modules.made(run, obj, place)
    return obj


def is_dataclass(cls: Class) -> bool:
    for base in cls.mro:
        if isinstance(base, External) and base.name in ("typing.NamedTuple",):
            return True
        if isinstance(base, Class) and any(getattr(d, "name", "") == "dataclasses.dataclass" for d in base.decorators):
            return True
    return False


def fill_fields(run: Interpreter, obj: Object, cls: Class, args: Args) -> None:
    fields: dict[str, Value | None] = {}
    for base in reversed(cls.mro):
        if isinstance(base, Class):
            fields.update(base.fields)
    for index, (name, default) in enumerate(fields.items()):
        value = args.get(index, name, default)
        obj.attrs[name] = value if value is not None else UNKNOWN


def library_init(run: Interpreter, obj: Object, args: Args, place: Place) -> None:
    """`__init__` of the library class that an object derives from."""
    name = _modules.library_class(obj)
    if is_module(obj):
        _modules.initialize(run, obj, name, args, place)
    elif _training.is_optimizer(obj):
        _training.make_optimizer(run, obj, args, place)
    elif isinstance(obj.cls, Class) and obj.cls.open:
        for value in args.all():
            escape(run, value)


def call_object(run: Interpreter, obj: Object, args: Args, e: ir.Call | None) -> Value:
    if is_module(obj):
        member = find(obj.cls, "__call__", run)
        if member is not None and isinstance(member[0], Function):
            return call(run, bound(member[0], obj), args, e)
        return _modules.call_module(run, obj, args, e)
    member = find(obj.cls, "__call__", run)
    if member is not None and isinstance(member[0], Function):
        return call(run, bound(member[0], obj), args, e)
    if _functional.is_transform(obj):
        return _functional.apply(run, obj, args, e)
    for value in args.all():
        escape(run, value)
    return UNKNOWN


def call_method(run: Interpreter, method: Method, args: Args, e: ir.Call | None) -> Value:
    """A bound method that is not a project function."""
    owner, name = method.owner, method.name
    if isinstance(owner, (Tensor, ParameterOf)):
        return _tensors.call_method(run, owner, name, args, e)
    if isinstance(owner, GradOf):
        return _training.call_grad_method(run, owner, name, args, e)
    if isinstance(owner, Object):
        if is_module(owner):
            return _modules.call_module_method(run, owner, name, args, e)
        return _training.call_object_method(run, owner, name, args, e)
    if isinstance(owner, (Sequence, Mapping, Text, Const, Array, Number, Range)):
        return call_container(run, owner, name, args, e)
    if isinstance(owner, Super):
        return call_super(run, owner, name, args, e)
    if isinstance(owner, Class):
        from .custom import apply_function

        return apply_function(run, owner, args, e)
    if isinstance(owner, Method) and owner.name in _replacing.MEMBERS:
        return _replacing.call_members(run, owner, name, args)
    if isinstance(owner, Function) and name == "__get__" and args.positional:
        return bound(owner, args.positional[0])
    if isinstance(owner, Function) and name in ("__get__", "__call__"):
        return call(run, owner, args, e)
    if isinstance(owner, Unknown):
        return unknown_method(run, owner, name, args, e)
    if isinstance(owner, Context):
        return _modes.call_context(run, owner, name, e)
    if name == "backward":
        _training.unknown_backward(run)
    for value in args.all():
        escape(run, value)
    return UNKNOWN


def call_super(run: Interpreter, owner: Super, name: str, args: Args, e: ir.Call | None) -> Value:
    """`super().name(...)` where the next class that has it is a library's."""
    instance = owner.instance
    place = run.place(e.at) if e is not None else owner.after.place
    if not isinstance(instance, Object):
        return UNKNOWN
    if name == "__init__":
        if is_module(instance):
            _modules.initialize(run, instance, _modules.library_class(instance), args, place)
            if isinstance(instance.cls, Class) and instance.cls.open:
                for value in args.all():
                    escape(run, value)
        elif _training.is_optimizer(instance):
            _training.make_optimizer(run, instance, args, place)
        return NONE
    if is_module(instance):
        if name in ("forward", "__call__"):
            cls = _modules.library_class(instance)
            info = torchlib.module(cls)
            if "items" in instance.cells:
                return _modules.call_container_module(run, instance, cls, args, e)
            return _modules.apply_module(run, instance, info, args, place) if info is not None else UNKNOWN
        return _modules.call_module_method(run, instance, name, args, e)
    if _training.is_optimizer(instance):
        return _training.call_optimizer(run, instance, name, args, e)
    for value in args.all():
        escape(run, value)
    return UNKNOWN


def unknown_method(run: Interpreter, owner: Unknown, name: str, args: Args, e: ir.Call | None) -> Value:
    """A method of something that is not known: its arguments may go anywhere."""
    written = (
        name.endswith("_")
        and e is not None
        and isinstance(e.func, ir.Attr)
        and getattr(e.func.value, "name", "") == "grad"
    )
    if name in ("backward", "manual_backward") or written:
        _training.unknown_backward(run)
    if name in ("requires_grad_", "unfreeze") and not (args.positional and run.truth(args.positional[0]) is False):
        _modules.thaw_any(run)
    _replacing.unknown_method(run, name, args)
    for value in args.all():
        escape(run, value)
    return owner if owner.foreign else UNKNOWN


# The parts of the interpreter know each other: these come when this one is complete.
from . import functional as _functional  # noqa: E402
from . import library as _library  # noqa: E402
from . import modes as _modes  # noqa: E402
from . import modules as _modules  # noqa: E402
from . import replacing as _replacing  # noqa: E402
from . import tensors as _tensors  # noqa: E402
from . import training as _training  # noqa: E402

__all__ = [
    "FALSE",
    "TRUE",
    "call",
    "call_function",
    "decorate",
    "escape",
    "flatten",
    "instantiate",
    "join",
    "unknown_method",
]
