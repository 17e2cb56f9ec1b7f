"""The cost of an object's calls, from a call with one row and another with more."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.graphs import ungraphed
from flowref.backends.torch.measuring import Enough, Measuring
from flowref.backends.torch.sandbox import sandbox
from flowref.backends.torch.state import set_mode, tensors
from flowref.model import CallCost, Cost, Dialect, Facts, Line, draw

# Rows of the two calls.
FEW, MORE = 1, 3


def cost_of(obj: Any, dialect: Dialect, facts: Facts, dtype: torch.dtype, most: float) -> Cost:
    """See `Backend.cost`. What an object refuses has no cost."""
    held = {id(t): t.numel() * t.element_size() for t in tensors(obj)}
    calls: dict[str, CallCost] = {}
    with sandbox(0, None if dtype is None else dtype):
        set_mode(obj, False)
        x, context = _points(facts, dtype)
        if dialect.forward is not None:
            y = _priced(calls, "forward", obj, dialect.forward, x, context, most)
            if y is not None and dialect.inverse is not None:
                _priced(calls, "inverse", obj, dialect.inverse, y, context, most)
        if dialect.log_prob is not None:
            _priced(calls, "log_prob", obj, dialect.log_prob, x, context, most)
    return Cost(calls, sum(held.values()))


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
    counts, value = [], None
    for rows in (FEW, MORE):
        given = x[:rows].clone(), None if context is None else context[:rows].clone()
        measuring, ended = Measuring(most), False
        with contextlib.suppress(Enough, Exception), ungraphed(), measuring:
            value = function(obj, *given)
            ended = True
        counts.append(measuring)
        if not ended:
            break
    if not ended and counts[-1].work <= most:  # it was refused
        return None
    one, more = counts[0], counts[-1]
    calls[name] = CallCost(
        operations=one.operations,
        work=_line(one.work, more.work),
        written=_line(one.written, more.written),
        held=_line(one.held, more.held),
        complete=ended,
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
