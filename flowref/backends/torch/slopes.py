"""Autograd's derivative of a call along directions of its points and parameters, as part of a
traced call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.utils import stateless

from flowref.backends.data import flattened_results
from flowref.model import Shape, Unsupported


def slope(
    calls: Sequence[Callable[[Any, Any, Any], Any]],
    by: str,
    drawn: Callable[[str, Shape], Any],
    shape: Shape | None,
) -> Callable[[Any, Any, Any], Any]:
    """See `Backend.slope`."""

    def run(obj: Any, x: Any, context: Any) -> Any:
        with torch.enable_grad():
            moved = {"x": x.clone().requires_grad_()}
            held = {}
            if by == "parameters":
                named = obj.named_parameters() if isinstance(obj, torch.nn.Module) else ()
                held = {
                    name: one.clone().requires_grad_()
                    for name, one in named
                    if one.is_floating_point()
                }
                if not held:
                    raise Unsupported("it has no parameters")
                moved = {f"self.{name}": one for name, one in held.items()}
            points = moved.get("x", x)
            total = x.new_zeros(())
            with stateless._reparametrize_module(obj, held) if held else torch.enable_grad():
                given = [call(obj, points, context) for call in calls]
                for number, one in enumerate(flattened_results(given)):
                    value = torch.as_tensor(one)
                    of = tuple(value.shape)
                    weights = drawn(f"cotangent {number} {of}", of)
                    total = total + (value * weights).sum()
            found: Sequence[Any] = [None] * len(moved)
            if total.requires_grad:
                found = torch.autograd.grad(total, list(moved.values()), allow_unused=True)
        along = total.new_zeros(())
        for (name, one), gradient in zip(moved.items(), found, strict=True):
            # A missing gradient is zero, which the statement covers as well.
            if shape is None:
                direction = drawn(f"along {name}", tuple(one.shape))
            else:
                direction = drawn(f"cotangent {name}", shape).expand(one.shape)
            if gradient is not None:
                along = along + (gradient * direction).sum()
        return total, along

    run.differentiates = True  # type: ignore[attr-defined]  # read by a trace
    return run
