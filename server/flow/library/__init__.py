"""Calls into libraries: whose function it is, and what one that is not known may do to what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir, torchlib
from ...facts import FOREIGN, UNKNOWN, Value
from ..calls import escape
from ..frames import Args
from .numpy import call_numpy
from .others import OTHERS, SCHEDULES, call_itertools, call_random, o_schedule
from .torch import call_torch

if TYPE_CHECKING:
    from ..interp import Interpreter


# Libraries whose functions take values to show, store or describe them: a tensor or model that goes there comes back
# as it was. Everything else may do anything with what it is given.
HARMLESS = frozenset(
    "time os sys json logging random math argparse pathlib warnings re datetime collections string pprint shutil csv "
    "pickle yaml matplotlib seaborn wandb tqdm rich typing typing_extensions types gc psutil socket signal textwrap "
    "tempfile glob subprocess uuid hashlib base64 struct traceback inspect platform itertools operator functools copy "
    "contextlib dataclasses enum abc heapq bisect statistics fractions decimal numbers threading queue atexit builtins "
    "numpy scipy sklearn pandas PIL cv2 imageio skimage torchvision.utils torchinfo torchsummary loguru tabulate "
    "torch.utils.tensorboard tensorboardX einops mlflow".split()
)

# Of these libraries, what comes out may be what went in before.
CARRIERS = frozenset("operator copy functools heapq queue pickle collections itertools threading contextlib types einops "
                     "dataclasses abc enum random mlflow".split())  # fmt: skip

# What these give is surely nothing of torch's, so it has no graph. Any other library may give modules and tensors:
# `hydra.utils.instantiate` builds them, a web framework or a graph of networkx hands out what was put in.
OTHER_WORLDS = frozenset(
    "gym gymnasium minigrid procgen pettingzoo tensorflow keras jax flax haiku optax paddle mxnet tinygrad cupy numba "
    "xgboost lightgbm nltk spacy requests absl pybullet mujoco datasets tokenizers sentencepiece sympy plotly bokeh "
    "boto3 redis librosa soundfile setuptools distutils".split()
)


def call_external(run: Interpreter, name: str, args: Args, e: ir.Call | None) -> Value:
    if name.startswith("torch."):
        return call_torch(run, torchlib.canonical(name), args, e)
    handler = OTHERS.get(name)
    if handler is not None:
        return handler(run, args, e)
    if name.startswith(("transformers.", "diffusers.optimization.")) and name.endswith(SCHEDULES):
        return o_schedule(run, args, e)
    top = name.partition(".")[0]
    if top in ("numpy", "math", "scipy", "cmath"):
        return call_numpy(run, name, args, e)
    if top == "random":
        return call_random(run, name, args, e)
    if top == "itertools":
        return call_itertools(run, name, args)
    if top in HARMLESS or name.rpartition(".")[0] in HARMLESS:
        return UNKNOWN if top in CARRIERS else FOREIGN
    for value in args.all():
        escape(run, value)
    return FOREIGN if top in OTHER_WORLDS else UNKNOWN
