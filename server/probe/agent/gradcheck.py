"""Is a derivative right? Analytical against numerical gradients, with the answer in words."""

from __future__ import annotations

import re
from typing import Any

from .program import make_input

SLOW_ABOVE = 4_000  # elements: above, torch's fast mode, which checks a random projection


def check(thing: Any, inputs: list[str], name: str) -> dict[str, Any]:
    """`{"ok": True, False or None, "words": …, "detail": …}` for an autograd function, module or plain function.

    None: it could not be checked. Inputs are made as doubles: in single precision numerical gradients are noise.
    Raises what making the inputs or the module raises.
    """
    import torch

    if not inputs:
        return {"ok": None, "words": "an example input is needed: --input 4x3", "detail": ""}
    made = [_double(make_input(text, torch, None), torch) for text in inputs]
    function, more, labels = _function(thing, len(made), torch)
    arguments = (*made, *more)
    if not any(getattr(a, "requires_grad", False) for a in arguments):
        return {"ok": None, "words": f"{name} has no floating point input to differentiate", "detail": ""}
    size = sum(a.numel() for a in arguments if isinstance(a, torch.Tensor))
    fast = size > SLOW_ABOVE
    try:
        torch.autograd.gradcheck(function, arguments, fast_mode=fast)
    except Exception as error:
        return {"ok": False, "words": _words(str(error), name, labels), "detail": str(error)[:4000]}
    words = f"the gradients of {name} are right: analytical and numerical ones agree for {', '.join(labels)}"
    try:
        torch.autograd.gradgradcheck(function, arguments, fast_mode=True)
        words += "; second derivatives agree too"
    except Exception as error:
        why = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        words += f"; second derivatives do not work ({why})"
    return {"ok": True, "words": words, "detail": "fast mode" if fast else ""}


def _double(value: Any, torch: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().double().requires_grad_()
    return value


def _function(thing: Any, count: int, torch: Any) -> tuple[Any, list, list[str]]:
    """The function to differentiate, its further inputs (a module's parameters), and what each input is called."""
    labels = [f"input {n}" for n in range(count)]
    if isinstance(thing, type) and issubclass(thing, torch.autograd.Function):
        return thing.apply, [], labels
    if isinstance(thing, type) and issubclass(thing, torch.nn.Module):
        thing = thing()
    if isinstance(thing, torch.nn.Module):
        module = thing.double().eval()
        names = [name for name, _ in module.named_parameters()]
        try:
            from torch.func import functional_call
        except ImportError:
            from torch.nn.utils.stateless import functional_call

        def call(*arguments: Any) -> Any:
            return functional_call(module, dict(zip(names, arguments[count:])), arguments[:count])

        values = [p.detach().clone().requires_grad_(p.requires_grad) for _, p in module.named_parameters()]
        return call, values, labels + names
    return thing, [], labels


def _words(text: str, name: str, labels: list[str]) -> str:
    where = re.search(r"output (\d+) with respect to input (\d+)", text)
    if where:
        number = int(where.group(2))
        label = labels[number] if number < len(labels) else f"input {number}"
        worst = _worst(text)
        return f"the gradient of {name} with respect to {label} is wrong: {worst}"
    if "not reentrant" in text:
        return f"{name} gives other gradients when backward runs twice: it is random, or changes what it saved"
    if "incorrect number of gradients" in text or "returned an" in text:
        return f"backward of {name} is wrong: {text.splitlines()[0]}"
    if "none of the" in text.lower() or "does not require" in text:
        return f"{name} gives an output without a graph: {text.splitlines()[0][:200]}"
    return f"{name} failed the check: {text.splitlines()[0][:300] if text else 'no message'}"


def _worst(text: str) -> str:
    """The entry where the two Jacobians differ most, as far as they are printed."""
    parts = re.search(r"numerical:\s*tensor\((.*?)\)\s*analytical:\s*tensor\((.*?)\)", text, re.S)
    if not parts:
        return text.splitlines()[0][:200]

    def numbers(part: str) -> list[float]:
        part = re.sub(r"(dtype|device|grad_fn)=.*", "", part, flags=re.S)
        return [float(n) for n in re.findall(r"-?\d+\.\d*(?:e[+-]?\d+)?", part)]

    one, two = numbers(parts.group(1)), numbers(parts.group(2))
    if not one or len(one) != len(two):
        return "analytical and numerical values differ"
    worst = max(range(len(one)), key=lambda i: abs(one[i] - two[i]))
    text = f"backward says {two[worst]:.6g} where the numerical value is {one[worst]:.6g}"
    if one[worst] and all(abs(b) < 1e-12 for b in two):
        text += " (backward gives zero everywhere)"
    elif (
        two[worst]
        and one[worst]
        and all(abs(b * one[worst] / two[worst] - a) < 1e-3 * (1 + abs(a)) for a, b in zip(one, two))
    ):
        text += f" (every entry is off by the factor {two[worst] / one[worst]:.4g})"
    return text
