"""Statements of a distribution about itself, in any dimension: moments compared with samples, the
mode with the density, the standard deviation with the variance.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from flowref.laws.common.cases import ONE_CONTEXT
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.statistics import Finding, Look, critical, two_stage
from flowref.laws.density.consistency import unconditional, unconditional_or_bound
from flowref.laws.density.draws import atoms
from flowref.model import (
    BOUND,
    GIVEN,
    STATISTICAL,
    VOLUME,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Density, Flow, Sampler, Stating


class StatingSampler(Density, Sampler, Stating, Protocol):
    """A density with samples and stated moments."""


class StatingDensity(Density, Stating, Protocol):
    """A density with stated moments."""


# Sample sizes of the two stages, and the false-alarm rate of each; a mean of numbers, one of which
# has more than this share of the sum of squares, is not normal.
STAGES, LEVEL, SHARE = (8_192, 65_536), 1e-4, 0.04
# Samples that show where the density is.
ROWS = 64
# Step lengths from the mode towards samples, their number, and the tolerance of the log-density at
# the mode.
WAYS, TOWARDS, HIGHER = (1.0, 0.1, 0.01), 64, 1e-6
# Rounding of a standard deviation, by precision.
ROUNDING = {"float64": 1e-9, "float32": 1e-4}
# In the order of `stated_numbers`.
MOMENTS = ("mean", "variance", "entropy", "deviation", "mode", "covariance")
# Flags of a moment: wrong shape, not a number, wrong for copies in a batch; 0 is right.
MISSHAPEN, NO_NUMBER, NOT_OF_COPIES = 1, 2, 3
# Moments that are finite with light tails; the distance, in spreads, at which tails are tested, and
# the fall of the log-density that excludes an infinite variance.
FINITE, OUTSIDE, LOWER = ("mean", "variance", "deviation"), 1e3, 40.0
# The error up to which a moment counts as a circular one, and the range of angles of samples.
CIRCULAR, TURN = 0.05, 2 * math.pi


@requires("it has atoms, or parts that are no density")
def has_density(flow: Flow) -> bool:
    """The density describes the whole distribution."""
    return not flow.promises.get("atoms") and not flow.promises.get("truncated-domain")


def stated_numbers(flow: Stating) -> tuple[Array, Array]:
    """The stated moments, flat, and their flags, zero if unknown."""
    flat = np.asarray(flow.stated(), dtype=np.float64).reshape(-1)
    size = math.prod(flow.density_shape)
    plain, count = 4 * size + 1 + size * size, len(MOMENTS)
    flags = flat[plain:] if flat.size == plain + count else np.zeros(count)
    return flat[:plain], flags


def misstated(flow: StatingDensity, flags: Array, x: Array) -> str:
    """The error message for shape and finiteness of the stated moments; empty if they are right.

    ``x``: points ``(n, *event)`` where the density is.
    """
    for name, flag in zip(MOMENTS, flags, strict=True):
        if flag == MISSHAPEN:
            one = "one number" if name == "entropy" else f"the shape {flow.density_shape}"
            return f"the {name} is not returned as {one}"
        if flag == NOT_OF_COPIES:
            return f"two copies in a batch do not return the {name} of each"
        if flag == NO_NUMBER and name in FINITE and light_tails(flow, x):
            return f"the {name} is returned as nan, and the tails are so light that it is finite"
    return ""


def light_tails(flow: Density, x: Array) -> bool:
    """Whether the density decays along every axis faster than any power that makes a variance
    infinite.
    """
    shape, flat = flow.density_shape, x.reshape(len(x), -1)
    middle, spread = np.median(flat, axis=0), np.maximum(np.ptp(flat, axis=0), 1e-6)
    steps = OUTSIDE * np.diag(spread)
    points = np.concatenate([middle[None], middle + steps, middle - steps])
    values, error = attempt(flow.log_prob, points.reshape(-1, *shape), None)
    if error:
        return False
    log_p = np.asarray(values, np.float64).reshape(len(points))
    return bool(np.isfinite(log_p[0]) and (log_p[1:] < log_p[0] - LOWER).all())


class StatedMoments(NamedTuple):
    """The stated moments of a distribution, nan if missing; ``covariance``: ``(size, size)``."""

    mean: Array
    variance: Array
    entropy: float
    deviation: Array
    mode: Array
    covariance: Array


def read_stated_moments(flow: Stating) -> StatedMoments:
    """The stated moments. Raises `Unsupported` if none has a known form."""
    size = math.prod(flow.density_shape)
    flat, _ = stated_numbers(flow)
    if flat.size != 4 * size + 1 + size * size:
        raise Unsupported("it states its mean and its variance alone", blocked=False)
    mean, variance, entropy, deviation, mode, covariance = np.split(
        flat, np.cumsum([size, size, 1, size, size])
    )
    return StatedMoments(
        mean, variance, float(entropy[0]), deviation, mode, covariance.reshape(size, size)
    )


@requires("it is a distribution of numbers, which another law checks")
def of_vectors(flow: Flow) -> bool:
    """Vector distributions, or scalar ones with atoms."""
    return math.prod(flow.density_shape) > 1 or len(atoms(flow, 0)) > 0


@law(
    "density/stated[deviation]",
    key="density/stated-deviation",
    about=VOLUME,
    points="data",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    size=1,
    effort=1,
    applies=unconditional,
    source="torch.distributions: stddev is the root of the variance; the diagonal of the covariance is the variance",
)
def stated_deviation(flow: StatingDensity, batch: Batch) -> Residual:
    """The stated standard deviation is the root of the variance, and the diagonal of the stated
    covariance is the variance.
    """
    stated = read_stated_moments(flow)
    pairs = {
        "deviation": (stated.deviation, np.sqrt(stated.variance)),
        "diagonal of the covariance": (np.diag(stated.covariance), stated.variance),
    }
    gaps, note = [0.0], ""
    for name, (one, other) in pairs.items():
        known = np.isfinite(one) & np.isfinite(other)
        gap = np.abs(one - other)[known] / (1e-300 + np.abs(other[known]))
        if gap.size and gap.max() > max(gaps):
            index = int(gap.argmax())
            note = f"the {name} is stated as {one[known][index]:.6g}, by the variance it is {other[known][index]:.6g}"
        gaps.append(float(gap.max(initial=0.0)))
    if not any(np.isfinite(one).any() for one, _ in pairs.values()):
        raise Unsupported("it states no deviation", blocked=False)
    return Residual(np.array([max(gaps)]), allowed=ROUNDING[flow.dtype], note=note)


@law(
    "density/stated[mode]",
    key="density/stated-mode",
    about=VOLUME,
    points="data",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    size=48,
    effort=1,
    applies=unconditional & has_density,
    source="torch.distributions: the mode is where the density is largest",
)
def stated_mode(flow: StatingDensity, batch: Batch) -> Residual:
    """The density has its maximum at the stated mode: it is no larger at any sample, or on the way
    there.
    """
    mode = read_stated_moments(flow).mode
    if not np.isfinite(mode).all():
        raise Unsupported("it states no mode", blocked=False)
    shape = flow.density_shape
    summit, refused = attempt(flow.log_prob, mode.reshape(1, *shape), None)
    top = -np.inf if refused else float(np.asarray(summit, np.float64).reshape(1)[0])
    if refused or not np.isfinite(top):
        raise Undecidable("its density has no finite value at the mode that it states")
    others = batch.x.reshape(len(batch.x), -1)
    if "sample" in flow.calls:
        drawn, _ = attempt(flow.calls["sample"], TOWARDS, batch.seed, None)
        if drawn is not None and np.size(drawn) == TOWARDS * mode.size:
            others = np.concatenate([others, np.asarray(drawn, np.float64).reshape(TOWARDS, -1)])
    highest, where = -np.inf, mode
    for share in WAYS:
        points = mode + share * (others - mode)
        values, _ = attempt(flow.log_prob, points.reshape(-1, *shape), None)
        if values is None:
            continue
        log_p = np.asarray(values, np.float64).reshape(len(points))
        log_p = np.where(np.isfinite(log_p), log_p, -np.inf)
        if log_p.max() > highest:
            highest, where = float(log_p.max()), points[int(log_p.argmax())]
    if highest == -np.inf:
        raise Undecidable("its density has no finite value at any point")
    higher = max(highest - top, 0.0)
    numbers = ", ".join(f"{number:.4g}" for number in where[:4])
    return Residual(
        np.full(len(batch.x), higher),
        allowed=HIGHER * (1 + abs(top)),
        note=f"log p is {top:.6g} at the mode that it states, and {highest:.6g} at ({numbers})",
    )


def of_angles(name: str, claim: float, x: Array) -> bool:
    """Whether a stated moment is that of angles: the mean direction, or one minus the length of
    the mean of (cos x, sin x).
    """
    if np.ptp(x) > TURN or np.abs(x).max() > TURN:
        return False
    cosine, sine = float(np.cos(x).mean()), float(np.sin(x).mean())
    if name == "variance":
        return abs(claim - (1 - math.hypot(cosine, sine))) < CIRCULAR
    off = claim - math.atan2(sine, cosine)
    return abs(off - TURN * round(off / TURN)) < CIRCULAR


@law(
    "density/stated[sample-moments]",
    key="sampling/stated-moments",
    points="data",
    tolerance=STATISTICAL,
    local=False,
    scales=GIVEN,
    size=1,
    effort=1,
    applies=of_vectors & unconditional_or_bound & has_density,
    cases=(ONE_CONTEXT,),
    source="mean, variance, covariance and entropy are expectations, which means of samples estimate",
)
def sampled_moments(flow: StatingSampler, batch: Batch) -> Residual:
    r"""The stated mean, variance, covariance and entropy are those of the samples: $E[x]$, $E[(x -
    \mu)^2]$, $-E[\log p(x)]$. They have the shape of an event, are right for each copy in a batch,
    and finite if tails are light.

    Two stages at level 1e-4 each; violated only if fresh and more samples confirm the first. Means
    dominated by a few samples, as with heavy tails, are skipped.
    """
    stated = read_stated_moments(flow)
    if note := misstated(flow, stated_numbers(flow)[1], flow.sample(ROWS, batch.seed, None)):
        return Residual(np.array([np.inf]), allowed=1.0, note=note)
    if not any(np.isfinite(one).any() for one in (stated.mean, stated.variance, stated.entropy)):
        raise Unsupported("it states no moment", blocked=False)
    return two_stage(lambda look: furthest(flow, stated, look), STAGES, batch.seed).residual()


def furthest(flow: StatingSampler, stated: StatedMoments, look: Look) -> Finding:
    """The largest standardized gap between stated moments and means of samples, relative to its
    bound; and the smallest detectable gap in standard deviations.
    """
    count = look.count
    drawn = np.asarray(flow.sample(count, look.seed, None), np.float64)
    if drawn.shape != (count, *flow.density_shape):
        raise Unsupported(f"sample({count}) returned shape {drawn.shape}")
    if not np.isfinite(drawn).all():
        raise Undecidable("samples are not finite")
    x = drawn.reshape(count, -1)
    center = np.where(np.isfinite(stated.mean), stated.mean, x.mean(0))
    away = x - center
    statements: dict[str, tuple[Array, Array]] = {
        "mean": (x, stated.mean),
        "variance": (away**2, stated.variance),
    }
    if np.isfinite(stated.covariance).all():
        row, column = np.triu_indices(x.shape[1], 1)
        statements["covariance"] = (away[:, row] * away[:, column], stated.covariance[row, column])
    if np.isfinite(stated.entropy):
        log_p = np.asarray(flow.log_prob(drawn, None), np.float64).reshape(count, 1)
        if np.isfinite(log_p).all():
            statements["entropy"] = (-log_p, np.array([stated.entropy]))
    scores = []
    for name, (values, claims) in statements.items():
        for index, claim in enumerate(claims):
            one = values[:, index]
            if not np.isfinite(claim):
                continue
            if name in ("mean", "variance") and of_angles(name, claim, x[:, index]):
                continue
            middle, spread = float(one.mean()), float(one.std())
            moved = (one - middle) ** 2
            if not np.isfinite(moved).all():
                continue
            if spread <= 1e-9 * (1 + abs(middle)) or moved.max() > SHARE * moved.sum():
                continue  # constant, or dominated by a few samples
            score = abs(middle - claim) / spread * math.sqrt(count)
            entry = f"entry {index} of the {name}" if len(claims) > 1 else f"the {name}"
            scores.append(
                (
                    score,
                    f"{entry} is stated as {claim:.5g}, that of {count} samples is {middle:.5g}",
                )
            )
    if not scores:
        raise Undecidable("it states no moment that its samples determine")
    limit = critical(len(scores), LEVEL)
    score, note = max(scores)
    seen = {"smallest bias it could have seen": limit / math.sqrt(count)}
    return Finding(score / limit, seen, note)
