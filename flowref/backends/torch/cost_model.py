"""The cost of an object's calls, from a call with one row and another with more."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from flowref.backends.data import points_and_contexts
from flowref.backends.torch.arrays import as_tensors
from flowref.backends.torch.call_cost import Enough, Measuring
from flowref.backends.torch.graphs import Ungraphed, ungraphed
from flowref.backends.torch.parameter_cache import Folding, folding_of
from flowref.backends.torch.sandbox import torch_sandbox
from flowref.backends.torch.state import set_mode, tensors
from flowref.model import OPPOSITE, CallCost, Cost, Dialect, Facts, LinearCost
from flowref.model.cost import OPERATION, STEPS

# Rows of the two calls.
FEW, MORE = 1, 3


# Calls whose cost is that of the map from data to latents, and those whose cost is that of samples,
# or else of the inverse.
LIKE_DATA = ("bits_per_dim", "loss", "rescaled", "estimate")
LIKE_SAMPLES = ("sample", "rsample", "sample_log_prob")


def cost_of(obj: Any, dialect: Dialect, facts: Facts, dtype: torch.dtype, most: float) -> Cost:
    """See `Backend.cost`. A call that the object rejects has no cost."""
    held = {id(t): t.numel() * t.element_size() for t in tensors(obj)}
    calls: dict[str, CallCost] = {}
    with torch_sandbox(0, dtype):
        set_mode(obj, False)
        x, context = as_tensors(points_and_contexts(facts, MORE, np.random.default_rng(1)), dtype)
        y = None
        if dialect.forward is not None:
            y = _record_cost(calls, "forward", obj, dialect.forward, x, context, most)
            if y is not None and dialect.inverse is not None:
                _record_cost(calls, "inverse", obj, dialect.inverse, y, context, most)
                there = Again(dialect.forward, obj, x, context)
                _mark_repeating_inverse(calls, there, Again(dialect.inverse, obj, y, context))
        if dialect.log_prob is not None:
            data = x if dialect.normalizing == "forward" or dialect.forward is None else y
            if data is not None:
                _record_cost(calls, "log_prob", obj, dialect.log_prob, data, context, most)
        back = OPPOSITE[dialect.normalizing] if dialect.forward is not None else "log_prob"
        if dialect.sample is not None and back in calls and not calls[back].heavy:
            # Sampling may take a step for each entry, unlike a log-density.
            _record_cost(calls, "sample", obj, _sampler_of_points(dialect.sample), x, context, most)
    for names, like in (
        (LIKE_DATA, "log_prob" if "log_prob" in calls else dialect.normalizing),
        (LIKE_SAMPLES, "sample" if "sample" in calls else back),
    ):
        calls |= {n: calls[like] for n in names if like in calls and n in dialect.offered}
    return Cost(calls, sum(held.values()))


def _sampler_of_points(sample: Callable[..., Any]) -> Callable[..., Any]:
    return lambda obj, x, context: sample(obj, len(x), context)


def _mark_repeating_inverse(calls: dict[str, CallCost], there: Again, back: Again) -> None:
    """Marks an inverse that takes many times the work of forward, measured with results of
    parameters alone cached; an inverse that was cut short is compared with one call of forward
    per coordinate.
    """
    forward, inverse = calls["forward"], calls.get("inverse")
    if inverse is None or not inverse.heavy or inverse.work.of(1) <= STEPS * forward.work.of(1):
        return
    if inverse.complete:
        with contextlib.suppress(Exception), ungraphed(), Measuring() as measuring, back.folding:
            back.call()
            # Folding dispatches once more per operation, and takes about as long as the operation.
            folding = inverse.operations * OPERATION
            fixed = max(0.0, measuring.work + folding - inverse.work.per_row)
            inverse = replace(inverse, work=LinearCost(fixed, inverse.work.per_row))
    else:
        size, fixed = back.size, forward.work.fixed
        with contextlib.suppress(Exception), ungraphed(), Measuring() as measuring, there.folding:
            there.call()
            first = measuring.work
            there.call()
            fixed = max(0.0, measuring.work - first - forward.work.per_row)
        inverse = replace(
            inverse,
            work=LinearCost(forward.work.fixed + size * fixed, size * forward.work.per_row),
            written=LinearCost(size * forward.written.fixed, size * forward.written.per_row),
        )
    calls["inverse"] = replace(inverse, repeats=True)


class Again(NamedTuple):
    """A call with one row, and its folding."""

    function: Callable[..., Any]
    obj: Any
    x: torch.Tensor
    context: torch.Tensor | None

    @property
    def folding(self) -> Folding:
        """See `Folding`."""
        return folding_of(self.obj)

    @property
    def size(self) -> int:
        """The entries of a point."""
        return self.x[0].numel()

    def call(self) -> Any:
        """Calls the function with the first row."""
        context = None if self.context is None else self.context[:1].clone()
        return self.function(self.obj, self.x[:1].clone(), context)


def _record_cost(
    calls: dict[str, CallCost],
    name: str,
    obj: Any,
    function: Callable[..., Any],
    x: torch.Tensor,
    context: torch.Tensor | None,
    most: float,
) -> torch.Tensor | None:
    """Records the cost of a call; returns its value if it is a map and the call was completed."""
    counts: list[Measuring] = []
    value, ended, walks, transformed = None, True, False, False
    while len(counts) < 2 and ended:
        rows = MORE if counts else FEW
        given, again = (_first_rows(x, context, rows) for _ in range(2))
        measuring, ended = Measuring(most), False
        spared = contextlib.nullcontext(Ungraphed()) if walks else ungraphed()
        with contextlib.suppress(Enough, Exception), spared as state, measuring:
            value = function(obj, *given)
            ended = True
        if state.walked:  # the call differentiates itself
            walks, ended, counts, transformed = True, True, [], state.transformed
            continue
        if transformed:  # transforms of torch.func forbid hooks on saved tensors
            measuring.held = measuring.written
        elif walks and ended:
            # A separate call: hooks on saved tensors take operations of their own.
            graphed = Measuring(math.inf)
            with contextlib.suppress(Exception), graphed.graphs(), graphed:
                function(obj, *again)
            measuring.held = graphed.held
        counts.append(measuring)
    if not ended and counts[-1].work <= most:  # the call raised
        return None
    one, more = counts[0], counts[-1]
    calls[name] = CallCost(
        operations=one.operations,
        work=_fitted_linear_cost(one.work, more.work),
        written=_fitted_linear_cost(one.written, more.written),
        held=_fitted_linear_cost(one.held, more.held),
        complete=ended,
        walks=walks,
        redrawn=more.redrawn,
    )
    if not ended or not isinstance(value, (tuple, list)):
        return None
    first = value[0]
    fits = isinstance(first, torch.Tensor) and math.prod(first.shape[:1]) == MORE
    return first.detach().clone() if fits else None


def _first_rows(
    x: torch.Tensor, context: torch.Tensor | None, rows: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    return x[:rows].clone(), None if context is None else context[:rows].clone()


def _fitted_linear_cost(few: float, more: float) -> LinearCost:
    """The line through the counts with few rows and with more; a single count is ascribed to its
    row.
    """
    per_row = max(0.0, (more - few) / (MORE - FEW)) if more != few else 0.0
    return LinearCost(max(0.0, few - FEW * per_row), per_row)
