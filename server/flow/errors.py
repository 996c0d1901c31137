"""Which blocks go on after torch has raised: what is tried there may fail, and nothing is wrong with it."""

from __future__ import annotations

from .. import ir

# What torch raises is a RuntimeError, as a rule; an `except` of these does not catch it.
OTHER_ERRORS = frozenset(
    "ArithmeticError AssertionError AttributeError EOFError FileNotFoundError GeneratorExit ImportError IndexError IOError "
    "KeyError KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError OSError OutOfMemoryError StopIteration "
    "SystemExit TimeoutError TypeError ValueError ZeroDivisionError".split()
)
# `contextlib.suppress`, `pytest.raises`, `self.assertRaises` and the like.
SWALLOWING = frozenset({"suppress", "raises", "assertRaises", "assertRaisesRegex"})


def goes_on(handler: ir.Handler) -> bool:
    """Whether an `except` may catch what torch raises, and then goes on."""
    last = handler.body[-1] if handler.body else None
    if isinstance(last, ir.Raise):
        return False
    caught = handler.type.items if isinstance(handler.type, ir.Tuple) else (handler.type,)
    return any(one is None or _name(one) not in OTHER_ERRORS for one in caught)


def swallows(item: ir.Expr) -> bool:
    """Whether the program goes on behind a `with` of this, whatever was raised in it."""
    return isinstance(item, ir.Call) and _name(item.func) in SWALLOWING


def _name(e: ir.Expr) -> str:
    return e.name if isinstance(e, ir.Attr) else e.id if isinstance(e, ir.Name) else ""
