"""Random small torch programs of two files, for comparing what gradline claims with what torch does.

Every program is well typed (a vector has four elements, a scalar is 0-dim), so nearly all of them run to their end.
What varies is everything that decides about graphs: cuts, leaves, grad mode by block, call, decorator and import,
branches and loops, helpers, closures, modules with attributes, containers, views and in-place writes.

A line `NAME  # reveal` asks what NAME holds at that moment. To gradline it is an expression that does nothing; the
truth side (`truth.py`) puts a call there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

VECTOR, SCALAR, NUMBER, LIST, DICT, NET = "vector", "scalar", "number", "list", "dict", "net"

# {v} {w}: vectors, {s}: a scalar, {n}: a number
VECTORS = (
    "{v} * 2", "{v} + {w}", "{v} * {w}", "{v} - {w}", "-{v}", "{v} * {s}", "{v} * {n}", "{n} + {v}",
    "{v} / ({w}.abs() + 1)",
    "torch.exp({v})", "{v}.tanh()", "F.relu({v})", "torch.sigmoid({v})", "{v}.softmax(0)", "F.log_softmax({v}, dim=0)",
    "{v}.clone()", "{v}.view(2, 2).reshape(4)", "{v}.view(4)", "{v}.flip(0)", "{v}.cumsum(0)", "{v}.clamp(min=0.1)",
    "torch.cat([{v}, {w}])[:4]", "torch.stack([{v}, {w}]).mean(0)", "torch.stack([{v}, {w}]).sum(dim=0)",
    "torch.stack([{s}, {s}, {s}, {s}])", "{v}.sort()[0]", "{v}.sort().values", "torch.where({v} > 0, {v}, {w})",
    "{v}.masked_fill({v} > 0, 0.0)", "{v}.double().float()", "{v}.to('cpu')", "{v}.contiguous()", "{v}.expand(2, 4)[0]",
    "torch.abs({v})", "{v}.pow(2)", "{v} ** 2", "torch.outer({v}, {w})[0]", "{v} @ torch.eye(4)", "F.dropout({v}, 0.5)",
    "torch.maximum({v}, {w})", "{v}.index_select(0, torch.tensor([0, 1, 2, 3]))", "{v}[torch.tensor([3, 2, 1, 0])]",
    "F.normalize({v}, dim=0)", "torch.einsum('i,i->i', {v}, {w})", "{v}.unsqueeze(0).squeeze(0)", "{v}.round()",
    "{v} % 2", "{v}.sign() * {w}", "torch.addcmul({v}, {w}, {w})", "{v}.repeat(2)[:4]", "{v}.type(torch.float32)",
)  # fmt: skip
CUTS = (
    "{v}.detach()", "{v}.data", "{v}.detach().clone()", "torch.tensor({v}.tolist())", "({v} > 0).float()",
    "{v}.long().float()", "torch.from_numpy({v}.detach().numpy())", "torch.zeros_like({v})", "torch.ones_like({v})",
    "F.one_hot({v}.argmax(), 4).float()", "torch.tensor([{s}.item(), {n}, 0.0, 1.0])", "torch.full((4,), {s}.item())",
    "torch.randn_like({v})", "torch.as_tensor({v}.detach().numpy())", "({v} == {w}).to(torch.float32)",
    "{v}.new_zeros(4)", "torch.empty(4).fill_({n})", "{v}.argsort().float()", "torch.zeros(4)", "torch.randn(4)",
    "torch.arange(4).float()", "torch.ones(4) * {n}", "{v}.detach() * 2", "{v}.bool().float()",
)  # fmt: skip
MIXED = (
    "{v}.detach() + {w}", "{v} - {v}.detach()", "{v} + ({w} - {v}).detach()", "{v} * {w}.detach()", "{v} * {s}.item()",
    "{v} / {s}.detach()", "torch.where({v} > 0, {v}.detach(), {w})", "{v} * ({w} > 0)",
    "torch.stack([{v}, {w}.data])[0]",
    "{v}.detach().requires_grad_()", "torch.cat([{v}.detach(), {w}])[:4]", "{v} if {c} else {w}",
    "{v} if {c} else {v}.detach()",
    "sum([{v}, {w}])", "max([{v}, {w}], key=lambda t: 0)", "[{v}, {w}][0]", "({v}, {w})[1]",
    "{{'a': {v}, 'b': {w}}}['b']",
    "(lambda t: t * 2)({v})", "(lambda t: t.detach())({v})", "[t * 2 for t in ({v}, {w})][1]",
    "tuple(t for t in ({v}, {w}))[0]",
)  # fmt: skip
LEAVES = (
    "torch.randn(4, requires_grad=True)", "torch.ones(4).requires_grad_()", "nn.Parameter(torch.randn(4))",
    "nn.Parameter(torch.ones(4), requires_grad=False)", "torch.zeros(4, requires_grad=False)",
    "torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)",
)  # fmt: skip
SCALARS = (
    "{v}.sum()", "{v}.mean()", "F.mse_loss({v}, {w})", "F.l1_loss({v}, {w}, reduction='sum')", "{v}.norm()", "{v}[0]",
    "({v} ** 2).mean()", "{v}.max()", "{v}.max(0)[0]", "{v}.min(dim=0).values", "torch.dot({v}, {w})", "{v} @ {w}",
    "sum([{s}, {s}])", "{s} * 2", "{s} + {s}", "{s} * {n}", "{s} / ({s}.item() + 3)", "nn.MSELoss()({v}, {w})",
    "torch.logsumexp({v}, 0)", "{s}.clone()", "torch.stack([{s}, {s}]).mean()", "F.smooth_l1_loss({v}, {w})",
    "{v}.var()", "{s}.exp()", "torch.sum({v} * {w})", "torch.mean({v}, dim=0)",
)  # fmt: skip
SCALAR_CUTS = (
    "{s}.detach()", "{s}.data", "torch.tensor({n})", "torch.tensor({s}.item())", "{v}.argmax().float()",
    "{s}.detach() * {s}.item()",
    "torch.tensor(0.0)", "{v}.detach().mean()", "({v} > 0).sum().float()", "{v}.argmin().float()",
    "torch.tensor(float({s}))",
    "torch.tensor(0.0, requires_grad=True)",
)  # fmt: skip
NUMBERS = (
    "{s}.item()", "float({s})", "{n} + 1", "{n} * 2", "{v}.sum().item()", "{v}.tolist()[0]",
    "{v}.detach().numpy()[1].item()",
    "len({v})", "{v}.size(0)", "float({s}.detach())", "{n} - {s}.item()", "max({n}, 0.5)", "{v}.detach().mean().item()",
)  # fmt: skip
MODES = (
    "torch.no_grad()", "torch.no_grad()", "torch.enable_grad()", "torch.set_grad_enabled(False)",
    "torch.set_grad_enabled(True)",
    "torch.set_grad_enabled({c})", "torch.autograd.no_grad()", "torch.inference_mode()",
    "torch.no_grad(), torch.enable_grad()",
)  # fmt: skip
DECORATORS = ("@torch.no_grad()", "@torch.no_grad", "@torch.enable_grad()", "@torch.set_grad_enabled(False)")


@dataclass
class Scope:
    """The names that surely exist, by kind."""

    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, name: str) -> None:
        for others in self.names.values():
            if name in others:
                others.remove(name)
        self.names.setdefault(kind, []).append(name)

    def of(self, kind: str) -> list[str]:
        return self.names.get(kind, [])

    def inner(self) -> Scope:
        return Scope({k: list(v) for k, v in self.names.items()})


class Program:
    """One program in the making; `files` is the result: `main.py` and `helpers.py`."""

    def __init__(self, seed: int, size: int = 14) -> None:
        self.rng = random.Random(seed)
        self.size, self.count = size, 0
        self.lines: list[str] = []
        self.indent = 0
        self.functions: list[tuple[str, str, int]] = []  # what to call, kind of the result, vectors it takes
        self.inference = self.rng.random() < 0.1  # raises often: only some programs use it
        helpers = self.helpers()
        self.lines = []
        main = self.main()
        self.files = {"helpers.py": helpers, "main.py": main}

    # ------------------------------------------------------------ text

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def new(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def reveal(self, name: str) -> None:
        self.put(f"{name}  # reveal")

    def condition(self) -> str:
        return self.rng.choice(
            ("random.random() < 0.5", "flag()", "random.random() > 0.3", "True", "random.random() < 0.5")
        )

    # ------------------------------------------------------------ expressions

    def fill(self, template: str, scope: Scope) -> str:
        pick = self.rng.choice
        while "{" in template:
            before = template
            for key, kind, default in (
                ("{v}", VECTOR, "torch.ones(4)"), ("{w}", VECTOR, "torch.ones(4)"),
                ("{s}", SCALAR, "torch.tensor(0.5)"),
                ("{n}", NUMBER, "0.5"),
            ):  # fmt: skip
                if key in template:
                    names = scope.of(kind)
                    recent = names[-4:] if self.rng.random() < 0.7 else names
                    template = template.replace(key, pick(recent) if recent else default)
            template = template.replace("{c}", self.condition())
            if template == before:
                break
        return template.replace("{{", "{").replace("}}", "}")

    def expression(self, kind: str, scope: Scope) -> str:
        rng = self.rng
        calls = [f for f in self.functions if f[1] == kind]
        if calls and rng.random() < 0.25:
            name, _, arity = rng.choice(calls)
            return self.fill(f"{name}({', '.join(['{v}', '{w}'][:arity])})", scope)
        if kind == VECTOR:
            roll = rng.random()
            nets = scope.of(NET)
            if nets and roll < 0.2:
                net = rng.choice(nets)
                return self.fill(
                    rng.choice((f"{net}({{v}})", f"{net}({{v}})", f"{net}.kept", f"{net}.w * {{v}}", f"{net}.table")),
                    scope,
                )
            if scope.of(LIST) and roll < 0.27:
                return f"{rng.choice(scope.of(LIST))}[{rng.choice((0, -1))}]"
            if scope.of(DICT) and roll < 0.32:
                return f"{rng.choice(scope.of(DICT))}['x']"
            pool = rng.choices((VECTORS, CUTS, MIXED, LEAVES), (5, 2, 3, 1))[0]
        elif kind == SCALAR:
            pool = rng.choices((SCALARS, SCALAR_CUTS), (4, 1))[0]
        else:
            pool = NUMBERS
        return self.fill(rng.choice(pool), scope)

    # ------------------------------------------------------------ statements

    def assign(self, scope: Scope, fixed: bool = False) -> None:
        """Bind a name; with `fixed` only names that exist already, so that both ways of a branch bind the same."""
        kind = self.rng.choices((VECTOR, SCALAR, NUMBER), (6, 3, 1))[0]
        names = scope.of(kind)
        if names and (fixed or self.rng.random() < 0.35):
            name = self.rng.choice(names)
        else:
            name = self.new({VECTOR: "x", SCALAR: "s", NUMBER: "n"}[kind])
        self.put(f"{name} = {self.expression(kind, scope)}")
        scope.add(kind, name)
        if self.rng.random() < 0.6:
            self.reveal(name)

    def block(self, scope: Scope, length: int, depth: int, fixed: bool = False) -> None:
        for _ in range(max(1, length)):
            self.statement(scope, depth, fixed)

    def nested(self, scope: Scope, length: int, depth: int) -> None:
        """A block that may not run: what it binds anew is not known behind it."""
        self.indent += 1
        self.block(scope.inner(), length, depth + 1, fixed=self.rng.random() < 0.6)
        self.indent -= 1

    def statement(self, scope: Scope, depth: int, fixed: bool = False) -> None:
        rng = self.rng
        if depth >= 3 or rng.random() < 0.55:
            self.assign(scope, fixed)
            return
        choice = rng.choice(
            (self.branch, self.loop, self.mode_block, self.mode_block, self.mode_call, self.container, self.in_place,
             self.in_place, self.view, self.freeze, self.backward, self.closure, self.attempt, self.unpack,
             self.correlated,
             self.augmented, self.many_reveals, self.attribute, self.while_loop, self.saved_mode)
        )  # fmt: skip
        choice(scope, depth)

    def branch(self, scope: Scope, depth: int) -> None:
        self.put(f"if {self.condition()}:")
        self.nested(scope, self.rng.randint(1, 3), depth)
        if self.rng.random() < 0.6:
            self.put("else:")
            self.nested(scope, self.rng.randint(1, 3), depth)
        self.many_reveals(scope, depth)

    def loop(self, scope: Scope, depth: int) -> None:
        lists = scope.of(LIST)
        if lists and self.rng.random() < 0.4:
            item = self.new("x")
            self.put(f"for {item} in {self.rng.choice(lists)}:")
            inner = scope.inner()
            inner.add(VECTOR, item)
            self.indent += 1
            self.reveal(item)
            self.block(inner, self.rng.randint(1, 3), depth + 1, fixed=True)
            self.indent -= 1
        else:
            self.put(f"for {self.new('i')} in range({self.rng.choice((1, 2, 3))}):")
            self.nested(scope, self.rng.randint(1, 4), depth)
            if self.rng.random() < 0.3:
                self.indent += 1
                self.put(f"if {self.condition()}:")
                self.put(f"    {self.rng.choice(('break', 'continue'))}")
                self.assign(scope.inner(), fixed=True)
                self.indent -= 1
        self.many_reveals(scope, depth)

    def while_loop(self, scope: Scope, depth: int) -> None:
        counter = self.new("k")
        self.put(f"{counter} = 0")
        self.put(f"while {counter} < 2:")
        self.indent += 1
        self.put(f"{counter} += 1")
        self.indent -= 1
        self.nested(scope, self.rng.randint(1, 3), depth)
        self.many_reveals(scope, depth)

    def mode_block(self, scope: Scope, depth: int) -> None:
        modes = [m for m in MODES if self.inference or "inference" not in m]
        self.put(f"with {self.fill(self.rng.choice(modes), scope)}:")
        self.indent += 1
        self.block(scope, self.rng.randint(1, 3), depth + 1)
        self.indent -= 1
        self.many_reveals(scope, depth)

    def mode_call(self, scope: Scope, depth: int) -> None:
        if self.rng.random() < 0.4:
            return self.mode_block(scope, depth)
        value = self.rng.choice(("False", "True", "True", self.condition()))
        self.put(f"torch.set_grad_enabled({value})")
        self.assign(scope)

    def saved_mode(self, scope: Scope, depth: int) -> None:
        name = self.new("mode")
        self.put(f"{name} = torch.is_grad_enabled()")
        self.put(f"torch.set_grad_enabled({self.rng.choice(('False', 'False', 'True'))})")
        self.put("try:")
        self.indent += 1
        self.block(scope, self.rng.randint(1, 2), depth + 1)
        self.indent -= 1
        self.put("finally:")
        self.put(f"    torch.set_grad_enabled({name})")
        self.many_reveals(scope, depth)

    def correlated(self, scope: Scope, depth: int) -> None:
        name = self.new("train")
        self.put(f"{name} = {self.condition()}")
        self.put(f"with torch.set_grad_enabled({name}):")
        self.indent += 1
        self.block(scope, 2, depth + 1)
        self.indent -= 1
        self.put(f"if {name}:")
        self.indent += 1
        self.many_reveals(scope, depth)
        self.assign(scope.inner(), fixed=True)
        self.indent -= 1

    def container(self, scope: Scope, depth: int) -> None:
        rng = self.rng
        lists, dicts = scope.of(LIST), scope.of(DICT)
        roll = rng.random()
        if lists and roll < 0.5:
            name = rng.choice(lists)
            self.put(
                self.fill(
                    rng.choice(
                        (
                            f"{name}.append({{v}})",
                            f"{name}[0] = {{v}}",
                            f"{name} += [{{v}}]",
                            f"{name}.insert(0, {{v}})",
                        )
                    ),
                    scope,
                )
            )
        elif dicts and roll < 0.7:
            name = rng.choice(dicts)
            self.put(
                self.fill(
                    rng.choice((f"{name}['x'] = {{v}}", f"{name}.update(x={{v}})", f"{name}['y'] = {{v}}")), scope
                )
            )
        elif roll < 0.85:
            name = self.new("xs")
            self.put(
                self.fill(
                    f"{name} = "
                    + rng.choice(
                        (
                            "[{v}]",
                            "[{v}, {w}]",
                            "[t * 2 for t in [{v}, {w}]]",
                            "[t.detach() for t in [{v}]]",
                            "list(({v}, {w}))",
                        )
                    ),
                    scope,
                )
            )
            scope.add(LIST, name)
        else:
            name = self.new("d")
            self.put(
                self.fill(f"{name} = " + rng.choice(("{{'x': {v}}}", "dict(x={v})", "{{'x': {v}, 'y': {w}}}")), scope)
            )
            scope.add(DICT, name)
        self.assign(scope)

    def in_place(self, scope: Scope, depth: int) -> None:
        """On a fresh copy, which is no leaf that requires grad."""
        name = self.new("x")
        self.put(
            f"{name} = "
            + self.fill(self.rng.choice(("{v}.clone()", "{v} * 1", "torch.zeros(4)", "{v}.detach().clone()")), scope)
        )
        scope.add(VECTOR, name)
        alias = ""
        if self.rng.random() < 0.4:
            alias = self.new("x")
            self.put(
                f"{alias} = {name}" + self.rng.choice(("", ".view(4)", "[:]", ".detach()", ".data", ".reshape(4)"))
            )
            scope.add(VECTOR, alias)
        for _ in range(self.rng.randint(1, 2)):
            write = self.rng.choice(
                ("{x} += {v}", "{x}.mul_({v})", "{x}.add_({w})", "{x}[0] = {s}", "{x}[:2] = {v}[:2]", "{x}.copy_({v})",
                 "{x}.zero_()",
                 "{x}.data.mul_(2)", "{x} *= 2", "{x}.detach_()", "{x}.fill_(1.0)", "{x}[1] = {n}", "{x}.clamp_(0, 1)")
            )  # fmt: skip
            self.put(self.fill(write.replace("{x}", name), scope))
        self.reveal(name)
        if alias:
            self.reveal(alias)

    def view(self, scope: Scope, depth: int) -> None:
        name = self.new("x")
        self.put(
            f"{name} = "
            + self.fill(self.rng.choice(("{v}.view(4)", "{v}[:]", "{v}.view(2, 2).view(4)", "{v}.squeeze()")), scope)
        )
        scope.add(VECTOR, name)
        self.reveal(name)

    def augmented(self, scope: Scope, depth: int) -> None:
        name = self.new("s")
        self.put(f"{name} = {self.rng.choice(('0', '0.0', 'torch.tensor(0.0)'))}")
        self.put(f"for _ in range({self.rng.choice((1, 2))}):")
        self.indent += 1
        self.put(self.fill(f"{name} = {name} + {{s}}" if self.rng.random() < 0.6 else f"{name} += {{s}}.item()", scope))
        self.indent -= 1
        self.reveal(name)

    def freeze(self, scope: Scope, depth: int) -> None:
        nets = scope.of(NET)
        if not nets:
            return self.assign(scope)
        net = self.rng.choice(nets)
        value = self.rng.choice(("False", "False", "True"))
        how = self.rng.randrange(4)
        if how == 0:
            self.put(f"{net}.requires_grad_({value})")
        elif how == 1:
            self.put(f"for p in {net}.parameters():")
            self.put(f"    p.requires_grad = {value}")
        elif how == 2:
            self.put(f"{net}.lin.weight.requires_grad_({value})")
        else:
            self.put(f"{net}.w.requires_grad = {value}")
        self.reveal(f"{net}.w")
        self.put(self.fill(f"{(name := self.new('x'))} = {net}({{v}})", scope))
        scope.add(VECTOR, name)
        self.reveal(name)

    def backward(self, scope: Scope, depth: int) -> None:
        if not scope.of(SCALAR):
            return self.assign(scope)
        self.put("try:")
        self.put(self.fill("    {s}.backward(retain_graph=True)", scope))
        self.put("except RuntimeError:")
        self.put("    pass")
        if scope.of(NET):
            self.put(f"opt = torch.optim.SGD({self.rng.choice(scope.of(NET))}.parameters(), lr=0.1)")
            self.put(self.rng.choice(("opt.step()", "opt.zero_grad()", "opt.step(); opt.zero_grad()")))
        self.many_reveals(scope, depth)

    def closure(self, scope: Scope, depth: int) -> None:
        name = self.new("inner")
        inner = scope.inner()
        if self.rng.random() < 0.3:
            self.put(self.rng.choice(DECORATORS))
        self.put(f"def {name}(t):")
        inner.add(VECTOR, "t")
        self.indent += 1
        before = self.functions
        self.functions = []
        local = Scope({VECTOR: ["t", *inner.of(VECTOR)[-2:]]})
        temporary = self.new("x")
        self.put(f"{temporary} = {self.expression(VECTOR, local)}")
        local.add(VECTOR, temporary)
        self.reveal(temporary)
        self.put(f"return {self.expression(VECTOR, local)}")
        self.functions = before
        self.indent -= 1
        self.put(self.fill(f"{(result := self.new('x'))} = {name}({{v}})", scope))
        scope.add(VECTOR, result)
        self.reveal(result)

    def attempt(self, scope: Scope, depth: int) -> None:
        self.put("try:")
        self.nested(scope, self.rng.randint(1, 2), depth)
        if self.rng.random() < 0.5:
            self.indent += 1
            self.put(f"if {self.condition()}:")
            self.put("    raise ValueError")
            self.indent -= 1
        self.put("except ValueError:")
        self.nested(scope, 1, depth)
        self.many_reveals(scope, depth)

    def unpack(self, scope: Scope, depth: int) -> None:
        a, b = self.new("x"), self.new("x")
        form = self.rng.choice(
            (f"{a}, {b} = {{v}}, {{w}}", f"{a}, *rest = [{{v}}, {{w}}]\n{b} = rest[0]",
             f"({a}, {b}) = ({{v}} * 2, {{w}}.detach())",
             f"{a} = {b} = {{v}}", f"{a}, {b} = pair({{v}}, {{w}})",
             f"for {a}, {b} in zip([{{v}}], [{{w}}]):\n    pass")
        )  # fmt: skip
        for line in self.fill(form, scope).split("\n"):
            self.put(line)
        scope.add(VECTOR, a)
        scope.add(VECTOR, b)
        self.reveal(a)
        self.reveal(b)

    def attribute(self, scope: Scope, depth: int) -> None:
        nets = scope.of(NET)
        if not nets:
            return self.assign(scope)
        net = self.rng.choice(nets)
        self.put(self.fill(f"{net}.kept = {{v}}", scope))
        self.reveal(f"{net}.kept")
        self.assign(scope)

    def many_reveals(self, scope: Scope, depth: int) -> None:
        pool = [n for kind in (VECTOR, SCALAR, NUMBER) for n in scope.of(kind)[-3:]]
        for name in self.rng.sample(pool, min(2, len(pool))):
            self.reveal(name)

    # ------------------------------------------------------------ files

    def function(self, prefix: str) -> None:
        rng = self.rng
        name, kind, arity = self.new("f"), rng.choice((VECTOR, VECTOR, SCALAR, NUMBER)), rng.choice((1, 2))
        if rng.random() < 0.25:
            self.put(rng.choice(DECORATORS))
        elif rng.random() < 0.05 and self.inference:
            self.put("@torch.inference_mode()")
        parameters = ["a", "b"][:arity]
        self.put(f"def {name}({', '.join(parameters)}):")
        self.indent += 1
        scope = Scope({VECTOR: list(parameters)})
        for p in parameters:
            self.reveal(p)
        self.block(scope, rng.randint(1, 4), 2)
        if rng.random() < 0.25:
            self.put(f"if {self.condition()}:")
            self.put(f"    return {self.expression(kind, scope)}")
        self.put(f"return {self.expression(kind, scope)}")
        self.indent -= 1
        self.put("")
        self.put("")
        self.functions.append((prefix + name, kind, arity))

    def net(self) -> str:
        rng = self.rng
        name = self.new("Net")
        self.put(f"class {name}(nn.Module):")
        self.indent += 1
        self.put("def __init__(self):")
        self.indent += 1
        for line in (
            "super().__init__()",
            "self.lin = nn.Linear(4, 4)",
            "self.w = nn.Parameter(torch.ones(4))",
            "self.kept = torch.zeros(4)",
        ):
            self.put(line)
        self.put(
            rng.choice(
                (
                    'self.register_buffer("table", torch.ones(4))',
                    "self.table = torch.ones(4, requires_grad=True)",
                    "self.table = self.w * 2",
                )
            )
        )
        extra = rng.choice(
            (
                "",
                "self.seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU())",
                "self.layers = nn.ModuleList([nn.Linear(4, 4)])",
            )
        )
        if extra:
            self.put(extra)
        self.indent -= 1
        self.put("")
        if rng.random() < 0.2:
            self.put(rng.choice(DECORATORS[:1]))
        self.put("def forward(self, a):")
        self.indent += 1
        scope = Scope({VECTOR: ["a", "self.w", "self.table"]})
        self.put("h = self.lin(a)")
        scope.add(VECTOR, "h")
        self.reveal("h")
        if "seq" in extra:
            self.put("h = self.seq(h)")
        if "layers" in extra:
            self.put("for layer in self.layers:")
            self.put("    h = layer(h)")
        for _ in range(rng.randint(1, 3)):
            self.assign_local(scope)
        if rng.random() < 0.5:
            self.put(self.fill("self.kept = {v}", scope))
            self.reveal("self.kept")
        self.put(f"return {self.expression(VECTOR, scope)}")
        self.indent -= 2
        self.put("")
        self.put("")
        return name

    def assign_local(self, scope: Scope) -> None:
        name = self.new("h")
        self.put(f"{name} = {self.expression(VECTOR, scope)}")
        scope.add(VECTOR, name)
        self.reveal(name)

    def header(self) -> None:
        for line in (
            "import random",
            "",
            "import torch",
            "import torch.nn as nn",
            "import torch.nn.functional as F",
            "",
        ):
            self.put(line)

    def helpers(self) -> str:
        self.header()
        if self.rng.random() < 0.08:
            self.put("torch.set_grad_enabled(False)")
        for line in (
            "",
            "def flag():",
            "    return random.random() < 0.5",
            "",
            "",
            "def pair(a, b):",
            "    return a, b",
            "",
            "",
        ):
            self.put(line)
        for _ in range(self.rng.randint(0, 2)):
            self.function("")
        if self.rng.random() < 0.15:
            name = self.new("f")
            self.put(f"def {name}(a):")
            self.put(f"    torch.set_grad_enabled({self.rng.choice(('False', 'True'))})")
            self.put("    return a * 2")
            self.put("")
            self.functions.append((name, VECTOR, 1))
        return "\n".join(self.lines) + "\n"

    def main(self) -> str:
        self.header()
        names = [n for n, _, _ in self.functions]
        if self.rng.random() < 0.5 or not names:
            self.put("import helpers")
            self.put("from helpers import flag, pair")
            self.functions = [(f"helpers.{n}", k, a) for n, k, a in self.functions]
        else:
            self.put(f"from helpers import flag, pair, {', '.join(names)}")
        self.put("")
        nets = []
        for _ in range(self.rng.randint(0, 1)):
            nets.append(self.net())
        for _ in range(self.rng.randint(0, 2)):
            self.function("")
        scope = Scope()
        inside = self.rng.random() < 0.4
        if inside:
            self.put("def main():")
            self.indent += 1
        for cls in nets:
            name = self.new("net")
            self.put(f"{name} = {cls}()")
            scope.add(NET, name)
        for template in (self.rng.choice(LEAVES), "torch.randn(4)", self.rng.choice(LEAVES)):
            name = self.new("x")
            self.put(f"{name} = {template}")
            scope.add(VECTOR, name)
            self.reveal(name)
        self.block(scope, self.size, 0)
        if inside:
            self.indent -= 1
            self.put("")
            self.put("")
            self.put("main()" if self.rng.random() < 0.5 else 'if __name__ == "__main__":\n    main()')
        return "\n".join(self.lines) + "\n"


def program(seed: int) -> dict[str, str]:
    """The files of the program with this seed: name -> text."""
    return Program(seed).files
