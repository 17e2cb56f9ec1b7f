"""The rows of one sample know nothing of each other, and differ."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.amounts import affordable_row_count, sparing, stepwise
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.statistics import Finding, Look, two_stage
from flowref.laws.density.balance import sampled
from flowref.laws.density.base import demand_unmoved_base, normal_base, normalizing_calls
from flowref.laws.density.draws import ALONE, SampledDensity, density_samples, first_sample_count
from flowref.model import BOUND, GIVEN, Array, Batch, Residual, Undecidable, law
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
# How many rows of a call are compared with each other, and which share of them may repeat another.
COMPARED, SHARE = 512, 0.05


@law(
    "random/rows-independent",
    key="sampling/rows-independent",
    points="data",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    size=1,
    effort=2,
    applies=sampled,
    source="independent draws: averages over n of them are off by their deviation over the root of n",
)
def samples_independent(flow: SampledDensity, batch: Batch) -> Residual:
    """The samples of one call are independent of each other: none is another one mirrored, nor shares noise with
    those of other contexts.

    Ranks of two halves, of both ends and of neighbors are correlated, and so are their distances
    from the middle. Rows that each follow the one before, as in a Markov chain, are left out, and
    so is their order. Of large events that are dear to sample four are drawn, and all entries of
    their latents are looked at together, if the base is standard normal.
    """
    large = math.prod(flow.density_shape) >= LARGE
    if large and stepwise(flow, "sample") and offers(flow, MappedSamples):
        return of_four(flow, batch)
    count = 4 * (min(ROWS, first_sample_count(flow)) // 4)

    def rows(look: Look) -> Finding:
        scores = scored(density_samples(flow, look.count, look.seed, alike=True).flat[:, :ENTRIES])
        found = {name: strongest(*pair) for name, pair in pairings(scores).items()}
        if abs(found.pop("between pairs")) > CHAINED * abs(found["within pairs"]):
            found.pop("within pairs")
        pairing = max(found, key=lambda name: abs(found[name]))
        return correlated(
            found[pairing], LEAST, len(scores) / 4, f"rows are correlated {pairing}, by"
        )

    return two_stage(rows, (count, count), batch.seed, apart=1).residual()


def correlated(correlation: float, least: float, terms: float, words: str) -> Finding:
    """What a correlation of so many terms tells, of which so much is allowed."""
    return Finding(
        abs(correlation) / max(least, ERRORS / math.sqrt(terms)),
        {"strongest correlation of rows": correlation},
        f"{words} {correlation:.2f}",
    )


def of_four(flow: MappedSamples, batch: Batch) -> Residual:
    """The same of four rows: two differences of their latents have nothing in common, however the
    four are paired.

    Those of a Markov chain are correlated by less than is allowed; latents of rows that mirror or
    repeat each other by one.
    """
    normal_base.demand(flow)
    demand_unmoved_base(flow)

    def rows(look: Look) -> Finding:
        x = density_samples(flow, look.count, look.seed).flat.reshape(
            look.count, *flow.density_shape
        )
        found = []
        for which in normalizing_calls(flow):  # either, where user code does not say which it is
            out, error = attempt(flow.calls[which], x, None)
            z = np.asarray(x if out is None else out.value, dtype=np.float64).reshape(len(x), -1)
            if error or not np.isfinite(z).all():
                raise Undecidable(f"{which} refuses samples ({error or 'latents are not finite'})")
            ways = [(z[a] - z[b], z[c] - z[d]) for a, b, c, d in PAIRED]
            found.append(max((strongest(one[:, None], two[:, None]) for one, two in ways), key=abs))
        words = "latents of four rows are correlated by"
        return correlated(min(found, key=abs), OF_FOUR, z.shape[1], words)

    return two_stage(rows, (4, 4), batch.seed, apart=1).residual()


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


@law(
    "random/rows-independent[duplicates]",
    key="sampling/rows-differ",
    points="data",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    size=1,
    effort=2,
    applies=sampled,
    version=2,
    source="independent draws from a density: two of them are equal with probability zero",
)
def rows_differ(flow: SampledDensity, batch: Batch) -> Residual:
    """The samples of one call differ from each other: noise is drawn for each of them.

    Values that two calls share are those of a discrete distribution, of which nothing is said, nor
    of rows that stay as they were for a while, as those of a Markov chain do.
    """
    count = affordable_row_count(flow, COMPARED, ALONE, "sample")
    first = density_samples(flow, count, batch.seed, alike=True).flat
    if not sparing(flow, call="sample") or len(np.unique(first, axis=0)) < len(
        first
    ):  # else there is nothing to excuse
        second = density_samples(flow, count, batch.seed + 1, alike=True).flat
        if np.isin(first, second).mean() > SHARE:
            raise Undecidable("two calls give the same values, as discrete distributions do")
    runs = np.flatnonzero(np.append(True, (np.diff(first, axis=0) != 0).any(1)))
    lengths = np.diff(np.append(runs, len(first)))
    if lengths.min() < lengths[:-1].max(initial=1):  # a chain, which stays where it is for a while
        first = first[runs]
    repeated = 1 - len(np.unique(first, axis=0)) / len(first)
    return Residual(
        np.array([repeated]),
        allowed=SHARE,
        observed={"share of samples that repeat another": np.array([repeated])},
    )
