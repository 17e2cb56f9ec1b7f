"""Tokens that jump: matrices of rates and of probabilities, and how these evolve."""

from __future__ import annotations

import numpy as np

from flowref.laws.process.process_law import SINGLE, process_law, shares, slope_compared
from flowref.model import Array, Batch, Residual, Undecidable
from flowref.model.abilities import Evolving, Jumping, Transiting


def summing(found: Array, total: float, negative: Array, batch: Batch, what: str) -> Residual:
    """The largest error of row (or column) sums of matrices ``(times, k, k)``, and of entries that must not be
    negative (mask ``negative``), relative to the size of the matrix. Residual of shape ``(batch,)``.
    """
    size = np.abs(found).sum(2).max(1)
    sums = np.minimum(*(np.abs(found.sum(axis) - total).max(1) for axis in (2, 1)))
    below = np.maximum(-np.where(negative, found, 0.0), 0.0).max((1, 2))
    off = np.maximum(sums, below) / np.maximum(size, 1e-300)
    worst = int(off.argmax())
    note = (
        f"an entry {what} is {-below[worst]:.4g}"
        if below[worst] > sums[worst]
        else f"rows sum to {found[worst].sum(1)[np.abs(found[worst].sum(1) - total).argmax()]:.6g}, not {total:g}"
    )
    return Residual(np.full(len(batch.x), off.max()), allowed=SINGLE, note=note)


@process_law(
    "process/rates",
    source="Campbell et al. 2022, A continuous time framework for discrete denoising models (arXiv:2205.14987), section 2: "
    "the diagonal of a rate matrix is minus the sum of the other rates of its row",
)
def rates_sum_to_zero(flow: Jumping, batch: Batch) -> Residual:
    """Rates of jumps are not negative, and the rows of a rate matrix sum to zero (its columns, if a
    column holds the rates from one token).
    """
    found = np.asarray(flow.rates(shares(batch)), np.float64)
    return summing(found, 0.0, ~np.eye(found.shape[1], dtype=bool), batch, "off the diagonal")


@process_law(
    "process/transitions",
    source="Austin et al. 2021, D3PM (arXiv:2107.03006), section 3: rows of a transition matrix are probabilities",
)
def transitions_sum_to_one(flow: Transiting, batch: Batch) -> Residual:
    """Probabilities of jumps are not negative, and the rows of a transition matrix sum to one (its columns,
    if a column holds the probabilities from one token).
    """
    found = np.asarray(flow.transitions(shares(batch)), np.float64)
    return summing(found, 1.0, np.ones(found.shape[1:], dtype=bool), batch, "of the matrix")


@process_law(
    "process/kolmogorov",
    source="Campbell et al. 2022 (arXiv:2205.14987), section 2: Kolmogorov's forward equation; Austin et al. 2021, "
    "D3PM (arXiv:2107.03006), section 3: the product of the matrices of steps",
)
def transitions_evolve(flow: Evolving, batch: Batch) -> Residual:
    """Transition matrices change by their rates, $P_t' = P_t Q_t$, or are the products of those of
    steps; in the other order if columns hold the probabilities from one token.
    """
    times = shares(batch)
    found = np.asarray(flow.evolution(times), np.float64)
    after, rates, rows, columns, time = found.swapaxes(0, 1)
    if np.isfinite(rows).all():
        off = min((np.abs(after - one).max((1, 2)) for one in (rows, columns)), key=np.max)
        note = (
            f"a matrix differs by {off.max():.4g} from the product of the step's and the one before"
        )
        return Residual(np.full(len(batch.x), off.max()), allowed=SINGLE, note=note)
    left, right = np.random.default_rng(batch.seed + 1).standard_normal((2, after.shape[1]))

    def along(matrices: Array) -> Array:
        return np.asarray(matrices @ right @ left)

    def measure(some: Array) -> Array:
        return along(np.asarray(flow.evolution(some), np.float64)[:, 0])

    span = time[:, 0, 0] / times
    one = min(
        (
            slope_compared(measure, times, span, along(claim))
            for claim in (after @ rates, rates @ after)
        ),
        key=lambda one: one.off.max(),
    )
    if not one.known.any():
        raise Undecidable("difference quotients of its transition matrices in time do not converge")
    at = int(one.off.argmax())
    note = (
        f"along random vectors the matrix changes by {one.slope[at]:.6g} a unit of time at time {time[at, 0, 0]:.4g}, "
        f"by the rates it is {one.claim[at]:.6g}"
    )
    return Residual(np.full(len(batch.x), one.off.max()), allowed=1.0, note=note)
