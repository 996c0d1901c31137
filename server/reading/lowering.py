"""From a tree of the stdlib `ast` to the nodes of `ir.py`.

One function per node type, in a table by type; `s` is `Lines`. `tuple.__new__` makes a NamedTuple at half the price
of calling its class.
"""

from __future__ import annotations

import ast
import keyword
import re
import sys
from collections.abc import Callable
from typing import Any

from .. import ir

# `a + b + c ...` and `elif` chains nest once per link and everything behind recurses over them, a few frames per link,
# under Python's limit of 1,000 frames. The longest written by hand in 1.5 million lines is well below.
MAX_CHAIN = 120

Lines = list[Any]  # [the text, offset of line 1, offset of line 2, ...]: ast counts lines from 1

WORD = re.compile(r"[^\W\d]\w*")
LETTER = "\u01c3"  # a name that nobody uses


class Unread(ast.expr):
    """An expression that is not evaluated when it is reached."""


def words(text: str) -> tuple[str, ...]:
    """The identifiers in a text, each once, in order; those in strings too, as a broken f-string hides names."""
    found = dict.fromkeys(WORD.findall(text))
    return tuple([word for word in found if not keyword.iskeyword(word)])


def lowered() -> frozenset[type]:
    """The node types of `ast` that have a place in the IR."""
    return frozenset(_STATEMENT) | frozenset(_EXPRESSION)


_new: Callable[..., Any] = tuple.__new__


def body_of(body: list[Any], s: Lines) -> ir.Body:
    table = _STATEMENT
    return tuple([table[type(n)](n, s) for n in body])


def _all(nodes: list[Any], s: Lines) -> tuple[Any, ...]:
    table = _EXPRESSION
    return tuple([table[type(n)](n, s) for n in nodes])


def _maybe(n: Any, s: Lines) -> Any:
    return None if n is None else _EXPRESSION[type(n)](n, s)


def _at(n: Any, s: Lines) -> int:
    return (s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset)


def _hole(n: Any, s: Lines) -> Any:
    at = _at(n, s)
    return ir.Hole(at, words(s[0][at >> 32 : at & 0xFFFFFFFF]))


def _constant(n: Any, s: Lines) -> Any:
    return _new(ir.Const, ((s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset), n.value))


def _name(n: Any, s: Lines) -> Any:
    return _new(ir.Name, ((s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset), n.id))


def _attribute(n: Any, s: Lines) -> Any:
    v = n.value
    return _new(
        ir.Attr,
        (
            (s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset),
            _EXPRESSION[type(v)](v, s),
            n.attr,
        ),
    )


def _subscript(n: Any, s: Lines) -> Any:
    v, i = n.value, n.slice
    return _new(
        ir.Sub,
        (
            (s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset),
            _EXPRESSION[type(v)](v, s),
            _EXPRESSION[type(i)](i, s),
        ),
    )


def _slice(n: Any, s: Lines) -> Any:
    return ir.Slice(_at(n, s), _maybe(n.lower, s), _maybe(n.upper, s), _maybe(n.step, s))


def _call(n: Any, s: Lines) -> Any:
    table = _EXPRESSION
    f, args, keywords = n.func, n.args, n.keywords
    return _new(
        ir.Call,
        (
            (s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset),
            table[type(f)](f, s),
            tuple([table[type(a)](a, s) for a in args]) if args else (),
            tuple([(k.arg, table[type(k.value)](k.value, s)) for k in keywords]) if keywords else (),
        ),
    )


def _starred(n: Any, s: Lines) -> Any:
    return ir.Star(_at(n, s), _EXPRESSION[type(n.value)](n.value, s))


_OPERATOR = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not", ast.And: "and", ast.Or: "or",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


def _binary(n: Any, s: Lines) -> Any:
    left = n.left
    if type(left) is not ast.BinOp:
        right = n.right
        return _new(
            ir.Bin,
            (
                (s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset),
                _OPERATOR[type(n.op)],
                _EXPRESSION[type(left)](left, s),
                _EXPRESSION[type(right)](right, s),
            ),
        )
    chain = [n]  # down the left side without recursion: `a + b + c + ...` may be thousands long
    while type(left) is ast.BinOp:
        chain.append(left)
        left = left.left
    if len(chain) > MAX_CHAIN:
        return _hole(n, s)
    found = _EXPRESSION[type(left)](left, s)
    for n in reversed(chain):
        found = ir.Bin(_at(n, s), _OPERATOR[type(n.op)], found, _EXPRESSION[type(n.right)](n.right, s))
    return found


