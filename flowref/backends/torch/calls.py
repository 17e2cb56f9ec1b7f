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
from flowref.backends.torch.narrowing import Narrowing, Watching
from flowref.backends.torch.sandbox import GENERATORS, random_state, sandbox, settings
from flowref.backends.torch.state import cast, modules, set_mode
from flowref.model import Array, Mapped, Observation, Unsupported

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
LAYOUTS = ("contiguous", "transposed", "expanded", "strided", "channels_last")
# float32 results are moved by this much to see whether they feed a float64 output.
PROBE = 2.0**-18


def call(
    live: Live,
    which: str,
    x: Array,
    context: Array | None = None,
    *,
    how: str = "plain",
    layout: str = "contiguous",
    dtype: str | None = None,
) -> Mapped:
    """Call forward, inverse or log_prob in the manner, memory layout and dtype asked for."""
    speak = live.speech(which)
    wanted = DTYPES[dtype] if dtype else live.dtype
    if how not in HOWS or layout not in LAYOUTS:
        raise ValueError(
            f"how={how!r}, layout={layout!r}; expected one of {HOWS} and one of {LAYOUTS}"
        )
    borrowed = live.lend() if dtype is None and how in GENTLE else contextlib.nullcontext()
    with borrowed as lent, live.calling(f"{which} {how}", wanted):
        obj = (
            lent
            if lent is not None
            else live.take()
            if dtype is None
            else cast(live.take(), wanted)
        )
        points = arranged(live.tensor(x, wanted), layout)
        given = live.tensor(context, wanted, jitter=1)
        return mapped(which, MANNERS[how](obj, speak, points, given))


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


def _plain(obj: Any, speak: Callable[..., Any], x: torch.Tensor, context: Any) -> Any:
    return speak(obj, x, context)


def _train(obj: Any, speak: Callable[..., Any], x: torch.Tensor, context: Any) -> Any:
    set_mode(obj, True)
    return speak(obj, x, context)


def _no_grad(obj: Any, speak: Callable[..., Any], x: torch.Tensor, context: Any) -> Any:
    with torch.no_grad():
        return speak(obj, x, context)


def _inference_mode(obj: Any, speak: Callable[..., Any], x: torch.Tensor, context: Any) -> Any:
    with torch.inference_mode():
        return speak(obj, x.clone(), None if context is None else context.clone())


def _checkpoint(obj: Any, speak: Callable[..., Any], x: torch.Tensor, context: Any) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(
        lambda points: speak(obj, points, context), x.requires_grad_(True), use_reentrant=False
    )


def _functional_call(obj: Any, speak: Callable[..., Any], x: torch.Tensor, context: Any) -> Any:
    """Run with the object's own parameters handed in from outside, its stored ones spoilt."""
    found = modules(obj)
    if not found:
        raise Unsupported("it holds no modules")

    class Speaker(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = nn.ModuleList(found)

        def forward(self, points: torch.Tensor) -> Any:
            return speak(obj, points, context)

    speaker = Speaker()
    set_mode(speaker, found[0].training)
    values = {name: p.detach().clone() for name, p in speaker.named_parameters()}
    with torch.no_grad():
        for parameter in speaker.parameters():
            if parameter.requires_grad:
                parameter.add_(1.0)
    return torch.func.functional_call(speaker, values, (x,))


def _vmap(obj: Any, speak: Callable[..., Any], x: torch.Tensor, context: Any) -> Any:
    def single(point: torch.Tensor, *given: torch.Tensor) -> Any:
        out = speak(obj, point[None], given[0][None] if given else None)
        return tuple(
            part[0] if isinstance(part, torch.Tensor) and part.dim() else part for part in out
        )

    inputs = (x,) if context is None else (x, context)
    return torch.func.vmap(single)(*inputs)


def _compile(obj: Any, speak: Callable[..., Any], x: torch.Tensor, context: Any) -> Any:
    torch.compiler.reset()
    return torch.compile(speak, backend="aot_eager")(obj, x, context)


MANNERS: dict[str, Callable[..., Any]] = dict(
    zip(
        HOWS,
        (_plain, _train, _no_grad, _inference_mode, _checkpoint, _functional_call, _vmap, _compile),
        strict=True,
    )
)


def observe(
    live: Live, which: str, x: Array, context: Array | None = None, default: str = "float32"
) -> Observation:
    """What one call does besides returning: see `Observation`. Several laws ask the same, so
    answers are kept.

    The call is made under the float32 default dtype, as users have it, so that constants of the
    default dtype show;
    ``default`` names another one.
    """
    if live.rounding is not None:
        return _observed(live, which, x, context, default)
    asked = (which, *key_of(x), *key_of(context), default)
    if asked not in live.observations:
        live.observations[asked] = _observed(live, which, x, context, default)
    return live.observations[asked]


def _observed(live: Live, which: str, x: Array, context: Array | None, default: str) -> Observation:
    speak = live.speech(which)
    points, given = live.tensor(x), live.tensor(context)
    assert points is not None
    copies = [tensor.clone() for tensor in (points, given) if tensor is not None]
    with live.lend() as obj, sandbox(derive(live.seed, 17), DTYPES[default]) as printed:
        before, states = settings(), random_state()
        with Watching() as counter:
            out = speak(obj, points, given)
        ended = random_state()
        changed = tuple(name for name, value in settings().items() if value != before[name])
        spoken = printed.getvalue()
    if ended != states:
        changed += reseeded(live, which, x, context, DTYPES[default], ended)
    arguments = [tensor for tensor in (points, given) if tensor is not None]
    mutated = tuple(
        name
        for name, tensor, copy in zip(("x", "context"), arguments, copies, strict=False)
        if tensor._version > 0 or not torch.equal(torch.nan_to_num(tensor), torch.nan_to_num(copy))
    )
    results = [out] if which == "log_prob" else list(out)
    found = [value for value in results if isinstance(value, torch.Tensor)]
    return Observation(
        printed=spoken,
        rng=ended != states,
        globals=changed,
        mutated=mutated,
        dtypes=tuple(
            str(v.dtype).removeprefix("torch.") if isinstance(v, torch.Tensor) else "number"
            for v in results
        ),
        float32=live.dtype == torch.float64
        and feeds_float32(live, which, x, context, DTYPES[default]),
        operations=counter.operations,
        devices=tuple(str(v.device) for v in found),
    )


def reseeded(
    live: Live,
    which: str,
    x: Array,
    context: Array | None,
    default: torch.dtype,
    ended: tuple[Any, ...],
) -> tuple[str, ...]:
    """The generators that a call leaves in the same state wherever they stood before: it seeds them
    for everybody.
    """
    with live.lend() as obj, sandbox(derive(live.seed, 23), default):
        live.speech(which)(obj, live.tensor(x), live.tensor(context))
        return tuple(
            f"the random state of {name}"
            for name, one, other in zip(GENERATORS, ended, random_state(), strict=True)
            if one == other
        )


def feeds_float32(
    live: Live, which: str, x: Array, context: Array | None, default: torch.dtype
) -> bool:
    """Whether float32 arithmetic feeds a float64 output: disturb only float32 results, and see
    whether the output moves.
    """
    speak = live.speech(which)
    outcomes = []
    for magnitude in (0.0, PROBE):
        circumstances = sandbox(derive(live.seed, 17), default)
        with live.lend() as obj, circumstances, Narrowing(magnitude, derive(live.seed, 19)) as mode:
            out = mapped(which, speak(obj, live.tensor(x), live.tensor(context)))
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
