"""Processes that take data to noise: rates, probabilities, moments and arrays are those of one
process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from flowref.laws.common.quotients import DOUBT, STEPS_DOWN, quotient
from flowref.model import BOUND, GIVEN, Array, Batch, Residual, Undecidable, law
from flowref.model.abilities import (
    Converting,
    Diffusing,
    Evolving,
    Jumping,
    Scheduled,
    Timed,
    Transiting,
)
from flowref.model.call import CONVERSIONS, SCHEDULE, TIME_FUNCTIONS

# Shares of time at which a process is asked, how many, and how many entries its points have.
INSIDE, TIMES, ENTRIES = (0.1, 0.9), 16, 4
# What is left to single precision, in which schedules are often kept: relative to the largest number of a row.
SINGLE = 2.0**-17
# What a derivative in time may be off, and how far drift may be from a straight line, relatively.
ROUGH, STRAIGHT = 1e-5, 1e-6
# A share of time at which nothing has happened yet, and how far data may have moved by then.
FIRST, MOVED = 1e-6, 1e-2
# Variances that are no smaller may have been clipped.
CLIPPED = 0.99
# What is found again of data and noise may be off where they are mixed.
FOUND = 1e-3


def shares(batch: Batch) -> Array:
    """Shares of time, ``(times,)``."""
    return np.random.default_rng(batch.seed).uniform(*INSIDE, TIMES)


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


@law(
    "process/rates",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    effort=1,
    size=1,
    source="Campbell et al. 2022, A continuous time framework for discrete denoising models (arXiv:2205.14987), section 2: "
    "the diagonal of a rate matrix is minus the sum of the other rates of its row",
)
def rates_sum_to_zero(flow: Jumping, batch: Batch) -> Residual:
    """Rates of jumps are not negative, and the rows of a rate matrix sum to zero (its columns, if a
    column holds the rates from one token).
    """
    found = np.asarray(flow.rates(shares(batch)), np.float64)
    return summing(found, 0.0, ~np.eye(found.shape[1], dtype=bool), batch, "off the diagonal")


@law(
    "process/transitions",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    effort=1,
    size=1,
    source="Austin et al. 2021, D3PM (arXiv:2107.03006), section 3: rows of a transition matrix are probabilities",
)
def transitions_sum_to_one(flow: Transiting, batch: Batch) -> Residual:
    """Probabilities of jumps are not negative, and the rows of a transition matrix sum to one (its columns,
    if a column holds the probabilities from one token).
    """
    found = np.asarray(flow.transitions(shares(batch)), np.float64)
    return summing(found, 1.0, np.ones(found.shape[1:], dtype=bool), batch, "of the matrix")


@law(
    "process/kolmogorov",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    effort=1,
    size=1,
    source="Campbell et al. 2022 (arXiv:2205.14987), section 2: Kolmogorov's forward equation; Austin et al. 2021, "
    "D3PM (arXiv:2107.03006), section 3: the product of the matrices of steps",
)
def transitions_evolve(flow: Evolving, batch: Batch) -> Residual:
    r"""Transition matrices change by their rates, $P_t' = P_t Q_t$, or are products of those of steps,
    $\bar Q_t = \bar Q_{t-1} Q_t$; in the other order if columns hold the probabilities from one token.
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