def _unary(n: Any, s: Lines) -> Any:
    return ir.Unary(_at(n, s), _OPERATOR[type(n.op)], _EXPRESSION[type(n.operand)](n.operand, s))


def _boolean(n: Any, s: Lines) -> Any:
    return ir.Bool(_at(n, s), _OPERATOR[type(n.op)], _all(n.values, s))


def _compare(n: Any, s: Lines) -> Any:
    ops = tuple([_OPERATOR[type(op)] for op in n.ops])
    return ir.Compare(_at(n, s), _EXPRESSION[type(n.left)](n.left, s), ops, _all(n.comparators, s))


def _conditional(n: Any, s: Lines) -> Any:
    return ir.IfExp(_at(n, s), *_all([n.test, n.body, n.orelse], s))


def _tuple(n: Any, s: Lines) -> Any:
    return _new(ir.Tuple, (_at(n, s), _all(n.elts, s)))


def _list(n: Any, s: Lines) -> Any:
    return _new(ir.List, (_at(n, s), _all(n.elts, s)))


def _set(n: Any, s: Lines) -> Any:
    return _new(ir.Set, (_at(n, s), _all(n.elts, s)))


def _dict(n: Any, s: Lines) -> Any:
    return ir.Dict(_at(n, s), tuple([_maybe(key, s) for key in n.keys]), _all(n.values, s))


def _comprehension(kind: str) -> Callable[[Any, Lines], Any]:
    def lower(n: Any, s: Lines) -> Any:
        generators = tuple(
            [_new(ir.Generator, (*_all([g.target, g.iter], s), _all(g.ifs, s), bool(g.is_async))) for g in n.generators]
        )
        if kind == "dict":
            if n.value is None:
                return _unpacked(n, _EXPRESSION[type(n.key)](n.key, s), kind, generators, s)
            return _new(ir.Comp, (_at(n, s), kind, *_all([n.key, n.value], s), generators))
        element = _EXPRESSION[type(n.elt)](n.elt, s)
        if type(element) is ir.Star:
            return _unpacked(n, element.value, kind, generators, s)
        return ir.Comp(_at(n, s), kind, None, element, generators)

    return lower


def _unpacked(n: Any, inner: Any, kind: str, generators: tuple[Any, ...], s: Lines) -> Any:
    """`[*a for a in b]` is `[x for a in b for x in a]`, `{**a for a in b}` goes over the items of each (Python 3.15)."""
    key = item = ir.Name(inner.at, LETTER)
    over = inner
    if kind == "dict":
        item = ir.Name(inner.at, LETTER * 2)
        over = ir.Call(inner.at, ir.Attr(inner.at, inner, "items"), (), ())
    target = ir.Tuple(inner.at, (key, item)) if kind == "dict" else item
    each = ir.Generator(target, over, (), False)
    return ir.Comp(_at(n, s), kind, key if kind == "dict" else None, item, (*generators, each))


def _parameters(n: ast.arguments, s: Lines) -> tuple[ir.Param, ...]:
    found: list[ir.Param] = []
    missing = len(n.posonlyargs) + len(n.args) - len(n.defaults)
    defaults = [None] * missing + [_EXPRESSION[type(d)](d, s) for d in n.defaults]
    for arg, default in zip(n.posonlyargs, defaults, strict=False):
        found.append(_parameter(arg, "pos", default, s))
    for arg, default in zip(n.args, defaults[len(n.posonlyargs) :], strict=True):
        found.append(_parameter(arg, "arg", default, s))
    if n.vararg is not None:
        found.append(_parameter(n.vararg, "*", None, s))
    for arg, value in zip(n.kwonlyargs, n.kw_defaults, strict=True):
        found.append(_parameter(arg, "kw", _maybe(value, s), s))
    if n.kwarg is not None:
        found.append(_parameter(n.kwarg, "**", None, s))
    return tuple(found)


def _parameter(n: ast.arg, kind: str, default: Any, s: Lines) -> Any:
    return _new(ir.Param, (_at(n, s), n.arg, kind, default, _maybe(n.annotation, s)))


def _lambda(n: Any, s: Lines) -> Any:
    return ir.Lambda(_at(n, s), _parameters(n.args, s), _EXPRESSION[type(n.body)](n.body, s))


def _await(n: Any, s: Lines) -> Any:
    return ir.Await(_at(n, s), _EXPRESSION[type(n.value)](n.value, s))


def _yield(n: Any, s: Lines) -> Any:
    return ir.Yield(_at(n, s), _maybe(n.value, s))


def _yield_from(n: Any, s: Lines) -> Any:
    return ir.YieldFrom(_at(n, s), _EXPRESSION[type(n.value)](n.value, s))


