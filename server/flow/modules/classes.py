"""Which class of `torch.nn` an object is an instance of, and what is peculiar to some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...facts import Class, External, Object

if TYPE_CHECKING:
    pass


CONTAINERS = {"torch.nn.Sequential": "sequence", "torch.nn.ModuleList": "sequence", "torch.nn.ModuleDict": "mapping",
              "torch.nn.ParameterList": "sequence", "torch.nn.ParameterDict": "mapping"}  # fmt: skip

# From the second time step on the input of the weights is a result of the weights: they are always saved.
RECURRENT = frozenset({"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"})

# Made with `inplace=True`, their backward computes from the output; of the input, which it would need else, nothing is left.
NEEDS_WHAT_IT_WROTE = frozenset(
    {"torch.nn.LeakyReLU", "torch.nn.ELU", "torch.nn.CELU", "torch.nn.SELU", "torch.nn.RReLU"}
)


def library_class(obj: Object) -> str:
    """The class of torch whose behaviour the object has where the project overrides nothing."""
    cls = obj.cls
    if type(cls) is External:
        return cls.name
    if type(cls) is Class:
        for base in cls.mro:
            if isinstance(base, External) and base.name.startswith("torch."):
                return base.name
    return ""


# Layers with a weight and maybe a bias: the position of the argument that decides.
BIAS_AT = {"Linear": 2, "Bilinear": 3, "Conv1d": 7, "Conv2d": 7, "Conv3d": 7, "ConvTranspose1d": 7, "ConvTranspose2d": 7,
           "ConvTranspose3d": 7, "Embedding": None}  # fmt: skip


# The parts of the interpreter know each other: these come when this one is complete.
