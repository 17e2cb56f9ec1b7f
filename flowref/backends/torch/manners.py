"""One call under other circumstances: gradient modes, layouts, dtypes, checkpointing, vmap,
compilation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from flowref.backends.torch.arrays import as_mapped
from flowref.backends.torch.autocast import Autocast
from flowref.backends.torch.compilers import uncompiled
from flowref.backends.torch.evaluation import KEPT, evaluate, input_tensors
from flowref.backends.torch.live import DTYPES, Live
from flowref.backends.torch.methods import dispatched, method
from flowref.backends.torch.state import cast, modules, set_mode
from flowref.backends.torch.torch_float32 import WideSums
from flowref.model import Manner, Mapped, Unsupported

HOWS = (
    "plain",
    "train",
    "no_grad",
    "inference_mode",
    "checkpoint",
    "functional_call",
    "vmap",
    "compile",
    "bfloat16",
    "float16",
    "wide_sums",
)
# Manners that leave the called object unchanged.
GENTLE = ("plain", "no_grad", "bfloat16", "float16", "wide_sums")
LAYOUTS = ("contiguous", "transposed", "expanded", "strided", "channels_last")


def call(live: Live, name: str, inputs: tuple[Any, ...], manner: Manner) -> Mapped:
    """Calls a method in a manner; results other than a log-det are the value of the `Mapped`."""
    if manner.how not in MANNERS or manner.layout not in LAYOUTS:
        raise ValueError(f"{manner}; expected how one of {HOWS} and layout one of {LAYOUTS}")
    if manner == Manner() and name in KEPT and len(inputs) == 2:
        return evaluate(live, name, *inputs)
    function = method(live, name)
    wanted = DTYPES[manner.dtype] if manner.dtype else live.dtype
    gentle = manner.dtype is None and manner.how in GENTLE
    borrowed = live.lend() if gentle else contextlib.nullcontext()
    with borrowed as lent, live.calling(f"{name} {manner.how}", wanted):
        obj = live.take() if lent is None else lent
        if manner.dtype is not None:
            obj = cast(obj, wanted)
        ready = with_layout(input_tensors(live, inputs, wanted), manner.layout)
        return as_mapped(name, MANNERS[manner.how](obj, function, ready))


def with_layout(inputs: list[Any], layout: str) -> list[Any]:
    """Inputs with the first tensor in another memory layout."""
    first = next((at for at, v in enumerate(inputs) if isinstance(v, torch.Tensor)), len(inputs))
    moved = [in_layout(value, layout) for value in inputs[first : first + 1]]
    return [*inputs[:first], *moved, *inputs[first + 1 :]]


def in_layout(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The values of ``x`` ``(n, ...)`` in another memory layout: transposed, expanded from the
    first row, strided or contiguous.
    """
    if layout == "transposed":
        axes = tuple(range(x.dim()))[::-1]
        return x.permute(axes).contiguous().permute(axes)
    if layout == "expanded":
        return x[:1].expand(x.shape)
    if layout == "strided":
        wide = torch.full(
            (2 * x.shape[0], *x.shape[1:-1], 2 * x.shape[-1] if x.dim() > 1 else 1),
            torch.nan,
            dtype=x.dtype,
        )
        view = wide[::2, ..., ::2] if x.dim() > 1 else wide[::2].reshape(x.shape)
        view.copy_(x)
        return view
    if layout == "channels_last" and x.dim() == 4:
        return x.contiguous(memory_format=torch.channels_last)
    return x


def _unmodified_call(obj: Any, function: Callable[..., Any], inputs: list[Any]) -> Any:
    return function(obj, *inputs)


def _train(obj: Any, function: Callable[..., Any], inputs: list[Any]) -> Any:
    set_mode(obj, True)
    return function(obj, *inputs)


def _no_grad(obj: Any, function: Callable[..., Any], inputs: list[Any]) -> Any:
    with torch.no_grad():
        return function(obj, *inputs)


def _inference_mode(obj: Any, function: Callable[..., Any], inputs: list[Any]) -> Any:
    with torch.inference_mode():
        return function(obj, *(v.clone() if isinstance(v, torch.Tensor) else v for v in inputs))


class _AgainError(Exception):
    """The call differentiates itself, as an integrated trace does: checkpointing would recompute
    it for each derivative, forty times for ten steps.
    """


def _checkpoint(obj: Any, function: Callable[..., Any], inputs: list[Any]) -> Any:
    from torch.utils import checkpoint

    first, *others = inputs
    if not isinstance(first, torch.Tensor):
        raise Unsupported("it takes no points that gradients could flow to")
    running = 0

    def once(points: Any) -> Any:
        nonlocal running
        if running:
            raise _AgainError
        running += 1
        out = function(obj, points, *others)
        running -= 1
        return out

    # A wrapper imports the compiler to disable it.
    run = getattr(checkpoint.checkpoint, "__wrapped__", checkpoint.checkpoint)
    with uncompiled():
        try:
            return run(once, first.requires_grad_(True), use_reentrant=False)
        except _AgainError:
            return function(obj, first.detach().requires_grad_(True), *others)


def _functional_call(obj: Any, function: Callable[..., Any], inputs: list[Any]) -> Any:
    """Calls the object with its own parameters as arguments, and its stored ones overwritten."""
    owned = modules(obj)
    if not owned:
        raise Unsupported("it holds no modules", blocked=False)

    class Caller(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.owned = nn.ModuleList(owned)

        def forward(self, *inputs: Any) -> Any:
            return function(obj, *inputs)

    caller = Caller()
    set_mode(caller, owned[0].training)
    values = {name: p.detach().clone() for name, p in caller.named_parameters()}
    with torch.no_grad():
        for parameter in caller.parameters():
            if parameter.requires_grad:
                parameter.add_(1.0)
    return torch.func.functional_call(caller, values, tuple(inputs))


def _vmap(obj: Any, function: Callable[..., Any], inputs: list[Any]) -> Any:
    axes = tuple(0 if isinstance(value, torch.Tensor) else None for value in inputs)
    paired = False

    def single(*point: Any) -> Any:
        nonlocal paired
        rows = (v[None] if axis == 0 else v for v, axis in zip(point, axes, strict=True))
        out = function(obj, *rows)
        paired = isinstance(out, (tuple, list))
        # vmap cannot return None for a missing log-det.
        parts = [v for v in dispatched(out) if v is not None]
        return tuple(v[0] if isinstance(v, torch.Tensor) and v.dim() else v for v in parts)

    parts = torch.func.vmap(single, in_dims=axes)(*inputs)
    if not paired:
        return parts[0]
    return (*parts, None) if len(parts) == 1 else parts


def _compile(obj: Any, function: Callable[..., Any], inputs: list[Any]) -> Any:
    torch.compiler.reset()
    return torch.compile(function, backend="aot_eager")(obj, *inputs)


def _autocast(name: str, obj: Any, function: Callable[..., Any], inputs: list[Any]) -> Any:
    with Autocast(getattr(torch, name)):
        return function(obj, *inputs)


def _wide_sums(obj: Any, function: Callable[..., Any], inputs: list[Any]) -> Any:
    with WideSums(len(inputs[0])):
        return function(obj, *inputs)


MANNERS: dict[str, Callable[..., Any]] = dict(
    zip(
        HOWS,
        (
            _unmodified_call,
            _train,
            _no_grad,
            _inference_mode,
            _checkpoint,
            _functional_call,
            _vmap,
            _compile,
            partial(_autocast, "bfloat16"),
            partial(_autocast, "float16"),
            _wide_sums,
        ),
        strict=True,
    )
)
