"""The first operator with a non-finite result or gradient, with its layer, parameter and line."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from flowref.watching.calls import Call, all_finite, floating

# Operators that write non-finite constants on request.
CONSTANTS = frozenset(
    {"full", "full_like", "new_full", "fill", "masked_fill", "tensor", "as_tensor", "where"}
)
# Operators that overflow above the logarithm of the largest number, and the share of it that counts
# as near.
EXPONENTIALS, NEAR = frozenset({"exp", "exp_", "expm1", "expm1_", "sinh", "cosh"}), 0.9
_FOLDERS = tuple(
    str(Path(module).parent) + "/" for module in (torch.__file__, str(Path(__file__).parent))
)


@dataclass(frozen=True)
class Operator:
    """An operator and where it ran. ``made``: "nan" or "inf"; ``largest``: the largest magnitude
    of its inputs; ``parameter``: one that it reads; ``backward``: whether its gradient is not
    finite, rather than its result.
    """

    name: str
    layer: str
    line: str
    made: str = ""
    largest: float = math.nan
    parameter: str = ""
    backward: bool = False

    @property
    def place(self) -> str:
        """The operator with its layer and line, for reports."""
        line = f" ({self.line})" if self.line else ""
        return f"{self.name} in {self.layer or 'the model'}{line}"

    @property
    def words(self) -> str:
        """A clause on the operator and the non-finite result or gradient."""
        reads = f", which reads {self.parameter}," if self.parameter else ""
        if self.backward:
            return (
                f"the gradient of {self.place}{reads} is {self.made}, that of its result is finite"
            )
        size = f" up to {self.largest:.4g}" if math.isfinite(self.largest) else ""
        return f"{self.place}{reads} makes {self.made} of finite numbers{size}"


class Trace(TorchFunctionMode):
    """Traces non-finite numbers back to the operator that made them, while a model is called."""

    def __init__(self, model: torch.nn.Module, near: bool = False) -> None:
        super().__init__()
        self.near: dict[tuple[str, str], Operator] = {}
        self._only_near = near
        self._parameters = {id(one): name for name, one in model.named_parameters()}
        self._names = {id(module): name for name, module in model.named_modules()}
        self._origins: dict[int, Operator] = {}
        self._kept: list[Any] = []  # keeps objects alive, since ids of dead ones are reused
        self.of_node: dict[Any, Operator] = {}
        self.last: Operator | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operator, and records its inputs and outputs if they are not finite."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        if self._only_near:
            if name in EXPONENTIALS and args and args[0].numel():
                self._note_exponential(name, args[0])
            return func(*args, **kwargs)
        inputs = list(floating((args, kwargs)))
        spoiled = [one for one in inputs if not all_finite(one)]
        largest = max(
            (float(one.detach().abs().max()) for one in inputs if one.numel()), default=math.nan
        )
        result = func(*args, **kwargs)
        outputs = list(floating(result))
        if name == "__get__" or not outputs:
            return result
        operator = Operator(
            name.strip("_"), *self._place(), largest=largest,
            parameter=next(filter(None, (self._parameters.get(id(one)) for one in inputs)), ""),
        )  # fmt: skip
        self._kept.append((args, kwargs, result))
        for output in outputs:
            if output.grad_fn is not None:
                self.of_node[output.grad_fn] = operator
            if not all_finite(output):
                self._origins[id(output)] = self.last = self._origin(operator, spoiled, output)
        return result

    def _origin(
        self, operator: Operator, spoiled: list[torch.Tensor], output: torch.Tensor
    ) -> Operator:
        known = [self._origins[id(one)] for one in spoiled if id(one) in self._origins]
        made = [one for one in known if one.name not in CONSTANTS]
        if made or known:
            return (made or known)[0]
        kind = "nan" if bool(torch.isnan(output).any()) else "inf"
        return Operator(**{**vars(operator), "made": kind})

    def _place(self) -> tuple[str, str]:
        """The innermost layer whose method runs, and the innermost line outside of torch and this
        package.
        """
        layer, line, frame = None, "", sys._getframe(2)
        while frame is not None and (layer is None or not line):
            path = frame.f_code.co_filename
            if not line and not path.startswith(_FOLDERS) and not path.startswith("<frozen"):
                line = f"{Path(path).name}:{frame.f_lineno}"
            if layer is None:
                layer = self._names.get(id(frame.f_locals.get("self")))
            frame = frame.f_back  # type: ignore[assignment]
        return layer or "", line

    def origin(self, outputs: list[torch.Tensor]) -> Operator | None:
        """The operator that made the non-finite numbers in ``outputs``, or None."""
        return next((self._origins[id(one)] for one in outputs if id(one) in self._origins), None)

    def _note_exponential(self, name: str, given: torch.Tensor) -> None:
        largest, end = float(given.detach().max()), math.log(torch.finfo(given.dtype).max)
        if largest > NEAR * end:
            place = Operator(name, *self._place(), largest=largest)
            self.near.setdefault((place.layer, place.line), place)


def first_not_finite(model: torch.nn.Module, call: Call) -> str:
    """Repeats a call on this copy of the model and returns what made its result, or its gradients,
    non-finite, as a clause; "" if everything is finite. ``call.gradients`` are the gradients of
    its outputs.
    """
    for index, given in enumerate(call.tensors):
        if not all_finite(given):
            rows = (~torch.isfinite(given.reshape(len(given) if given.ndim else 1, -1))).any(1)
            return f"argument {index} of {call.method} is not finite, first in row {int(rows.nonzero()[0])}"
    for name, parameter in model.named_parameters():
        if not all_finite(parameter):
            return f"the parameter {name} is not finite"
    trace = Trace(model)
    with torch.enable_grad(), trace:
        try:
            outputs = list(floating(call.again(model)))
        except Exception:  # training met it too: distributions refuse nan
            return trace.last.words if trace.last else ""
    if found := trace.origin(outputs):
        return found.words
    gradients = [call.gradients.get(index) for index in range(len(outputs))]
    if any(one is not None and not all_finite(one) for one in gradients):
        return (
            f"the results of {call.method} are finite and their gradient is not: the loss made it"
        )
    operator = _first_non_finite_gradient(outputs, gradients, trace)
    return operator.words if operator else ""


def _first_non_finite_gradient(
    outputs: list[torch.Tensor], gradients: list[torch.Tensor | None], trace: Trace
) -> Operator | None:
    """The operator with the first non-finite gradient whose output gradients are finite."""
    roots = [
        (
            one,
            torch.ones_like(one)
            if gradient is None and not any(g is not None for g in gradients)
            else gradient,
        )
        for one, gradient in zip(outputs, gradients, strict=True)
        if one.requires_grad
    ]
    roots = [(one, gradient) for one, gradient in roots if gradient is not None]
    found: list[Operator] = []
    seen: set[Any] = set()
    waiting = [(one.grad_fn, trace.of_node.get(one.grad_fn)) for one, _ in roots]
    while waiting:
        node, operator = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        # Inner nodes are attributed to the operator whose result they lead to.
        operator = trace.of_node.get(node, operator)
        if not hasattr(node, "variable"):
            node.register_hook(_gradient_hook(operator, found))
        waiting += [(before, operator) for before, _ in node.next_functions]
    if roots:
        torch.autograd.backward([one for one, _ in roots], [gradient for _, gradient in roots])
    return found[0] if found else None


def _gradient_hook(operator: Operator | None, found: list[Operator]) -> Callable[..., None]:
    def look(after: Any, before: Any) -> None:
        spoiled = [one for one in floating(after) if not all_finite(one)]
        if spoiled and operator is not None and all(map(all_finite, floating(before))):
            made = "nan" if any(bool(torch.isnan(one).any()) for one in spoiled) else "inf"
            found.append(Operator(**{**vars(operator), "made": made, "backward": True}))

    return look
