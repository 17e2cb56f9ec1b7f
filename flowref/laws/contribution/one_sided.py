"""The direction that draws nothing undoes the one that does, and takes back what it contributed."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, rows_max
from flowref.laws.contribution.calls import contribution
from flowref.model import Array, Batch, Residual, law, requires
from flowref.model.abilities import Flow, TwoWay

# How many draws are undone at each point.
DRAWS = 4


@requires("it draws in both directions, or in neither, or does not say")
def one_sided(flow: Flow) -> bool:
    """Where both directions draw, neither undoes the other."""
    kernel = flow.facts.kernel
    return kernel is not None and bool(kernel.deterministic)


@law(
    "contribution/one-sided-inverse",
    local=False,
    effort=4,
    size=16,
    applies=one_sided,
    source="Nielsen et al., SurVAE Flows (arXiv:2007.02731): a surjection has a right inverse, "
    "f(g(z)) = z for whatever g draws; and the contribution of a pair is one number",
)
def one_sided_inverse(flow: TwoWay, batch: Batch) -> Residual:
    """What the direction that draws makes is taken back by the one that draws nothing, for every draw:
    the point that it started from comes back, and the two contributions cancel.
    """
    rows, context = len(batch.x), batch.context
    if flow.kernel.deterministic == "push":
        out, back = flow.pull, flow.push
        start = flow.push(batch.x, batch.seed, context).value
    else:
        out, back, start = flow.push, flow.pull, batch.x
        # Its data may be whole numbers, or the like: what comes back once is one of them.
        once = flow.pull(flow.push(start, batch.seed, context).value, batch.seed, context).value
        # One row of them is whole as well, where all of them need not differ.
        once = np.asarray(once, dtype=np.float64)
        if not flow.facts.declared or bool((once == np.round(once)).all()):
            start = once
    start = np.asarray(start, dtype=np.float64) + 0.0
    gaps, sizes = [], []
    good = np.ones(rows, dtype=bool)
    for seed in range(batch.seed, batch.seed + DRAWS):
        there = out(start, seed, context)
        middle = np.asarray(there.value, dtype=np.float64) + 0.0
        again = back(middle, seed, context)
        end = np.asarray(again.value, dtype=np.float64)
        good &= finite_rows(middle)
        size = 1 + rows_max(start) + rows_max(middle)
        parts = [(end - start).reshape(rows, -1)]
        if there.ladj is not None and again.ladj is not None:
            first, second = contribution(there, rows), contribution(again, rows)
            parts.append((first + second)[:, None])
            size = size + np.abs(first)
            good &= np.isfinite(first)
        gaps.append(np.concatenate(parts, 1))
        sizes.append(size)
    value: Array = np.concatenate(gaps, 1)
    return Residual(np.where(good[:, None], value, 0.0), np.max(sizes, 0), decidable=good)
