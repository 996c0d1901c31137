"""Programs that make torch say what the table of errors has, beside the one that each entry shows.

One per message; the name is that of the entry that it must lead to.
"""

HEAD = """
import copy
import torch
from torch import nn
from torch.nn import functional as F

weight = torch.ones(3, requires_grad=True)
"""

MODULE = """
class Net(nn.Module):
    def __init__(self):
        {}

{}
"""

FUNCTION = """
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return {}

    @staticmethod
    def backward(ctx, gradient):
        return {}

{}
"""

SCALER = """
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = torch.amp.GradScaler("cpu")
"""

PROGRAMS: list[tuple[str, str]] = [
    ("no-graph", "torch.set_grad_enabled(False)\nloss = (weight * 2).sum()\nloss.backward()\n"),
    ("no-graph", "torch.autograd.backward([weight.sum(), torch.ones(())])\n"),
    ("inplace-leaf", "weight += 1\n"),
    ("inplace-view", FUNCTION.format("x.view(-1)", "gradient", "y = Own.apply(weight * 1)\ny.mul_(2)")),
    ("inplace-view", "with torch.no_grad():\n    view = weight.view(-1)\nview.mul_(2)\n"),
    ("inplace-view", "with torch.inference_mode():\n    view = weight.view(-1)\nview.add_(1)\n"),
    ("inplace-view", "y = weight * 1\nfirst = y.unbind()[0]\ny.mul_(2)\nfirst.grad_fn\n"),
    (
        "inplace-view",
        "with torch.no_grad():\n    view = weight.view(-1)\nother = view.view(-1)\nwith torch.no_grad():\n    weight.add_(1)\nother.mul_(2)\n",
    ),
    (
        "inplace-view",
        "base = torch.zeros(3)\nwith torch.no_grad():\n    view = base.view(-1)\nbase.add_(weight)\nview.grad_fn\n",
    ),
    ("not-scalar", "torch.ones((), dtype=torch.complex64, requires_grad=True).backward()\n"),
    ("input-without-grad", "torch.autograd.grad(weight.sum(), [torch.ones(3)])\n"),
    ("number", "loss = 0\nloss.backward()\n"),
    ("number", "loss = (weight.sum(), weight)\nloss.backward()\n"),
    ("no-gradient-yet", "weight.grad.data\n"),
    ("no-gradient-yet", "weight.grad *= 2.0\n"),
    ("no-gradient-yet", "weight.data -= 0.1 * weight.grad\n"),
    ("no-gradient-yet", "total = sum(p.grad.data.norm(2) for p in [weight])\n"),
    ("none-loss", "loss = None\nloss.backward()\n"),
    ("none-loss", "loss = weight.sum().backward()\nloss.detach()\n"),
    ("none-loss", "loss = weight.sum().backward()\nloss.requires_grad\n"),
    ("none-loss", "loss = weight.sum().backward()\nloss.grad_fn\n"),
    ("optimizer-argument", "torch.optim.SGD(weight, lr=0.1)\n"),
    ("optimizer-argument", 'torch.optim.SGD([{"params": [weight]}, {"params": [weight]}], lr=0.1)\n'),
    ("inference-tensor", "with torch.inference_mode():\n    x = torch.ones(3)\nx.add_(1)\n"),
    ("inference-tensor", "with torch.inference_mode():\n    x = torch.ones(3)\nx.requires_grad_()\n"),
    ("inference-tensor", "with torch.inference_mode():\n    x = torch.ones(3)\nx._version\n"),
    ("numpy", "weight.numpy()\n"),
    ("integer-gradient", "nn.Parameter(torch.arange(3))\n"),
    ("integer-gradient", "torch.arange(3).requires_grad_()\n"),
    ("integer-gradient", "x = torch.arange(3)\nx.requires_grad = True\n"),
    ("dtype-mismatch", "torch.mm(torch.ones(2, 2), torch.ones(2, 2).double())\n"),
    ("dtype-mismatch", "torch.bmm(torch.ones(1, 2, 2), torch.ones(1, 2, 2).bfloat16())\n"),
    ("dtype-mismatch", "nn.Conv2d(1, 1, 1)(torch.ones(1, 1, 2, 2).half())\n"),
    ("dtype-mismatch", "nn.Conv2d(1, 1, 1, bias=False)(torch.ones(1, 1, 2, 2).half())\n"),
    ("dtype-mismatch", "F.binary_cross_entropy(torch.sigmoid(torch.ones(2)), torch.ones(2).double())\n"),
    ("missing-super-init", MODULE.format("self.w = nn.Parameter(torch.ones(1))", "Net()")),
    ("missing-super-init", MODULE.format('self.register_buffer("w", torch.ones(1))', "Net()")),
    ("missing-super-init", MODULE.format("pass", "list(Net().parameters())")),
    ("missing-super-init", MODULE.format("pass", "list(Net().modules())")),
    ("missing-super-init", MODULE.format("pass", "Net()(weight)")),
    ("assigned-over-parameter", 'nn.Linear(2, 1).register_parameter("w", nn.Parameter(torch.ones(1)) * 2)\n'),
    ("assigned-over-parameter", "net = nn.Sequential(nn.Linear(2, 1))\nsetattr(net, '0', 3)\n"),
    (
        "scaler-twice",
        SCALER + "scaler.scale(weight.sum()).backward()\nscaler.unscale_(optimizer)\nscaler.unscale_(optimizer)\n",
    ),
    (
        "scaler-twice",
        SCALER + "scaler.scale(weight.sum()).backward()\nscaler.step(optimizer)\nscaler.unscale_(optimizer)\n",
    ),
    ("scaler-without-gradients", SCALER + "scaler.scale(weight.sum())\nscaler.update()\n"),
    ("scaler-without-scale", SCALER + "scaler.update()\n"),
    (
        "checkpoint",
        "from torch.utils.checkpoint import checkpoint\ncalls = []\n"
        "def part(x):\n    calls.append(x)\n    return (x[:2] if len(calls) == 1 else x).sin()\n"
        "checkpoint(part, weight, use_reentrant=False).sum().backward()\n",
    ),
    (
        "checkpoint",
        "from torch.utils.checkpoint import checkpoint\ncalls = []\n"
        "def part(x):\n    calls.append(x)\n    return x.sin() if len(calls) == 1 else x.exp().sin().sin()\n"
        "with torch.utils.checkpoint.set_checkpoint_early_stop(False):\n"
        "    checkpoint(part, weight, use_reentrant=False).sum().backward()\n",
    ),
    (
        "checkpoint",
        "from torch.utils.checkpoint import checkpoint\n"
        + FUNCTION.format(
            "(ctx.save_for_backward(x), x * x)[1]",
            "(ctx.saved_tensors, gradient * 2 * ctx.saved_tensors[0])[1]",
            "checkpoint(Own.apply, weight, use_reentrant=False).sum().backward()",
        ),
    ),
    ("deepcopy", "copy.deepcopy([weight.sum()])\n"),
    ("function-gradient-count", FUNCTION.format("x.sum()", "torch.ones(5)", "Own.apply(weight).backward()")),
    ("function-gradient-count", FUNCTION.format("x.sum()", "3.0", "Own.apply(weight).backward()")),
    (
        "function-form",
        "class Own(torch.autograd.Function):\n    def forward(self, x):\n        return x\nOwn()(weight)\n",
    ),
    (
        "function-form",
        FUNCTION.format("(x * 1, x * 2)", "gradient", "a, b = Own.apply(weight)\n(a + b).sum().backward()"),
    ),
    ("gradient-shape", "(weight * 2).backward(torch.ones(5))\n"),
    ("gradient-shape", "weight.grad = torch.ones(3).double()\n"),
    ("gradient-shape", "weight.grad = 1.0\n"),
    ("hook-result", "h = weight * 2\nh.register_hook(lambda g: g[:1].clone())\nh.sum().backward()\n"),
    ("hook-result", "h = weight * 2\nh.register_hook(lambda g: g.double())\nh.sum().backward()\n"),
    (
        "hook-result",
        "net = nn.Linear(3, 1)\nnet.register_full_backward_hook(lambda m, i, o: (i[0], i[0], i[0]))\nnet(weight).sum().backward()\n",
    ),
    ("hook-without-grad", "torch.ones(3).retain_grad()\n"),
]
