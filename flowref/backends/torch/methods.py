"""The methods of a live object as functions of tensors: what each takes besides the object."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.graphs import ungraphed
from flowref.backends.torch.live import Live
from flowref.backends.torch.own_generators import seed_own
from flowref.backends.torch.parameter_cache import run_with_folding
from flowref.backends.torch.sandbox import seed_torch
from flowref.model import Unsupported
from flowref.model.call import DRAWING, KERNELS, arguments
from flowref.model.cost import LONG


def method(live: Live, name: str) -> Callable[..., Any]:
    """A method as a function ``(obj, *inputs)`` of the object and of tensors, integers and seeds,
    in the order of the `Call` of its name. Raises `Unsupported` where the dialect has none.
    """
    return budgeted_method(live, name, _seeded_method(live, name, seeds=True))


def budgeted_method(live: Live, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that asks for what it takes, where that is much for so many rows. A heavy one keeps nothing for
    a way back: whoever walks back calls the dialect's function itself. One that repeats itself computes once
    what comes of its parameters alone.
    """
    cost = live.facts.cost.of(name)
    if not cost.heavy:
        return lambda obj, *inputs, **named: function(obj, *_granted(live, name, inputs), **named)

    def asked(obj: Any, *inputs: Any, **named: Any) -> Any:
        live.afford(name, input_rows(inputs))
        return sparingly(live, name, obj, lambda: function(obj, *inputs, **named))

    return asked


def _granted(live: Live, name: str, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of a light call, once what it takes for so many rows is there."""
    if live.facts.cost.of(name).bulk.of(rows := input_rows(inputs)) > LONG:
        live.afford(name, rows)
    return inputs


def sparingly(live: Live, name: str, obj: Any, run: Callable[[], Any]) -> Any:
    """What a heavy call of an object gives, whose graph nobody walks."""
    cost = live.facts.cost.of(name)
    with contextlib.nullcontext() if cost.walks else ungraphed():
        return run_with_folding(obj, run) if cost.repeats and live.rounding is None else run()


def input_rows(inputs: Sequence[Any]) -> int:
    """How many points a call is made at: as many as its first array holds, or as its first number
    asks for.
    """
    for value in inputs:
        if isinstance(value, torch.Tensor | np.ndarray):
            return len(value) if value.ndim else 1
        if isinstance(value, int):
            return value
    return 1


def _seeded_method(live: Live, name: str, seeds: bool) -> Callable[..., Any]:
    """A method; ``seeds``: in the random state of its seed, where it takes one, and with a graph only where
    that is what it is for: layers that may draw may differentiate an energy, and rely on it.
    """
    if name == "rescaled":
        rescale, log_prob = live.function("rescale"), live.function("log_prob")
        return lambda obj, x, factor, context=None: log_prob(rescale(obj, factor), x, context)
    function = live.function(name)

    def called(obj: Any, *inputs: Any, **named: Any) -> Any:
        given, seed = arguments(name, inputs, named)
        if seed is None or not seeds:
            return function(obj, *given)
        return seeded(seed, function, obj, *given, recorded=name in ("rsample", *KERNELS))

    return called


def seeded(
    seed: int, function: Callable[..., Any], obj: Any, *inputs: Any, recorded: bool = False
) -> Any:
    """A call with all random states seeded, those of the object too; with a graph only where it is
    ``recorded``.
    """
    seed_torch(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
    seed_own(obj, seed)
    with torch.set_grad_enabled(recorded):
        return function(obj, *inputs)


def unseeded_method(live: Live, name: str) -> Callable[..., Any]:
    """A method as a function ``(obj, *inputs)`` as in `method`, which does not set the random state:
    it is the caller's, and a seed among the inputs says nothing.
    """
    return budgeted_method(live, name, _seeded_method(live, name, seeds=name not in DRAWING))


def dispatched(out: Any) -> list[Any]:
    """What a method returned, as a list of its parts."""
    if out is None:
        raise Unsupported("it returns nothing")
    return list(out) if isinstance(out, (tuple, list)) else [out]
