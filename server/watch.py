"""`import gradline.watch`: the module is what `gradline.watch` is without that import, and can be called as it can."""

from __future__ import annotations

import sys
import types
from typing import Any


class _Callable(types.ModuleType):
    def __call__(self, *things: Any, **options: Any) -> Any:
        from .probe.watch import Watch

        return Watch(*things, **options)


sys.modules[__name__].__class__ = _Callable
