"""Calls as a user makes them: each on a fresh copy under fixed random states (see `live`), with
results as arrays and numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from flowref.backends.torch import linear_noise
from flowref.backends.torch.arrays import array, as_mapped
from flowref.backends.torch.live import DTYPES, Live
from flowref.backends.torch.methods import input_rows, method
from flowref.backends.torch.torch_float32 import Limited
from flowref.model import Array, Mapped, Support
from flowref.model.call import DRAWING, PAIRED

# Methods with cached results.
KEPT = ("forward", "inverse", "log_prob")
# A call at NaN points may take so many times the operations of a usual one, plus a constant:
# seconds for a small flow, and a law makes a few such calls.
ENDLESS, ENDLESS_FLOOR = 20, 20_000


def evaluation(live: Live, name: str) -> Callable[..., Any]:
    """Returns a method as a function of arrays and numbers, with the signature listed in
    `Subject`.
    """
    if name == "rescaled":
        return partial(rescaled, live)
    if name == "dequantize":
        return partial(dequantize, live)
    if name == "log_prob":
        return partial(evaluate_log_prob, live)
    return partial(evaluate if name in KEPT else call_on_copy, live, name)


def call_on_copy(live: Live, name: str, *inputs: Any, **named: Any) -> Any:
    """Calls a method on a fresh copy: returns a `Mapped` for maps and cached methods, two numbers
    for a loss, an array for all others.
    """
    if name in DRAWING and live.facts.cost.of(name).repeats and not named:
        if live.rounding is not None and linear_noise.drawn_back(live):
            context = next((one for one in inputs if isinstance(one, np.ndarray)), None)

            def draw() -> Any:
                return call_on_copy(live, name, *inputs)

            return live.kept(
                name,
                inputs,
                lambda stream: linear_noise.draw_rounded(live, CALLS, draw, context, stream),
            )
        if live.rounding is None:
            return live.kept_if_affordable(
                name, input_rows(inputs), inputs, lambda _: plain_anew(live, name, inputs, named)
            )
    return plain_anew(live, name, inputs, named)


def plain_anew(live: Live, name: str, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The same, without the cache."""
    function = method(live, name)
    with live.lend() as obj, live.calling(name):
        ready = input_tensors(live, (*inputs, *named.values()), support=live.support_of(name))
        keywords = dict(zip(named, ready[len(inputs) :], strict=True))
        out = function(obj, *ready[: len(inputs)], **keywords)
        if name in PAIRED or name in KEPT:
            return as_mapped(name, out)
        if name == "loss":
            nll, penalty = out
            return float(nll), None if penalty is None else float(penalty)
        return np.asarray(array(out))


def input_tensors(
    live: Live,
    inputs: tuple[Any, ...],
    dtype: torch.dtype | None = None,
    support: Support | None = None,
) -> list[Any]:
    """Converts arrays among the inputs to tensors; under noise each is jittered separately, the
    first within ``support``.
    """
    ready: list[Any] = []
    arrays = 0
    for value in inputs:
        if isinstance(value, np.ndarray):
            ready.append(live.tensor(value, dtype, arrays, None if arrays else support))
            arrays += 1
        else:
            ready.append(value)
    return ready


def evaluate(live: Live, name: str, x: Array, context: Array | None = None) -> Mapped:
    """Calls forward, inverse or log_prob at ``x`` ``(n, *event)``. Results are cached, since laws
    share points.
    """

    def anew(stream: int) -> Mapped:
        return evaluate_anew(live, name, x, context, stream)

    if live.widening is not None:
        return evaluate_anew(live, name, x, context)
    expensive = linear_noise.replaceable(live, name)
    if expensive and live.rounding is not None:

        def linearized(stream: int) -> Mapped:
            with live.calling(name, stream=stream):
                moved = np.asarray(array(live.tensor(x, support=live.support_of(name))))
            return linear_noise.map_rounded(live, CALLS, x, moved, context, stream)

        rounded: Mapped = live.kept(name, (x, context), linearized)
        return rounded
    out: Mapped = live.kept_if_affordable(name, len(x), (x, context), anew)
    if expensive:
        linear_noise.remember(live, x, context, out)
    return out


def evaluate_anew(
    live: Live, name: str, x: Array, context: Array | None = None, stream: int | None = None
) -> Mapped:
    """The same at ``x`` ``(n, *event)`` without the cache; under noise an additional clean call
    counts the operations.
    """
    live.count(name, lambda: evaluate_anew(live, name, x, context))
    function = method(live, name)
    with live.lend() as obj, live.calling(name, stream=stream), ending(live, name, x):
        ready = input_tensors(live, (x, context), support=live.support_of(name))
        return as_mapped(name, function(obj, *ready))


def ending(live: Live, name: str, x: Array) -> contextlib.AbstractContextManager[Any]:
    """Limits the operations of a call with NaN points, at which an adaptive solver never reaches
    its tolerance.
    """
    if not np.isnan(x).any():
        return contextlib.nullcontext()
    most = ENDLESS * live.facts.cost.of(name).operations + ENDLESS_FLOOR
    return Limited(most, f"with a nan in one point {name} does not end")


CALLS = linear_noise.Calls(evaluate, evaluate_anew)


def evaluate_log_prob(live: Live, x: Array, context: Array | None = None) -> Array:
    """The log-density ``(n,)`` of ``x`` ``(n, *event)``, as returned."""
    return evaluate(live, "log_prob", x, context).value


def rescaled(live: Live, x: Array, factor: float, context: Array | None = None) -> Array:
    """The log-density ``(n,)`` of the data multiplied by a factor. The rescaled object is made
    within the call, before the points.
    """
    rescale, log_prob = live.function("rescale"), live.function("log_prob")
    with live.calling("rescale"):
        obj = rescale(live.take(), factor)
        return np.asarray(array(log_prob(obj, live.tensor(x), live.tensor(context))))


def dequantize(live: Live, levels: Array, noise: Array, dtype: str | None = None) -> Array:
    """Maps integer levels ``(n, *event)`` and noise to reals, in a dtype. Neither is jittered
    under noise, since both are exact inputs.
    """
    function = live.function("dequantize")
    wanted = DTYPES[dtype] if dtype else live.dtype
    with live.lend() as obj, live.calling("dequantize", wanted):
        draws = torch.from_numpy(np.array(noise)).to(wanted)
        return np.asarray(
            array(function(obj, torch.from_numpy(np.array(levels)).to(wanted), draws))
        )
