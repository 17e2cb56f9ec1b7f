"""The cost of an object's calls, from a call with one row and another with more."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.graphs import Ungraphed, ungraphed
from flowref.backends.torch.measuring import Enough, Measuring
from flowref.backends.torch.methods import offered
from flowref.backends.torch.sandbox import sandbox
from flowref.backends.torch.state import set_mode, tensors
from flowref.model import CallCost, Cost, Dialect, Facts, Line, draw

# Rows of the two calls.
FEW, MORE = 1, 3


# Calls that take what the map of data to latents takes, and what the way back takes.
LIKE_DATA = ("bits_per_dim", "loss", "rescaled", "estimate")
LIKE_LATENTS = ("sample", "rsample", "sample_log_prob")


def cost_of(obj: Any, dialect: Dialect, facts: Facts, dtype: torch.dtype, most: float) -> Cost:
    """See `Backend.cost`. What an object refuses has no cost."""
    held = {id(t): t.numel() * t.element_size() for t in tensors(obj)}
    calls: dict[str, CallCost] = {}
    with sandbox(0, dtype):
        set_mode(obj, False)
        x, context = _points(facts, dtype)
        y = None
        if dialect.forward is not None:
            y = _priced(calls, "forward", obj, dialect.forward, x, context, most)
            if y is not None and dialect.inverse is not None:
                _priced(calls, "inverse", obj, dialect.inverse, y, context, most)
                calls |= _extrapolated(calls, math.prod(facts.event_shape))
        if dialect.log_prob is not None:
            data = x if dialect.normalizing == "forward" or dialect.forward is None else y
            if data is not None:
                _priced(calls, "log_prob", obj, dialect.log_prob, data, context, most)
    back = {"forward": "inverse", "inverse": "forward"}[dialect.normalizing]
    for names, like in (
        (LIKE_DATA, "log_prob" if "log_prob" in calls else dialect.normalizing),
        (LIKE_LATENTS, back if dialect.forward is not None else "log_prob"),
    ):
        calls |= {n: calls[like] for n in names if like in calls and n in offered(dialect)}
    return Cost(calls, sum(held.values()))


def _extrapolated(calls: Mapping[str, CallCost], size: int) -> dict[str, CallCost]:
    """An inverse that was cut short, as one that calls forward for each coordinate."""
    there, back = calls["forward"], calls.get("inverse")
    if back is None or back.complete:
        return {}
    fixed, row = max(back.work.fixed, size * there.work.fixed), size * there.work.per_row
    written = Line(size * there.written.fixed, size * there.written.per_row)
    return {"inverse": replace(back, work=Line(fixed, row), written=written)}


def _points(facts: Facts, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor | None]:
    rng = np.random.default_rng(1)
    x = torch.from_numpy(draw(facts.domain, (MORE, *facts.event_shape), rng)).to(dtype)
    if facts.context_shape is None:
        return x, None
    return x, torch.from_numpy(rng.standard_normal((MORE, *facts.context_shape))).to(dtype)


def _priced(
    calls: dict[str, CallCost],
    name: str,
    obj: Any,
    function: Callable[..., Any],
    x: torch.Tensor,
    context: torch.Tensor | None,
    most: float,
) -> torch.Tensor | None:
    """Enter what a call takes; returns its value, if it is a map that was called to the end."""
    counts: list[Measuring] = []
    value, ended, walks = None, True, False
    while len(counts) < 2 and ended:
        rows = MORE if counts else FEW
        given = x[:rows].clone(), None if context is None else context[:rows].clone()
        measuring, ended = Measuring(most), False
        spared = contextlib.nullcontext(Ungraphed()) if walks else ungraphed()
        with contextlib.suppress(Enough, Exception), spared as state, measuring:
            value = function(obj, *given)
            ended = True
        if state.walked:  # it differentiates itself
            walks, ended, counts = True, True, []
            continue
        counts.append(measuring)
    if not ended and counts[-1].work <= most:  # it was refused
        return None
    one, more = counts[0], counts[-1]
    calls[name] = CallCost(
        operations=one.operations,
        work=_line(one.work, more.work),
        written=_line(one.written, more.written),
        held=_line(one.held, more.held),
        complete=ended,
        walks=walks,
    )
    if not ended or not isinstance(value, (tuple, list)):
        return None
    first = value[0]
    fits = isinstance(first, torch.Tensor) and math.prod(first.shape[:1]) == MORE
    return first.detach().clone() if fits else None


def _line(few: float, more: float) -> Line:
    """The line through what was counted with few rows and with more. What was counted once may all
    be owed to its row.
    """
    per_row = max(0.0, (more - few) / (MORE - FEW)) if more != few else 0.0
    return Line(max(0.0, few - FEW * per_row), per_row)
