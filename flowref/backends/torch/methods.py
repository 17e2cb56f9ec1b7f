"""The methods of a live object as functions of tensors, with the other arguments bound."""

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
    """Returns a method as a function ``(obj, *inputs)`` of the object and of tensors, integers and
    seeds, in the order of the `Call` of its name. Raises `Unsupported` if the dialect has none.
    """
    return budgeted_method(live, name, _seeded_method(live, name, seeds=True))


def budgeted_method(live: Live, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that requests its budget first, if it is large. A heavy one saves nothing for a
    backward pass: derivatives call the dialect's function instead. One that repeats itself
    caches what depends on parameters alone.
    """
    cost = live.facts.cost.of(name)
    if not cost.heavy:
        return lambda obj, *inputs, **named: function(obj, *_granted(live, name, inputs), **named)

    def asked(obj: Any, *inputs: Any, **named: Any) -> Any:
        live.afford(name, input_rows(inputs))
        return sparingly(live, name, obj, lambda: function(obj, *inputs, **named))

    return asked


def _granted(live: Live, name: str, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the inputs after requesting the budget of a light call on many rows."""
    if live.facts.cost.of(name).bulk.of(rows := input_rows(inputs)) > LONG:
        live.afford(name, rows)
    return inputs


def sparingly(live: Live, name: str, obj: Any, run: Callable[[], Any]) -> Any:
    """The result of a heavy call without a backward pass."""
    cost = live.facts.cost.of(name)
    with contextlib.nullcontext() if cost.walks else ungraphed():
        return run_with_folding(obj, run) if cost.repeats and live.rounding is None else run()


def input_rows(inputs: Sequence[Any]) -> int:
    """The number of points of a call: the length of its first array, or its first integer."""
    for value in inputs:
        if isinstance(value, torch.Tensor | np.ndarray):
            return len(value) if value.ndim else 1
        if isinstance(value, int):
            return value
    return 1


def _seeded_method(live: Live, name: str, seeds: bool) -> Callable[..., Any]:
    """A method; ``seeds``: in the random state of its seed, if it takes one, and with a graph only
    if its gradients are its purpose. Stochastic layers always have one, since they may
    differentiate an energy.
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
    """A call with all generators seeded, those of the object too; with a graph only if
    ``recorded``.
    """
    seed_torch(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
    seed_own(obj, seed)
    with torch.set_grad_enabled(recorded):
        return function(obj, *inputs)


def unseeded_method(live: Live, name: str) -> Callable[..., Any]:
    """As `method`, but in the caller's random state; a seed among the inputs is ignored."""
    return budgeted_method(live, name, _seeded_method(live, name, seeds=name not in DRAWING))


def dispatched(out: Any) -> list[Any]:
    """The parts of a result as a list; raises `Unsupported` for None."""
    if out is None:
        raise Unsupported("it returns nothing")
    return list(out) if isinstance(out, (tuple, list)) else [out]
