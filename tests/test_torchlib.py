"""The data about torch, against the torch that is installed."""

from __future__ import annotations

import time

import pytest

from gradline import torchlib

GRADS = {"flows", "zero", "partial", "cut", "cut_dtype", "cut_value", "like", "meta", "depends", "factory", "int_only"}
GRADS |= {"no_derivative", "raises", "untested"}
SHAPES = ("scalar", "elementwise", "reduce", "nonscalar", "unknown")


def test_answers() -> None:
    item = torchlib.method("item")
    assert item and item.grad == "cut_value" and item.outputs[0].kind == "float"
    most = torchlib.op("torch.max")
    assert most and most.fields == ("values", "indices")
    assert most and [o.grad for o in most.outputs_dim] == ["flows", "none"] and most.dim == {"dim": 1}
    loss = torchlib.op("torch.nn.functional.mse_loss")
    assert loss and loss.shape == "scalar" and loss.reduction == 4
    exp = torchlib.op("torch.exp")
    assert exp and exp.saves == {"0": ("out",)} and exp.frees == "always"
    mul = torchlib.op("torch.mul")
    assert mul and mul.saves == {"0": ("1",), "1": ("0",)} and not mul.inplace
    add = torchlib.method("add_")
    assert add and add.inplace and not add.saves and add.frees == "never"
    assert torchlib.op("torch.nothing_of_the_kind") is None and torchlib.op("numpy.sum") is None


def test_modules() -> None:
    lstm = torchlib.module("torch.nn.modules.rnn.LSTM")
    assert lstm and lstm.name == "torch.nn.LSTM" and lstm.outputs == ("tensor", ("tensor", "tensor"))
    relu = torchlib.module("torch.nn.ReLU")
    assert relu and relu.saves == ("out",) and relu.inplace and not relu.parameters
    linear = torchlib.module("torch.nn.Linear")
    assert linear and linear.saves == ("in",) and linear.parameters == ("weight", "bias") and not linear.by_mode
    loss = torchlib.module("torch.nn.CrossEntropyLoss")
    assert loss and loss.loss and loss.shape == "scalar" and loss.reduction == 4
    for name in ("Dropout", "BatchNorm2d", "TransformerEncoderLayer"):
        m = torchlib.module(f"torch.nn.{name}")
        assert m and m.by_mode


def test_names() -> None:
    c = torchlib.canonical
    assert c("torch.autograd.grad_mode.no_grad") == c("torch.autograd.no_grad") == "torch.no_grad"
    assert c("torch.nn.parameter.Parameter") == "torch.nn.Parameter"
    assert c("torch.optim.adam.Adam") == "torch.optim.Adam"
    assert c("torch.nn.modules.module.Module.eval") == "torch.nn.Module.eval"
    assert c("torch.nn.Linear") == "torch.nn.Linear" and c("numpy.sum") == "numpy.sum"


def test_star_imports() -> None:
    assert {"no_grad", "tensor", "cat"} <= set(torchlib.star_names("torch"))
    assert {"Linear", "Module"} <= set(torchlib.star_names("torch.nn"))
    assert torchlib.star_names("numpy") == ()


def test_factories_and_optimizers() -> None:
    rand = torchlib.factory("torch.randn")
    assert rand and rand.random and rand.takes_requires_grad and rand.dtype == "float"
    perm = torchlib.factory("torch.randperm")
    assert perm and not perm.takes_requires_grad and perm.dtype == "int"
    lbfgs = torchlib.optimizer("torch.optim.lbfgs.LBFGS")
    assert lbfgs and lbfgs.closure == "needed"
    plateau = torchlib.scheduler("torch.optim.lr_scheduler.ReduceLROnPlateau")
    assert plateau and plateau.metric
    assert torchlib.optimizer("torch.nn.Linear") is None and torchlib.factory("torch.relu") is None


def test_every_entry_is_well_formed() -> None:
    for name in torchlib.ops():
        op = torchlib.op(name)
        assert op and op.grad in GRADS and op.shape in SHAPES, name
        assert op.outputs or op.grad == "raises", name
        assert set(op.saves) | set(op.may_save) <= set(op.inputs), name


def test_loads_quickly() -> None:
    best = 1.0
    for _ in range(5):
        torchlib._rows.cache_clear()
        begun = time.process_time()
        torchlib._rows()
        best = min(best, time.process_time() - begun)
    assert best < 0.02  # 2 to 3 ms; the bound leaves room for a busy machine