@law(
    "process/moments",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    effort=1,
    size=1,
    source="Sarkka and Solin 2019, Applied stochastic differential equations, section 6.1; Song et al. 2021 "
    "(arXiv:2011.13456), appendix B: moments of dx = f x dt + g dW",
)
def moments_solve_the_equation(flow: Diffusing, batch: Batch) -> Residual:
    r"""The mean m and the variance v of noised data solve the moment equations of the stochastic
    differential equation, $m' = f(m, t)$ and $v' = 2 f' v + g^2$, for a drift linear in each entry, and the
    mean begins at the data. With noise at time zero, $v' = 2 f' v - g^2$.
    """
    times, rng = shares(batch), np.random.default_rng(batch.seed + 1)
    x = rng.standard_normal((TIMES, ENTRIES))

    def moments_at(points: Array, at: Array) -> Array:
        return np.asarray(flow.moments(points, at), np.float64)

    mean, deviation, _, diffusion, end = moments_at(x, times).swapaxes(0, 1)
    slope = slope_of_drift(moments_at, times)

    def variance_at(some: Array) -> Array:
        return np.asarray((moments_at(x, some)[:, 1] ** 2).mean(1))

    # Where noise is at time zero, and data at the last, the equation is that of the way from data to noise.
    turned = bool((np.diff(variance_at(np.sort(times))) < 0).all())
    gained = -(diffusion**2) if turned else diffusion**2
    claims = {
        "mean": (moments_at(mean, times)[:, 2], lambda at: moments_at(x, at)[:, 0].mean(1)),
        "variance": (2 * slope * deviation**2 + gained, variance_at),
    }
    span = (end / times[:, None])[:, 0]  # times are shares of it
    compared = {
        name: slope_compared(measure, times, span, claim.mean(1))
        for name, (claim, measure) in claims.items()
    }
    worst, note = np.zeros(TIMES), ""
    known = np.logical_and.reduce([one.known for one in compared.values()])
    for name, one in compared.items():
        if one.off.max() > max(1.0, worst.max()):
            at = int(one.off.argmax())
            note = (
                f"the {name} changes by {one.slope[at]:.6g} a unit of time at time {end[at, 0]:.4g}, "
                f"by the equation it is {one.claim[at]:.6g}"
            )
        worst = np.maximum(worst, one.off)
    if not known.any():
        raise Undecidable("difference quotients of its moments in time do not converge")
    first = moments_at(0 * x, np.full(TIMES, FIRST))[:, 0]
    if (
        not turned
        and np.isfinite(first).all()
        and np.abs(first).max() > MOVED * max(1.0, worst.max())
    ):
        note = f"data of zero have the mean {first.flat[np.abs(first).argmax()]:.4g} at time zero"
        worst = np.maximum(worst, np.abs(first).max() / MOVED)
    return Residual(np.full(len(batch.x), worst.max()), allowed=1.0, note=note)


class Compared(NamedTuple):
    """A slope in time and what it is claimed to be, how far they are apart as a multiple of what they may be (0
    where it is not known), and where it is known; each ``(times,)``.
    """

    slope: Array
    claim: Array
    off: Array
    known: Array


def slope_compared(
    measure: Callable[[Array], Array], times: Array, span: Array, claim: Array
) -> Compared:
    """The derivative of ``measure``, a function of shares of time, in time, of which a share one is ``span``."""
    with np.errstate(all="ignore"):
        found = quotient(measure, times, np.ones(len(times)), None)
        size = 1 + span * np.abs(claim)
        allowed = DOUBT * (found.error + 2.0**-47 * size / STEPS_DOWN[-1]) + ROUGH * size
        off = np.abs(found.slope - span * claim) / allowed
    known = found.smooth & np.isfinite(off) & (DOUBT * found.error < 1e-3 * size)
    return Compared(found.slope / span, claim, np.where(known, off, 0.0), known)


def slope_of_drift(moments_at: Callable[[Array, Array], Array], times: Array) -> Array:
    """The slope of a drift in each entry, ``(times, entries)``. Raises `Undecidable` if the drift is not
    linear, or one entry depends on another.
    """
    rows = np.ones((len(times), ENTRIES))
    one = np.where(np.arange(ENTRIES) == 0, rows, 0.0)
    none, all_ones, twice, first = (
        moments_at(points, times)[:, 2] for points in (0 * rows, rows, 2 * rows, one)
    )
    slope: Array = all_ones - none
    size = 1 + np.abs(twice)
    bent = np.abs(twice - all_ones - slope) > STRAIGHT * size
    mixed = np.abs(first - none)[:, 1:] > STRAIGHT * size[:, 1:]
    if bent.any() or mixed.any():
        raise Undecidable("its drift is not linear in each entry")
    return slope


@law(
    "process/schedule",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    effort=1,
    size=1,
    source="Ho et al. 2020, Denoising diffusion probabilistic models (arXiv:2006.11239), section 2",
)
def schedule_is_one(flow: Scheduled, batch: Batch) -> Residual:
    r"""The arrays of a schedule agree: the cumulative products are $A_t = A_{t-1} (1 - \beta_t)$, and the
    stored roots, complements and previous values, and the coefficients of $q(x_{t-1} | x_t, x_0)$, are those
    of $A_t$ and $\beta_t$.
    """
    kept = dict(zip(SCHEDULE, np.asarray(flow.schedule(), np.float64), strict=True))
    worst, note = 0.0, ""
    for name, (found, expected, size) in array_pairs(kept).items():
        off = np.abs(found - expected) / np.maximum(size, 1e-300)
        off = np.where(np.isfinite(off), off, 0.0)
        if off.max() > max(worst, SINGLE):
            at = int(off.argmax())
            note = f"the {name} is {found[at]:.6g} at step {at}, by the others it is {expected[at]:.6g}"
        worst = max(worst, float(off.max()))
    return Residual(np.full(len(batch.x), worst), allowed=SINGLE, note=note)


