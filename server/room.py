"""Room for deep recursions, which otherwise cost more than what they do.

CPython 3.11 to 3.13 keep the frames of running functions in chunks of 16 KiB. When the first frame of a chunk returns
the chunk goes back to the operating system, and the next call asks for it again: an interpreter that calls itself goes
up and down, and where it does so at the end of a chunk each call costs some microseconds. A public training script was
followed in 143 ms in place of 232 (measured on 3.11).

A chunk is as large as the frame that begins it needs. So a frame that says that it may need much, and does not, leaves
room for all that is called below it. Where frames are kept otherwise (3.10, other implementations) it changes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

# Words of a frame: a little over 256 KiB with what CPython adds, so that the chunk gets 512 KiB, half of them left over:
# the deepest recursions that Python allows (1,000 frames of some 200 bytes) stay inside. It is never written to.
LARGE = 31_800


def roomy(function: Callable[P, T]) -> Callable[P, T]:
    """The function, called in a frame that leaves room below it. For what begins an analysis, not for what is in it."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    plain = cast(FunctionType, call)
    plain.__code__ = plain.__code__.replace(co_stacksize=LARGE)
    return call
