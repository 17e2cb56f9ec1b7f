"""The rows of one sample know nothing of each other."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.density.balance import sampled
from flowref.laws.density.base import demand_unmoved_base, normal_base, normalizing_calls
from flowref.laws.density.consistency import unconditional
from flowref.laws.density.draws import SampledDensity, drawn, number
from flowref.model import BOUND, Array, Batch, Residual, Undecidable, law
from flowref.model.abilities import Bijection, offers


class MappedSamples(SampledDensity, Bijection, Protocol):
    """A density that is sampled, with a map between samples and latents."""


# How many rows are drawn at most, and how many of their entries are looked at.
ROWS, ENTRIES = 2000, 16
# A correlation counts from here, in standard errors and by itself; beside pairs of neighbors that are
# correlated by so much of it, rows follow each other as those of a Markov chain do.
ERRORS, LEAST, CHAINED = 8.0, 0.2, 0.5
# Events of so many entries tell rows apart by themselves; how four rows are paired, and by how much the
# differences of pairs may be correlated: those of any Markov chain are by less than 0.58.
LARGE, PAIRED, OF_FOUR = 256, ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2)), 0.6
# Entries that are so often alike are those of a discrete distribution.
DISTINCT = 0.9


@law(
    "sampling/rows-independent",
    points="data",
    tolerance=BOUND,
    local=False,
    scales=(0.0,),
    size=1,
    effort=2,
    applies=sampled & unconditional,
    source="independent draws: averages over n of them are off by their deviation over the root of n",
)
def rows_independent(flow: SampledDensity, batch: Batch) -> Residual:
    """The samples of one call are independent of each other: none is another one mirrored.

    Ranks of two halves, of both ends and of neighbors are correlated, and so are their distances
    from the middle. Rows that each follow the one before, as in a Markov chain, are left out, and
    so is their order. Of large events that are dear to sample four are drawn, and all entries of
    their latents are looked at together, if the base is standard normal.
    """
    large = math.prod(flow.density_shape) >= LARGE
    if large and flow.facts.cost.of("sample").repeats and offers(flow, MappedSamples):
        return of_four(flow, batch)
    worst, pairing, correlation = 0.0, "", 0.0
    for call in range(2):
        count = 4 * (min(ROWS, number(flow)) // 4)
        scores = scored(drawn(flow, count, batch.seed + call).flat[:, :ENTRIES])
        found = {name: strongest(*pair) for name, pair in pairings(scores).items()}
        if abs(found.pop("between pairs")) > CHAINED * abs(found["within pairs"]):
            found.pop("within pairs")
        pairing = max(found, key=lambda name: abs(found[name]))
        correlation = found[pairing]
        worst = abs(correlation) / max(LEAST, ERRORS / np.sqrt(len(scores) / 4))
        if worst <= 1:
            break
    note = f"rows are correlated {pairing}, by {correlation:.2f}" if worst > 1 else ""
    observed = {"strongest correlation of rows": np.array([correlation])}
    return Residual(np.array([worst]), allowed=1.0, observed=observed, note=note)


def of_four(flow: MappedSamples, batch: Batch) -> Residual:
    """The same of four rows: two differences of their latents have nothing in common, however the
    four are paired.

    Those of a Markov chain are correlated by less than is allowed; latents of rows that mirror or
    repeat each other by one.
    """
    normal_base.demand(flow)
    demand_unmoved_base(flow)
    worst, correlation = 0.0, 0.0
    for call in range(2):
        x = drawn(flow, 4, batch.seed + call).flat.reshape(4, *flow.density_shape)
        found = []
        for which in normalizing_calls(flow):  # either, where user code does not say which it is
            out, error = attempt(flow.calls[which], x, None)
            z = np.asarray(x if out is None else out.value, dtype=np.float64).reshape(4, -1)
            if error or not np.isfinite(z).all():
                raise Undecidable(f"{which} refuses samples ({error or 'latents are not finite'})")
            ways = [(z[a] - z[b], z[c] - z[d]) for a, b, c, d in PAIRED]
            found.append(max((strongest(one[:, None], two[:, None]) for one, two in ways), key=abs))
        correlation = min(found, key=abs)
        worst = abs(correlation) / max(OF_FOUR, ERRORS / math.sqrt(z.shape[1]))
        if worst <= 1:
            break
    note = f"latents of four rows are correlated by {correlation:.2f}" if worst > 1 else ""
    observed = {"strongest correlation of rows": np.array([correlation])}
    return Residual(np.array([worst]), allowed=1.0, observed=observed, note=note)


def scored(flat: Array) -> Array:
    """Ranks of each entry, from -1 to 1, and their distances from the middle, as columns of mean 0.

    Raises: `Undecidable` where values repeat, as those of discrete distributions do.
    """
    count = len(flat)
    if not np.isfinite(flat).all():
        raise Undecidable("its samples are not finite")
    if min(len(np.unique(column)) for column in flat.T) < DISTINCT * count:
        raise Undecidable("its samples repeat values, as those of discrete distributions do")
    ranks = flat.argsort(0).argsort(0) * (2.0 / (count - 1)) - 1.0
    both = np.concatenate([ranks, np.abs(ranks)], 1)
    return np.asarray(both - both.mean(0))


def pairings(scores: Array) -> dict[str, tuple[Array, Array]]:
    """Rows and the others that they may depend on, by what they are to each other. Far from each
    other they are compared by their steps: mixtures are drawn component by component, in order.
    """
    steps = scores[::2] - scores[1::2]
    half = len(steps) // 2
    return {
        "between the two halves": (steps[:half], steps[-half:]),
        "between both ends": (steps[:half], -steps[-half:][::-1]),
        "within pairs": (scores[::2], scores[1::2]),
        "between pairs": (scores[1:-1:2], scores[2::2]),
    }


def strongest(some: Array, others: Array) -> float:
    """The strongest correlation of a column with itself in other rows."""
    products = (some * others).sum(0)
    sizes = np.sqrt((some**2).sum(0) * (others**2).sum(0))
    correlations = products / np.maximum(sizes, np.finfo(float).tiny)
    return float(correlations[np.abs(correlations).argmax()])
