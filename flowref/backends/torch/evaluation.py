"""Calls as a user makes them: each on a fresh copy under fixed random states (see `live`), and what
comes back as arrays and numbers.
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

# Methods of which results are kept.
KEPT = ("forward", "inverse", "log_prob")
# Of a call at points that are nan so many times the operations of a usual one are waited for, and so many
# more: of a small flow some seconds, of which a law makes a few.
ENDLESS, ENDLESS_FLOOR = 20, 20_000


def evaluation(live: Live, name: str) -> Callable[..., Any]:
    """What a method is to a user: a function of arrays and numbers, as `Subject` lists it."""
    if name == "rescaled":
        return partial(rescaled, live)
    if name == "dequantize":
        return partial(dequantize, live)
    if name == "log_prob":
        return partial(evaluate_log_prob, live)
    return partial(evaluate if name in KEPT else call_on_copy, live, name)


def call_on_copy(live: Live, name: str, *inputs: Any, **named: Any) -> Any:
    """Call a method on a fresh copy: `Mapped` of maps and of what is kept, a pair of numbers of a loss, an array
    of the others.
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
    """The same, called anew."""
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
    """Inputs with arrays as tensors, each jittered under noise for itself, the first of them within
    ``support``.
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
    """Call forward, inverse or log_prob. Laws share points, so results are kept."""

    def anew(stream: int) -> Mapped:
        return evaluate_anew(live, name, x, context, stream)

    if live.widening is not None:
        return evaluate_anew(live, name, x, context)
    dear = linear_noise.replaceable(live, name)
    if dear and live.rounding is not None:

        def beside(stream: int) -> Mapped:
            with live.calling(name, stream=stream):
                moved = np.asarray(array(live.tensor(x, support=live.support_of(name))))
            return linear_noise.map_rounded(live, CALLS, x, moved, context, stream)

        rounded: Mapped = live.kept(name, (x, context), beside)
        return rounded
    out: Mapped = live.kept_if_affordable(name, len(x), (x, context), anew)
    if dear:
        linear_noise.remember(live, x, context, out)
    return out


def evaluate_anew(
    live: Live, name: str, x: Array, context: Array | None = None, stream: int | None = None
) -> Mapped:
    """The same, called anew; under noise, once without it, to count its operations."""
    live.count(name, lambda: evaluate_anew(live, name, x, context))
    function = method(live, name)
    with live.lend() as obj, live.calling(name, stream=stream), ending(live, name, x):
        ready = input_tensors(live, (x, context), support=live.support_of(name))
        return as_mapped(name, function(obj, *ready))


def ending(live: Live, name: str, x: Array) -> contextlib.AbstractContextManager[Any]:
    """What ends a call at points some of which are nan, and so no step of theirs is ever accurate enough."""
    if not np.isnan(x).any():
        return contextlib.nullcontext()
    most = ENDLESS * live.facts.cost.of(name).operations + ENDLESS_FLOOR
    return Limited(most, f"with a nan in one point {name} does not end")


CALLS = linear_noise.Calls(evaluate, evaluate_anew)


def evaluate_log_prob(live: Live, x: Array, context: Array | None = None) -> Array:
    """The log-density of each point, as returned."""
    return evaluate(live, "log_prob", x, context).value


def rescaled(live: Live, x: Array, factor: float, context: Array | None = None) -> Array:
    """The log-density of the data multiplied by a factor. The rescaled object is made within the
    call, before the points are.
    """
    rescale, log_prob = live.function("rescale"), live.function("log_prob")
    with live.calling("rescale"):
        obj = rescale(live.take(), factor)
        return np.asarray(array(log_prob(obj, live.tensor(x), live.tensor(context))))


def dequantize(live: Live, levels: Array, noise: Array, dtype: str | None = None) -> Array:
    """Levels to reals, in a dtype. Levels are integers and the noise is part of the question, so
    neither is jittered.
    """
    function = live.function("dequantize")
    wanted = DTYPES[dtype] if dtype else live.dtype
    with live.lend() as obj, live.calling("dequantize", wanted):
        draws = torch.from_numpy(np.array(noise)).to(wanted)
        return np.asarray(
            array(function(obj, torch.from_numpy(np.array(levels)).to(wanted), draws))
        )
