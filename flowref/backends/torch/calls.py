"""One call in another manner: gradient modes, layouts, dtypes, checkpointing, vmap, compilation;
and what a call leaves behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from flowref.backends.torch.live import DTYPES, Live, derive, key_of, mapped
from flowref.backends.torch.methods import dispatched, method
from flowref.backends.torch.narrowing import Narrowing, Watching
from flowref.backends.torch.sandbox import GENERATORS, random_state, sandbox, settings
from flowref.backends.torch.state import cast, modules, set_mode
from flowref.model import Manner, Mapped, Observation, Unsupported

HOWS = (
    "plain",
    "train",
    "no_grad",
    "inference_mode",
    "checkpoint",
    "functional_call",
    "vmap",
    "compile",
)
# Manners that by themselves change nothing in the object that is called.
GENTLE = ("plain", "no_grad")
PLAIN = Manner()
LAYOUTS = ("contiguous", "transposed", "expanded", "strided", "channels_last")
# float32 results are moved by this much to see whether they feed a float64 output.
PROBE = 2.0**-18


def call(live: Live, name: str, inputs: tuple[Any, ...], manner: Manner) -> Mapped:
    """Call a method in the manner asked for; whatever is no log-det comes back as the value."""
    if manner.how not in MANNERS or manner.layout not in LAYOUTS:
        raise ValueError(f"{manner}; expected how one of {HOWS} and layout one of {LAYOUTS}")
    speak = method(live, name)
    wanted = DTYPES[manner.dtype] if manner.dtype else live.dtype
    gentle = manner.dtype is None and manner.how in GENTLE
    borrowed = live.lend() if gentle else contextlib.nullcontext()
    with borrowed as lent, live.calling(f"{name} {manner.how}", wanted):
        obj = live.take() if lent is None else lent
        if manner.dtype is not None:
            obj = cast(obj, wanted)
        return mapped(name, MANNERS[manner.how](obj, speak, tensors(live, inputs, wanted, manner)))


def tensors(
    live: Live, inputs: tuple[Any, ...], dtype: torch.dtype | None = None, manner: Manner = PLAIN
) -> list[Any]:
    """Inputs with arrays as tensors, the first in the memory layout asked for."""
    ready: list[Any] = []
    arrays = 0
    for value in inputs:
        if isinstance(value, np.ndarray):
            tensor = live.tensor(value, dtype, jitter=arrays)
            ready.append(tensor if arrays else arranged(tensor, manner.layout))
            arrays += 1
        else:
            ready.append(value)
    return ready


def arranged(x: torch.Tensor | None, layout: str) -> torch.Tensor:
    """The same values in another memory layout."""
    assert x is not None
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


def _plain(obj: Any, speak: Callable[..., Any], inputs: list[Any]) -> Any:
    return speak(obj, *inputs)


def _train(obj: Any, speak: Callable[..., Any], inputs: list[Any]) -> Any:
    set_mode(obj, True)
    return speak(obj, *inputs)


def _no_grad(obj: Any, speak: Callable[..., Any], inputs: list[Any]) -> Any:
    with torch.no_grad():
        return speak(obj, *inputs)


def _inference_mode(obj: Any, speak: Callable[..., Any], inputs: list[Any]) -> Any:
    with torch.inference_mode():
        return speak(obj, *(v.clone() if isinstance(v, torch.Tensor) else v for v in inputs))


def _checkpoint(obj: Any, speak: Callable[..., Any], inputs: list[Any]) -> Any:
    from torch.utils.checkpoint import checkpoint

    first, *others = inputs
    if not isinstance(first, torch.Tensor):
        raise Unsupported("it takes no points that gradients could flow to")
    return checkpoint(
        lambda points: speak(obj, points, *others), first.requires_grad_(True), use_reentrant=False
    )


def _functional_call(obj: Any, speak: Callable[..., Any], inputs: list[Any]) -> Any:
    """Run with the object's own parameters handed in from outside, its stored ones spoilt."""
    owned = modules(obj)
    if not owned:
        raise Unsupported("it holds no modules")

    class Speaker(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.owned = nn.ModuleList(owned)

        def forward(self, *given: Any) -> Any:
            return speak(obj, *given)

    speaker = Speaker()
    set_mode(speaker, owned[0].training)
    values = {name: p.detach().clone() for name, p in speaker.named_parameters()}
    with torch.no_grad():
        for parameter in speaker.parameters():
            if parameter.requires_grad:
                parameter.add_(1.0)
    return torch.func.functional_call(speaker, values, tuple(inputs))


def _vmap(obj: Any, speak: Callable[..., Any], inputs: list[Any]) -> Any:
    axes = tuple(0 if isinstance(value, torch.Tensor) else None for value in inputs)
    paired = False

    def single(*point: Any) -> Any:
        nonlocal paired
        rows = (v[None] if axis == 0 else v for v, axis in zip(point, axes, strict=True))
        out = speak(obj, *rows)
        paired = isinstance(out, (tuple, list))
        # What returns no log-det returns None for it, which vmap does not hand on.
        parts = [v for v in dispatched(out) if v is not None]
        return tuple(v[0] if isinstance(v, torch.Tensor) and v.dim() else v for v in parts)

    parts = torch.func.vmap(single, in_dims=axes)(*inputs)
    if not paired:
        return parts[0]
    return (*parts, None) if len(parts) == 1 else parts


def _compile(obj: Any, speak: Callable[..., Any], inputs: list[Any]) -> Any:
    torch.compiler.reset()
    return torch.compile(speak, backend="aot_eager")(obj, *inputs)


MANNERS: dict[str, Callable[..., Any]] = dict(
    zip(
        HOWS,
        (_plain, _train, _no_grad, _inference_mode, _checkpoint, _functional_call, _vmap, _compile),
        strict=True,
    )
)


def observe(live: Live, name: str, inputs: tuple[Any, ...], default: str) -> Observation:
    """What one call does besides returning: see `Observation`. Several laws ask the same, so
    answers are kept. The call is made under the default dtype asked for: users have float32, under
    which constants of the default dtype show.
    """
    if live.rounding is not None:
        return _observed(live, name, inputs, default)
    asked = (name, tuple(_key(value) for value in inputs), default)
    if asked not in live.observations:
        live.observations[asked] = _observed(live, name, inputs, default)
    return live.observations[asked]


def _key(value: Any) -> tuple[Any, ...]:
    return key_of(value) if value is None or isinstance(value, np.ndarray) else (value,)


def _observed(live: Live, name: str, inputs: tuple[Any, ...], default: str) -> Observation:
    speak = method(live, name)
    ready = tensors(live, inputs)
    arguments = [value for value in ready if isinstance(value, torch.Tensor)]
    copies = [tensor.clone() for tensor in arguments]
    with live.lend() as obj, sandbox(derive(live.seed, 17), DTYPES[default]) as printed:
        before, states = settings(), random_state()
        with Watching() as counter:
            out = speak(obj, *ready)
        ended = random_state()
        changed = tuple(name for name, value in settings().items() if value != before[name])
        written = printed.getvalue()
    if ended != states:
        changed += reseeded(live, name, inputs, DTYPES[default], ended)
    mutated = tuple(
        argument
        for argument, tensor, copy in zip(("x", "context"), arguments, copies, strict=False)
        if tensor._version > 0 or not torch.equal(torch.nan_to_num(tensor), torch.nan_to_num(copy))
    )
    return Observation(
        printed=written,
        rng=ended != states,
        globals=changed,
        mutated=mutated,
        dtypes=tuple(
            str(v.dtype).removeprefix("torch.") if isinstance(v, torch.Tensor) else "number"
            for v in dispatched(out)
        ),
        float32=live.dtype == torch.float64 and feeds_float32(live, name, inputs, DTYPES[default]),
        operations=counter.operations,
    )


def reseeded(
    live: Live, name: str, inputs: tuple[Any, ...], default: torch.dtype, ended: tuple[Any, ...]
) -> tuple[str, ...]:
    """The generators that a call leaves in the same state wherever they stood before: it seeds them
    for everybody.
    """
    with live.lend() as obj, sandbox(derive(live.seed, 23), default):
        method(live, name)(obj, *tensors(live, inputs))
        return tuple(
            f"the random state of {generator}"
            for generator, one, other in zip(GENERATORS, ended, random_state(), strict=True)
            if one == other
        )


def feeds_float32(live: Live, name: str, inputs: tuple[Any, ...], default: torch.dtype) -> bool:
    """Whether float32 arithmetic feeds a float64 output: disturb only float32 results, and see
    whether the output moves.
    """
    speak = method(live, name)
    outcomes = []
    for magnitude in (0.0, PROBE):
        circumstances = sandbox(derive(live.seed, 17), default)
        with (
            live.lend() as obj,
            circumstances,
            Narrowing(magnitude, derive(live.seed, 19)) as mode,
        ):
            out = mapped(name, speak(obj, *tensors(live, inputs)))
            if not mode.disturbed:
                return False
        outcomes.append(out)
    clean, moved = outcomes
    return _moved(clean.value, moved.value) or _moved(clean.ladj, moved.ladj)


def _moved(clean: Any, moved: Any) -> bool:
    if clean is None:
        return False
    first, second = np.asarray(clean), np.asarray(moved)
    if first.dtype == np.float32 or first.shape != second.shape:
        return True
    return not bool(np.array_equal(first, second, equal_nan=True))
