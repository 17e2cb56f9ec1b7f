"""The rows of one sample are independent and distinct."""

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
    """A sampled density with a map between samples and latents."""


# The largest number of rows, and of entries that are examined.
ROWS, ENTRIES = 2000, 16
# A correlation counts above these standard errors and this size; if neighbours have this share of
# it, rows form a Markov chain.
ERRORS, LEAST, CHAINED = 8.0, 0.2, 0.5
# Events with this many entries decide by themselves; the pairings of four rows, and the largest
# correlation of their differences: in any Markov chain it is below 0.58.
LARGE, PAIRED, OF_FOUR = 256, ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2)), 0.6
# With a smaller share of distinct values the distribution is discrete.
DISTINCT = 0.9
# Rows of a call that are compared, and the share of them that may repeat another.
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
    """The samples of one call are independent: none is the mirror image of another, or shares
    noise across contexts.

    Ranks, and distances from the middle, are correlated between the two halves, between both ends
    and between neighbours. Markov chains, in which each row follows the one before, are exempt.
    For large events with an expensive sampler four rows are drawn, and all entries of their
    latents are pooled if the base is standard normal.
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
    """The finding for a correlation of ``terms`` terms, of which ``least`` is allowed."""
    return Finding(
        abs(correlation) / max(least, ERRORS / math.sqrt(terms)),
        {"strongest correlation of rows": correlation},
        f"{words} {correlation:.2f}",
    )


def of_four(flow: MappedSamples, batch: Batch) -> Residual:
    """The same for four rows: two differences of their latents are uncorrelated, however the four
    are paired.

    In a Markov chain their correlation is below the allowed one; for mirrored or repeated latents
    it is one.
    """
    normal_base.demand(flow)
    demand_unmoved_base(flow)

    def rows(look: Look) -> Finding:
        x = density_samples(flow, look.count, look.seed).flat.reshape(
            look.count, *flow.density_shape
        )
        found = []
        for which in normalizing_calls(flow):  # both, if user code does not declare it
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
    """Ranks of each entry in (-1, 1), and their distances from the middle, as centered columns
    ``(n, 2 * entries)``.

    Raises `Undecidable` if values repeat, as in discrete distributions.
    """
    count = len(flat)
    if not np.isfinite(flat).all():
        raise Undecidable("its samples are not finite")
    if min(len(np.unique(column)) for column in flat.T) < DISTINCT * count:
        raise Undecidable("its samples repeat values, as in discrete distributions")
    ranks = flat.argsort(0).argsort(0) * (2.0 / (count - 1)) - 1.0
    both = np.concatenate([ranks, np.abs(ranks)], 1)
    return np.asarray(both - both.mean(0))


def pairings(scores: Array) -> dict[str, tuple[Array, Array]]:
    """Pairs of arrays ``(k, columns)`` of possibly dependent rows, by name. Distant rows are
    compared by their increments, since mixtures may be drawn component by component.
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
    """The largest correlation of a column with itself in other rows."""
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
    """The samples of one call are distinct: noise is drawn for each of them.

    Discrete distributions, recognized by values that two calls share, and Markov chains, which may
    stay in place, are exempt.
    """
    count = affordable_row_count(flow, COMPARED, ALONE, "sample")
    first = density_samples(flow, count, batch.seed, alike=True).flat
    if not sparing(flow, call="sample") or len(np.unique(first, axis=0)) < len(
        first
    ):  # otherwise there is nothing to exempt
        second = density_samples(flow, count, batch.seed + 1, alike=True).flat
        if np.isin(first, second).mean() > SHARE:
            raise Undecidable("two calls give the same values, as discrete distributions do")
    runs = np.flatnonzero(np.append(True, (np.diff(first, axis=0) != 0).any(1)))
    lengths = np.diff(np.append(runs, len(first)))
    if lengths.min() < lengths[:-1].max(
        initial=1
    ):  # a Markov chain, which stays in place for a while
        first = first[runs]
    repeated = 1 - len(np.unique(first, axis=0)) / len(first)
    return Residual(
        np.array([repeated]),
        allowed=SHARE,
        observed={"share of samples that repeat another": np.array([repeated])},
    )