def array_pairs(kept: dict[str, Array]) -> dict[str, tuple[Array, Array, Array]]:
    """Arrays ``(steps,)`` of a schedule, what they are by the others, and the size to which that is meant."""
    bar, alpha = kept["alpha_bar"], kept["alpha"]
    last = np.concatenate([[1.0], bar[:-1]])
    beta = np.where(np.isnan(kept["beta"]), 1 - alpha, kept["beta"])
    one = np.ones_like(bar)
    with np.errstate(all="ignore"):
        step = np.where(np.isnan(beta), 1 - bar / last, beta)
        # How much of a single number's accuracy differences from one keep.
        digits = 1 + 2.0**-5 * (1 / (1 - bar) + 1 / step)
        earlier = digits + 2.0**-5 / (1 - last)
        later = np.where(np.arange(len(bar)) > 0, 1.0, np.nan)  # before the first step all is known
        variance = step * (1 - last) / (1 - bar)
        larger = np.abs(kept["posterior variance"] - step) <= SINGLE * step * digits
        of_data, of_mixture = (
            step * np.sqrt(last) / (1 - bar),
            (1 - last) * np.sqrt(1 - step) / (1 - bar),
        )
        logs = np.log(kept["posterior variance"])
        return {
            "share of all steps so far": (
                np.where(beta < CLIPPED, bar, np.nan),
                last * (1 - beta),
                last,
            ),
            "share of one step": (alpha, 1 - beta, one),
            "share whose root is kept": (kept["root"] ** 2, bar, bar),
            "share whose deviation is kept": (kept["deviation"] ** 2, 1 - bar, one),
            "share of the steps before": (kept["before"], last, last),
            "inverse root of the share": (kept["1/root"], bar**-0.5, bar**-0.5),
            "deviation in units of the data": (
                kept["deviation/root"] ** 2,
                1 / bar - 1,
                1 / bar,
            ),
            "logarithm of the variance": (
                np.exp(kept["log complement"]),
                1 - bar,
                one,
            ),
            "inverse root of the share of one step": (kept["1/root of alpha"] ** -2, 1 - step, one),
            # Some take the variance of the step itself.
            "variance of one step back": (
                np.where(larger.all(), np.nan, kept["posterior variance"]) * later,
                variance,
                variance * earlier,
            ),
            "logarithm of the variance of one step back": (
                kept["log posterior variance"] * later,
                logs,
                1 + np.abs(logs),
            ),
            "coefficient of the data one step back": (
                kept["posterior of data"] * later,
                of_data,
                of_data * earlier,
            ),
            "coefficient of the mixture one step back": (
                kept["posterior of mixture"] * later,
                of_mixture,
                of_mixture * earlier,
            ),
        }


# Derivatives of functions of time -> of which; what they are, in words.
DERIVATIVES = {
    name: "log alpha" if name == "(log alpha)'" else name.removesuffix("'")
    for name in TIME_FUNCTIONS
    if name.endswith("'")
}
WORDS = {
    name: "the velocity" if name in ("first'", "second'") else "a derivative"
    for name in DERIVATIVES
}


@law(
    "process/schedule[functions]",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    effort=1,
    size=1,
    source="Kingma et al. 2021, Variational diffusion models (arXiv:2107.00630), section 3: the signal-to-noise ratio "
    "is alpha^2 / sigma^2; Lipman et al. 2023, Flow matching (arXiv:2210.02747), section 4: the velocity of a path "
    "is its derivative in time",
)
def time_functions_are_one(flow: Timed, batch: Batch) -> Residual:
    r"""Functions of time agree: derivatives are derivatives of the shares of data and noise, signal-to-noise
    ratios are $\alpha^2 / \sigma^2$ or $\alpha / \sigma$, mixtures have these shares, the velocity of a path is
    its derivative, and ways back find the time.
    """
    times = shares(batch)

    def at(some: Array) -> dict[str, Array]:
        found = dict(
            zip(TIME_FUNCTIONS, np.asarray(flow.time_functions(some), np.float64).T, strict=True)
        )
        with np.errstate(all="ignore"):
            return found | {
                "log alpha": np.log(found["alpha"]),
                "log sigma": np.log(found["sigma"]),
            }

    found = at(times)
    worst, note = 0.0, ""
    for name, one, expected, off in (*slopes_in_time(at, times, found), *equal_functions(found)):
        if off.max() > max(worst, 1.0):
            where = int(off.argmax())
            note = (
                f"{name} is {one[where]:.6g} at time {found['time'][where]:.4g}, by the others it is "
                f"{expected[where]:.6g}"
            )
        worst = max(worst, float(off.max()))
    return Residual(np.full(len(batch.x), worst), allowed=1.0, note=note)