def _joined(n: Any, s: Lines) -> Any:
    return ir.Joined(_at(n, s), tuple(_interpolated(n, s)))


def _interpolated(n: Any, s: Lines) -> list[Any]:
    found: list[Any] = []
    for value in n.values:
        if type(value) is ast.Constant:
            continue
        found.append(_EXPRESSION[type(value.value)](value.value, s))
        if value.format_spec is not None:
            found += _interpolated(value.format_spec, s)
    return found


def _walrus(n: Any, s: Lines) -> Any:
    return ir.Walrus(_at(n, s), *_all([n.target, n.value], s))


_EXPRESSION: dict[type, Callable[[Any, Lines], Any]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Call: _call,
    ast.Starred: _starred,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.ListComp: _comprehension("list"),
    ast.SetComp: _comprehension("set"),
    ast.DictComp: _comprehension("dict"),
    ast.GeneratorExp: _comprehension("gen"),
    ast.Lambda: _lambda,
    ast.Await: _await,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.JoinedStr: _joined,
    ast.NamedExpr: _walrus,
    Unread: _hole,
}
if sys.version_info >= (3, 14):
    _EXPRESSION[ast.TemplateStr] = _joined


def _assign(n: Any, s: Lines) -> Any:
    targets, value = n.targets, n.value
    return _new(ir.Assign, (_at(n, s), _all(targets, s), _EXPRESSION[type(value)](value, s)))


def _augmented(n: Any, s: Lines) -> Any:
    target, value = _all([n.target, n.value], s)
    return ir.AugAssign(_at(n, s), target, _OPERATOR[type(n.op)], value)


def _annotated(n: Any, s: Lines) -> Any:
    return _new(ir.AnnAssign, (_at(n, s), *_all([n.target, n.annotation], s), _maybe(n.value, s)))


def _expression(n: Any, s: Lines) -> Any:
    v = n.value
    return _new(ir.ExprStmt, (_at(n, s), _EXPRESSION[type(v)](v, s)))


def _return(n: Any, s: Lines) -> Any:
    return _new(ir.Return, (_at(n, s), _maybe(n.value, s)))


def _raise(n: Any, s: Lines) -> Any:
    return ir.Raise(_at(n, s), _maybe(n.exc, s), _maybe(n.cause, s))


def _assert(n: Any, s: Lines) -> Any:
    return ir.Assert(_at(n, s), _EXPRESSION[type(n.test)](n.test, s), _maybe(n.msg, s))


def _delete(n: Any, s: Lines) -> Any:
    return ir.Delete(_at(n, s), _all(n.targets, s))


def _pass(n: Any, s: Lines) -> Any:
    return ir.Pass(_at(n, s))


def _break(n: Any, s: Lines) -> Any:
    return ir.Break(_at(n, s))


def _continue(n: Any, s: Lines) -> Any:
    return ir.Continue(_at(n, s))


def _global(n: Any, s: Lines) -> Any:
    return ir.Global(_at(n, s), tuple(n.names))


def _nonlocal(n: Any, s: Lines) -> Any:
    return ir.Nonlocal(_at(n, s), tuple(n.names))


def _if(n: Any, s: Lines) -> Any:
    chain = [n]
    orelse = n.orelse
    while len(orelse) == 1 and type(orelse[0]) is ast.If:
        chain.append(orelse[0])
        orelse = orelse[0].orelse
    if len(chain) > MAX_CHAIN:
        last = chain[MAX_CHAIN]
        del chain[MAX_CHAIN:]
        rest: tuple[Any, ...] = (_hole(last, s),)
    else:
        rest = body_of(orelse, s)
    for n in reversed(chain):
        rest = (_new(ir.If, (_at(n, s), _EXPRESSION[type(n.test)](n.test, s), body_of(n.body, s), rest)),)
    return rest[0]


def _for(n: Any, s: Lines) -> Any:
    target, over = _all([n.target, n.iter], s)
    return ir.For(_at(n, s), target, over, body_of(n.body, s), body_of(n.orelse, s), type(n) is ast.AsyncFor)


def _while(n: Any, s: Lines) -> Any:
    return ir.While(_at(n, s), _EXPRESSION[type(n.test)](n.test, s), body_of(n.body, s), body_of(n.orelse, s))


def _with(n: Any, s: Lines) -> Any:
    items = tuple([(_EXPRESSION[type(i.context_expr)](i.context_expr, s), _maybe(i.optional_vars, s)) for i in n.items])
    return ir.With(_at(n, s), items, body_of(n.body, s), type(n) is ast.AsyncWith)