# ---------------------------------------------------------------- the same, measured again


@pytest.fixture(scope="module")
def torch():
    found = pytest.importorskip("torch")
    learned = torchlib.torch_version().split("+")[0]
    if found.__version__.split("+")[0] != learned:
        pytest.skip(f"the data was learned from {learned}: tools/learn_op_facts.py makes it for another version")
    return found


def reach(torch, name: str):
    value = torch
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def test_every_name_exists(torch) -> None:
    lists = torchlib._library()
    for name in [*torchlib.ops(), *lists["modules"], *lists["factories"], *lists["optimizers"], *lists["schedulers"]]:
        reach(torch, name) if name != "torch.Tensor.grad_fn" else None


def test_other_names_are_the_same_object(torch) -> None:
    import importlib

    for name, best in list(torchlib._library()["aliases"].items())[::7]:
        space, _, last = name.rpartition(".")
        home, _, there = best.rpartition(".")
        mine = getattr(importlib.import_module(space), last)
        assert mine is getattr(importlib.import_module(home), there), name


def test_shapes_again(torch) -> None:
    """Every op that takes one matrix and claims a rank effect has it, on inputs that the learner did not choose."""
    checked = 0
    for name in torchlib.ops():
        op = torchlib.op(name)
        if (
            op is None
            or op.attribute
            or op.shape not in ("scalar", "elementwise", "nonscalar")
            or list(op.inputs) != ["0"]
        ):
            continue
        for size in ((), (1,), (3, 3)):
            x = torch.rand(size).add(0.1)
            try:
                out = reach(torch, name)(x)
            except Exception:
                continue
            if not isinstance(out, torch.Tensor):
                continue
            want = {"scalar": True, "nonscalar": False, "elementwise": size == ()}[op.shape]
            assert (out.dim() == 0) == want, (name, size)
            checked += 1
    assert checked > 400


def test_gradients_again(torch) -> None:
    """Every op of one tensor that claims to cut, or to let through, does so."""
    checked = 0
    for name in torchlib.ops():
        op = torchlib.op(name)
        if op is None or op.inplace or op.attribute or list(op.inputs) != ["0"]:
            continue
        if op.grad not in ("flows", "zero", "cut", "cut_dtype", "like"):
            continue
        x = torch.rand(3, 3).add(0.1).requires_grad_()
        try:
            out = reach(torch, name)(x * 1)
        except Exception:
            continue
        if isinstance(out, torch.Tensor):
            assert out.requires_grad == (op.grad in ("flows", "zero")), name
            checked += 1
    assert checked > 250


def test_saved_tensors_again(torch) -> None:
    """Changing what an op keeps for backward raises; changing what it does not keep does not."""
    checked = 0
    for name in torchlib.ops():
        op = torchlib.op(name)
        if op is None or op.attribute or op.inplace or op.grad != "flows" or list(op.inputs) != ["0"] or op.may_save:
            continue
        if op.alias != "never":
            continue
        for what in ("0", "out"):
            x = torch.rand(3, 3).add(0.1).requires_grad_().clone()
            try:
                out = reach(torch, name)(x)
                total = out.sum()
                total = total.real if total.is_complex() else total
                with torch.no_grad():
                    (x if what == "0" else out).mul_(1)
            except Exception:
                break
            try:
                total.backward()
                raised = False
            except RuntimeError as e:
                raised = "modified by an inplace operation" in str(e)
            assert raised == (what in op.saves.get("0", ())), (name, what)
            checked += 1
    assert checked > 200


def test_modules_again(torch) -> None:
    for name, args, size in (
        ("Tanh", (), (2, 3)),
        ("Linear", (3, 2), (2, 3)),
        ("Flatten", (), (2, 3)),
        ("GELU", (), (3,)),
    ):
        module = torchlib.module(f"torch.nn.{name}")
        assert module
        for what in ("in", "out"):
            m = getattr(torch.nn, name)(*args)
            x = torch.rand(size).requires_grad_().clone()
            out = m(x)
            total = out.sum()
            with torch.no_grad():
                (x if what == "in" else out).mul_(1)
            try:
                total.backward()
                raised = False
            except RuntimeError:
                raised = True
            assert raised == (what in module.saves), (name, what)
