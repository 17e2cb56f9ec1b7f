"""Random numbers of stochastic layers: as declared, determined by the seed, and undone by the
deterministic direction.
"""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, rows_max
from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.contribution.calls import contribution, measurable
from flowref.model import EXACT, NEARBY, Array, Batch, Mapped, Residual, Undecidable, law, requires
from flowref.model.abilities import Flow, Pushing, TwoWay, offers

# Number of seeds, and of draws per point that are undone.
SEEDS, DRAWS = 4, 4


@requires("it does not declare whether it draws")
def says(flow: Flow) -> bool:
    """Without a declaration there is nothing to check."""
    kernel = flow.facts.kernel
    return kernel is not None and None not in kernel.draws


@law(
    "random/seeded[no-draws]",
    key="contribution/draws-as-told",
    tolerance=EXACT,
    local=False,
    scales=NEARBY,
    effort=2,
    size=7,
    applies=says,
    version=3,
    source="Nielsen et al., SurVAE Flows (arXiv:2007.02731): a layer is deterministic in a direction or "
    "it is not, and the likelihood is exact or a bound accordingly",
)
def directions_as_declared(flow: Pushing, batch: Batch) -> Residual:
    """A layer that declares a direction deterministic returns the same value and contribution
    under every seed; a stochastic one returns the same under the same seed, depends on it, and
    appends entries that vary with it, since constant entries have no density.

    Rows that are not finite are skipped, and an inverse may reject them.
    """
    batch, usable = measurable(flow, batch)
    reached = dict(zip(("push", "pull"), flow.kernel.reached, strict=True))
    declared = dict(zip(("push", "pull"), flow.kernel.draws, strict=True))
    rows, wrong = len(batch.x), []
    first = flow.push(batch.x, batch.seed, batch.context)
    inputs = {"push": batch.x, "pull": np.asarray(first.value) + 0.0}
    for name, x in inputs.items():
        if name == "pull" and not offers(flow, TwoWay):
            continue
        seen = []
        for seed in (batch.seed, batch.seed, *(batch.seed + 1 + k for k in range(SEEDS))):
            out, refused = attempt(flow.calls[name], x, seed, batch.context)
            if refused:
                raise Undecidable(f"{name} raises {refused}")
            seen.append(out)
        if not equal(seen[0], seen[1]):
            wrong.append(f"{_way(name)} differs between two calls with the same random seed")
        elif not declared[name] and not all(equal(seen[0], other) for other in seen[2:]):
            wrong.append(
                f"{_way(name)} is declared deterministic, and differs with the random seed"
            )
        elif declared[name] and not reached[name]:
            wrong.append(
                f"{_way(name)} is declared to draw, and nothing that it returns depends on the random state "
                "that it is given"
            )
        elif name == "push" and adds(flow) and not wanders(seen):
            wrong.append(
                "forward is declared to draw, and what it adds to the data is the same under every random seed, "
                "which has no density"
            )
    return flags(bool(wrong), rows, "; ".join(wrong), decidable=usable)


def adds(flow: Pushing) -> bool:
    """Whether it declares that it only appends entries to its data; False for integers and
    simplices, for which nothing need be drawn.
    """
    codomain = flow.codomain
    larger = math.prod(flow.latent_shape) > math.prod(flow.event_shape)
    spread_out = codomain is None or codomain.kind == "real"
    return larger and spread_out and flow.kernel.draws == (True, False)


def wanders(seen: list[Mapped]) -> bool:
    """Whether latents differ between several calls."""
    values = [np.asarray(one.value) for one in seen]
    return any(not np.array_equal(values[0], other, equal_nan=True) for other in values)


def equal(one: Mapped, other: Mapped) -> bool:
    """Whether two calls returned bitwise equal results."""
    same = np.array_equal(np.asarray(one.value), np.asarray(other.value), equal_nan=True)
    if one.ladj is None or other.ladj is None:
        return same and one.ladj is other.ladj
    return same and np.array_equal(np.asarray(one.ladj), np.asarray(other.ladj), equal_nan=True)


def _way(name: str) -> str:
    return "forward" if name == "push" else "inverse"


@requires("it draws in both directions, or in neither, or does not declare it")
def one_sided(flow: Flow) -> bool:
    """Exactly one direction draws, so the other one undoes it."""
    kernel = flow.facts.kernel
    return kernel is not None and bool(kernel.deterministic)


@law(
    "map/inverse[draws]",
    key="contribution/one-sided-inverse",
    local=False,
    effort=4,
    size=16,
    applies=one_sided,
    source="Nielsen et al., SurVAE Flows (arXiv:2007.02731): a surjection has a right inverse, "
    "f(g(z)) = z for whatever g draws; and the contribution of a pair is one number",
)
def one_sided_inverse(flow: TwoWay, batch: Batch) -> Residual:
    """The deterministic direction undoes the stochastic one for every draw: the original point is
    recovered, and the two contributions cancel.
    """
    rows, context = len(batch.x), batch.context
    if flow.kernel.deterministic == "push":
        out, back = flow.pull, flow.push
        start = flow.push(batch.x, batch.seed, context).value
    else:
        out, back, start = flow.push, flow.pull, batch.x
        # Data may be integers, or similar: the result of one round trip is valid.
        once = flow.pull(flow.push(start, batch.seed, context).value, batch.seed, context).value
        # Its first row as well, if rows need not differ.
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
