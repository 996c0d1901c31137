"""The training step: backward, gradients, optimizers, scalers, and the other objects that a loop is made of.

`gradients.py` is the state that all of it moves: an abstract `AccumulateGrad` for every leaf.
"""

from __future__ import annotations

from .backward import autograd_call, number_method, taint, taint_all, unknown_backward
from .by_hand import apply_by_hand, call_grad_method, count_with_grad, grad_attribute, why_none
from .gradients import Grad, change_grad, clear, grad_of, keeps_zeros
from .graph import walk
from .leaves import memory_of, set_tensor_attribute, tensor_flag
from .loaders import data_of
from .objects import call_object_method, object_attribute
from .optimizers import call_optimizer, is_optimizer, make_optimizer, optimizer_leaves, parameters_in, parts_of
from .scalers import SCALERS, Phases

__all__ = [
    "SCALERS", "Grad", "Phases", "apply_by_hand", "autograd_call", "call_grad_method", "call_object_method",
    "call_optimizer", "change_grad", "clear", "count_with_grad", "data_of", "grad_attribute", "grad_of", "is_optimizer",
    "keeps_zeros", "make_optimizer", "memory_of", "number_method", "object_attribute", "optimizer_leaves",
    "parameters_in", "parts_of", "set_tensor_attribute", "taint", "taint_all", "tensor_flag", "unknown_backward", "walk",
    "why_none",
]  # fmt: skip