def _try(n: Any, s: Lines) -> Any:
    handlers = tuple([ir.Handler(_at(h, s), _maybe(h.type, s), h.name, body_of(h.body, s)) for h in n.handlers])
    return ir.Try(_at(n, s), body_of(n.body, s), handlers, body_of(n.orelse, s), body_of(n.finalbody, s))


def _match(n: Any, s: Lines) -> Any:
    cases = tuple([_case(case, s) for case in n.cases])
    return ir.Match(_at(n, s), _EXPRESSION[type(n.subject)](n.subject, s), cases)


def _case(n: Any, s: Lines) -> ir.Case:
    binds: dict[str, None] = {}
    for node in ast.walk(n.pattern):
        bound = getattr(node, "rest" if type(node) is ast.MatchMapping else "name", None)
        if bound is not None and isinstance(node, ast.pattern):
            binds[bound] = None
    start = _at(n.pattern, s)
    last = n.body[-1]
    at = start >> 32 << 32 | (s[last.end_lineno] + last.end_col_offset)
    return ir.Case(at, tuple(binds), _always(n.pattern), _maybe(n.guard, s), body_of(n.body, s))


def _always(pattern: Any) -> bool:
    """Whether a pattern matches whatever comes."""
    if isinstance(pattern, ast.MatchOr):
        return any(_always(one) for one in pattern.patterns)
    return isinstance(pattern, ast.MatchAs) and (pattern.pattern is None or _always(pattern.pattern))


_DEF_NAME = re.compile(r"(?:async(?:\s|\\)+)?(?:def|class)(?:\s|\\)+")


def _name_at(n: Any, s: Lines) -> int:
    start = s[n.lineno] + n.col_offset
    text = s[0]
    length = len(n.name)
    usual = start + (4 if type(n) is ast.FunctionDef else 6 if type(n) is ast.ClassDef else 10)
    if text[usual : usual + length] != n.name:
        # written with more blanks, or its letters are not in the normal form that the tree has
        found = _DEF_NAME.match(text[start : start + 1000])
        usual = start + (found.end() if found else 0)
        if found and (written := WORD.match(text[usual : usual + 1000])):
            length = written.end()
    return usual << 32 | usual + length


def _def(n: Any, s: Lines) -> Any:
    at = _at(n, s)
    is_generator = s[0].find("yield", at >> 32, at & 0xFFFFFFFF) >= 0 and _yields(n)
    return _new(
        ir.Def,
        (
            at,
            n.name,
            _name_at(n, s),
            _parameters(n.args, s),
            body_of(n.body, s),
            _all(n.decorator_list, s) if n.decorator_list else (),
            _maybe(n.returns, s),
            type(n) is ast.AsyncFunctionDef,
            is_generator,
        ),
    )


_SCOPES = frozenset([ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda])


def _yields(n: Any) -> bool:
    due: list[Any] = list(n.body)
    while due:
        node = due.pop()
        kind = type(node)
        if kind is ast.Yield or kind is ast.YieldFrom:
            return True
        if kind not in _SCOPES:
            due.extend(ast.iter_child_nodes(node))
    return False


def _class(n: Any, s: Lines) -> Any:
    keywords = tuple([(k.arg, _EXPRESSION[type(k.value)](k.value, s)) for k in n.keywords])
    return ir.Class(
        _at(n, s), n.name, _name_at(n, s), _all(n.bases, s), keywords, body_of(n.body, s), _all(n.decorator_list, s)
    )


def _aliases(n: Any, s: Lines) -> tuple[ir.Alias, ...]:
    return tuple([ir.Alias(_at(a, s), a.name, a.asname) for a in n.names])


def _import(n: Any, s: Lines) -> Any:
    return ir.Import(_at(n, s), _aliases(n, s))


def _import_from(n: Any, s: Lines) -> Any:
    return ir.ImportFrom(_at(n, s), n.module or "", n.level or 0, _aliases(n, s))


def _type_alias(n: Any, s: Lines) -> Any:
    return ir.Assign(_at(n, s), _all([n.name], s), _hole(n.value, s))  # evaluated when asked, if ever


_STATEMENT: dict[type, Callable[[Any, Lines], Any]] = {
    ast.Assign: _assign,
    ast.AugAssign: _augmented,
    ast.AnnAssign: _annotated,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Delete: _delete,
    ast.Pass: _pass,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.Match: _match,
    ast.FunctionDef: _def,
    ast.AsyncFunctionDef: _def,
    ast.ClassDef: _class,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
}
if sys.version_info >= (3, 11):
    _STATEMENT[ast.TryStar] = _try
if sys.version_info >= (3, 12):
    _STATEMENT[ast.TypeAlias] = _type_alias