Claim = tuple[str, Array, Array, Array]


def slopes_in_time(
    at: Callable[[Array], dict[str, Array]], times: Array, found: dict[str, Array]
) -> Iterator[Claim]:
    """Derivatives in time and what they are by differences, with their distance as a multiple of what it may be."""
    first, second, *slopes = (found[name] for name in ("first", "second", "first'", "second'"))
    turned = any(np.allclose(slopes, (-sign * second, sign * first)) for sign in (1, -1))
    for name, of in DERIVATIVES.items():
        if turned and name in ("first'", "second'"):
            continue  # the velocity of Salimans and Ho, in the angle
        compared = slope_compared(
            lambda some, of=of: at(some)[of], times, found["time"] / times, found[name]
        )
        yield WORDS[name], found[name], compared.slope, compared.off


def equal_functions(found: dict[str, Array]) -> Iterator[Claim]:
    """Functions that are one another, by the usage of those that some conventions define in several ways."""
    with np.errstate(all="ignore"):
        log_snr = np.log(found["snr"])
    ratio, noise = found["log alpha"] - found["log sigma"], -found["log sigma"]
    usages: dict[str, tuple[Array, tuple[Array, ...]]] = {
        "log snr of snr": (log_snr, (2 * ratio, ratio, 2 * noise, noise)),
        "log snr": (found["log snr"], (2 * ratio, ratio, 2 * noise, noise)),
        "log snr beside snr": (log_snr, (found["log snr"], 2 * found["log snr"])),
        "the share of data": (found["data"], (found["alpha"],)),
        "the share of noise": (found["noise"], (found["sigma"],)),
        "time of log snr": (found["time of log snr"], (found["time"],)),
        "time of sigma": (found["time of sigma"], (found["time"],)),
    }
    squared = found["time of squared snr"]
    by_snr = min(
        (found["time of snr"], squared), key=lambda one: _largest(_apart(one, found["time"]))
    )
    usages["time of snr"] = (by_snr, (found["time"],))
    for name, (one, expected) in usages.items():
        best = min(expected, key=lambda other, one=one: _largest(_apart(one, other)))
        off = _apart(one, best)
        yield name, one, best, np.where(np.isfinite(off), off, 0.0)


def _apart(one: Array, other: Array) -> Array:
    return np.asarray(np.abs(one - other) / (SINGLE * (1 + np.abs(other))))


def _largest(off: Array) -> float:
    """The largest of finite distances; infinite if there are none."""
    finite = off[np.isfinite(off)]
    return float(finite.max()) if len(finite) else np.inf


# What is predicted, in words.
PREDICTED = {
    "x0": "data", "noise": "noise", "v": "velocity", "score": "score", "moments": "mean and the variance",
}  # fmt: skip


@law(
    "process/conversions",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    effort=1,
    size=1,
    source="Salimans and Ho 2022, Progressive distillation (arXiv:2202.00512), section 4: predictions of data, noise and "
    "velocity are one another",
)
def predictions_are_one_another(flow: Converting, batch: Batch) -> Residual:
    r"""Given $x_t = \alpha x_0 + \sigma \epsilon$, the conversions recover the data from the noise and from
    the velocity, the noise from the data, and score and noise from each other, $s = -\epsilon / \sigma$.
    """
    rng, at = np.random.default_rng(batch.seed), np.random.default_rng(batch.seed + 1)
    # Many clip data that they find to [-1, 1].
    x, noise = rng.uniform(-0.9, 0.9, (TIMES, ENTRIES)), rng.standard_normal((TIMES, ENTRIES))
    found = np.asarray(flow.conversions(x, noise, at.uniform(0.1, 0.5, TIMES)), np.float64)
    worst, note = 0.0, ""
    for (given, wanted), one in zip(CONVERSIONS, found.swapaxes(0, 1), strict=True):
        expected = x if wanted == "x0" else noise
        off = np.where(np.isfinite(one), np.abs(one - expected), 0.0)
        if off.max() > max(worst, FOUND):
            where = np.unravel_index(off.argmax(), off.shape)
            name = f"{PREDICTED[wanted]} from the {PREDICTED[given]}"
            note = f"{name}: {one[where]:.6g} is found, where {expected[where]:.6g} was mixed in"
        worst = max(worst, float(off.max()))
    return Residual(np.full(len(batch.x), worst), allowed=FOUND, note=note)
