"""Modules: made, asked for their parameters and members, told to train, called."""

from __future__ import annotations

from .classes import CONTAINERS, library_class
from .forward import apply_module, call_container_module, call_module
from .making import initialize, made, make_module
from .members import (
    drop_named_member,
    iterate_object,
    library_attribute,
    module_item,
    refuse_plain,
    registers,
    replace_item,
    replace_weight,
    set_module_item,
    set_named_member,
    take_apart,
)
from .methods import call_module_method
from .parameters import leaves_of, named_leaves, registered, set_flags, submodules, thaw_any

__all__ = [
    "CONTAINERS", "apply_module", "call_container_module", "call_module", "call_module_method", "drop_named_member",
    "initialize", "iterate_object", "leaves_of", "library_attribute", "library_class", "made", "make_module",
    "module_item", "named_leaves", "refuse_plain", "registered", "registers", "replace_item", "replace_weight",
    "set_flags", "set_module_item", "set_named_member", "submodules", "take_apart", "thaw_any",
]  # fmt: skip
