"""Densities on a simplex, judged in coordinates that fill the space."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from flowref.laws.common.requirements import exact_density, exact_log_det
from flowref.laws.density.balance import detailed_balance
from flowref.laws.density.consistency import unconditional
from flowref.laws.density.draws import SampledDensity
from flowref.laws.density.overlap import overlap
from flowref.model import (
    NEARBY,
    REAL,
    STATISTICAL,
    Array,
    Batch,
    Residual,
    Subject,
    Undecidable,
    law,
    requires,
)
from flowref.model.abilities import Flow

ENTRIES = 16


@requires("its data do not lie on a simplex", blocked=False)
def on_a_simplex(flow: Flow) -> bool:
    """Positive vectors that sum to one, with few entries, of a density without a map."""
    shape = flow.density_shape
    vectors = len(shape) == 1 and 2 <= shape[0] <= ENTRIES
    return flow.density_support.kind == "simplex" and vectors and "forward" not in flow.calls


@law(
    "sampling/follows-density[simplex]",
    key="sampling/on-a-simplex",
    points="data",
    tolerance=STATISTICAL,
    local=False,
    scales=NEARBY,
    size=1,
    effort=2,
    applies=on_a_simplex & unconditional & exact_log_det & exact_density,
    source="Aitchison 1982, The statistical analysis of compositional data: additive log-ratios",
)
def on_simplex(flow: SampledDensity, batch: Batch) -> Residual:
    r"""On a simplex too, a density is normalized and samples follow it: in coordinates $y_i =
    \log(x_i / x_K)$ it is $p(x) \prod_i x_i$, and satisfies sampling/follows-density and
    sampling/follows-density[balance].

    The volume is that of all coordinates but one, as for a Dirichlet distribution; the surface
    area, which differs by the root of their number, is accepted, too.
    """
    size = flow.density_shape[0]
    seen = [outcome(overlap.measure, flow, batch, offset) for offset in (0.0, 0.5 * math.log(size))]
    known = [one for one in seen if one is not None]
    balance = outcome(detailed_balance.measure, flow, batch, 0.0)
    if not known and balance is None:
        raise Undecidable("its log-ratios are too far from normal to be compared")
    best = min(known, key=lambda one: float(one.value[0])) if known else balance
    assert best is not None
    worst = best if balance is None or best.value[0] >= balance.value[0] else balance
    return replace(worst, note=worst.note and f"of its log-ratios: {worst.note}")


def outcome(
    measure: Callable[..., Residual], flow: SampledDensity, batch: Batch, offset: float
) -> Residual | None:
    """The residual of a law for the density in the other coordinates; None if it decides nothing."""
    try:
        return measure(charted(cast(Subject, flow), offset), batch)
    except Undecidable:
        return None


def charted(subject: Subject, offset: float = 0.0) -> Subject:
    """The subject in log-ratio coordinates, which fill the space; ``offset`` is added to its
    log-density.
    """
    calls = subject.calls
    other = subject.with_call("log_prob", partial(log_prob, calls["log_prob"], offset))
    other = other.with_call("sample", partial(log_ratio_samples, calls["sample"]))
    return other.with_facts(event_shape=(subject.density_shape[0] - 1,), domain=REAL)


def log_prob(call: Callable[..., Any], offset: float, y: Array, context: Any = None) -> Array:
    """The log-density of log-ratios ``y``, ``(n,)``."""
    full = np.concatenate([y, np.zeros((len(y), 1))], 1)
    full = full - full.max(1, keepdims=True)
    log_x = full - np.log(np.exp(full).sum(1, keepdims=True))
    density = np.asarray(call(np.exp(log_x), context), dtype=np.float64).reshape(len(y))
    return np.asarray(density + log_x.sum(1) + offset)


def log_ratio_samples(
    call: Callable[..., Any], count: int, seed: int, context: Any = None
) -> Array:
    """Samples as log-ratios, ``(count, K - 1)``."""
    x = np.asarray(call(count, seed, context), dtype=np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(np.log(x[..., :-1]) - np.log(x[..., -1:]))
