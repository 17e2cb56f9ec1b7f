"""Forward and backward draws have one joint distribution around single pairs of data and latents."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import numpy as np

from flowref.laws.common.statistics import (
    ERRORS,
    Finding,
    Guard,
    Look,
    Mean,
    center_and_spread,
    two_stage,
)
from flowref.laws.contribution.calls import Given, data_of, stochastic_forward
from flowref.laws.contribution.integral import few_weighted_entries
from flowref.laws.contribution.places import is_integer_valued
from flowref.laws.contribution.sets import Leaning, drawn_on, leaning, whole_entries
from flowref.laws.contribution.weights import MOST, filled
from flowref.model import NEARBY, STATISTICAL, Array, Batch, Residual, Support, Undecidable, law
from flowref.model.abilities import TwoWay

# Points of the two stages per pair, number of pairs, points that determine widths, and points that
# determine the covariance of latents.
STAGES, PAIRS, FEW, SOME = (16_000, 80_000), 8, 400, 4000
# From this share of the allowed difference on, the second stage decides.
CONSPICUOUS = 0.5
# Number of calls: random numbers shared by all rows of a call, as a number of terms, vary between
# calls only.
CALLS = 16
# The allowed share of a mean, the required relative accuracy, and the share of draws below which a
# bump is ignored.
SHARE, KNOWN, RARE = 0.03, 0.1, 1e-6
# The width of a bump relative to the spread of the latents.
WIDTH = 0.5
# The least spread relative to the size of the values.
LEAST = 1e-6


class Bump(NamedTuple):
    """A pair with standard deviations of normal bumps around it (None for integer data, 0 for
    integer latents), or with a covariance of the latents.
    """

    x: Array
    z: Array
    wide_x: Array | None
    wide_z: Array
    lean: Leaning | None = None

    def latents(self, inside: Support, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Latents ``(count, *latent)`` drawn from the bump, and which lie in the support,
        ``(count,)``; the others are replaced by that of the pair.
        """
        if self.lean is None:
            return _near(inside, self.z, self.wide_z, count, rng)
        drawn = self.lean.draw(count, rng).reshape(count, *self.z.shape)
        return _replace_outside_support(inside, drawn, self.z)

    def log_prob(self, z: Array) -> Array:
        """The log of the bump at latents, ``(n,)``."""
        if self.lean is None:
            return _log_normal(z, self.z, self.wide_z)
        return self.lean.log_prob(z.reshape(len(z), -1))


@law(
    "kernel/follows-contribution[near-pairs]",
    key="contribution/near-pairs",
    tolerance=STATISTICAL,
    local=False,
    scales=NEARBY,
    effort=2,
    size=1,
    applies=few_weighted_entries,
    version=4,
    source="V = log p(x | z) - log q(z | x) (Nielsen et al., arXiv:2007.02731): q(z | x) e^V is p(x | z), at "
    "each pair, so that a bump around one has one mass",
)
def near_pairs(flow: TwoWay, batch: Batch) -> Residual:
    r"""Around each pair of data and latents, weighted forward draws match inverse draws: $E_{x
    \sim r, forward}[e^V q(z)\,h(x) / r(x)] = E_{z \sim q, inverse}[h(x)]$ for q, r and h
    concentrated there.

    Pairs for which few points dominate are skipped, unless cut weights already exceed the bound.
    Two stages; violated only if a larger one with fresh draws confirms.
    """
    flow = cast(TwoWay, Given(flow, batch))
    inside = filled(flow, batch.seed)
    bumps = pair_bumps(flow, inside, batch.seed)

    def worst(look: Look) -> Finding:
        nonlocal bumps
        each = [
            (found, bump)
            for index, bump in enumerate(bumps)
            if (found := masses(flow, inside, bump, look.count, look.seed + 20 * index)) is not None
        ]
        if not each:
            raise Undecidable("no pair of data and latents has many draws around it")
        found, chosen = max(each, key=lambda one: float(one[0].excess))
        bumps = [chosen]  # the only one that is measured again
        return found

    return two_stage(worst, STAGES, batch.seed + 1000, CONSPICUOUS).residual()


def pair_bumps(flow: TwoWay, inside: Support, seed: int) -> list[Bump]:
    """Pairs drawn by the inverse and again by forward, with widths from the spread there."""
    latents = drawn_on(inside, flow.latent_shape, np.random.default_rng(seed), FEW)
    data = data_of(flow, latents, seed + 1)
    again, v = stochastic_forward(flow, data, seed + 2, "what the inverse gives")
    discrete = is_integer_valued(data)
    wide, counted = WIDTH * center_and_spread(latents)[1], whole_entries(inside, flow.latent_shape)
    # Half of the pairs are those with the most unusual contributions, but for the last: there a
    # wrong factor has its largest effect.
    unusual = np.argsort(np.abs(v - np.median(v)), kind="stable")[-FEW // 20 :: -1]
    half = PAIRS // 2
    bumps = []
    for index in [*range(half), *unusual[:half]]:
        x, z = data[index], again[index]
        if not np.isfinite(z).all():
            continue
        _, own = center_and_spread(flow.push(_repeated(x, FEW), seed + 3, None).value)
        narrow = np.where(own > LEAST * (1 + np.abs(z)), np.minimum(own, wide), wide)
        narrow = np.where(counted, 0.0, narrow)
        moved = _near(inside, z, narrow, FEW, np.random.default_rng(seed + 4))[0]
        _, over = center_and_spread(data_of(flow, moved, seed + 5))
        if not (counted | (narrow > 0)).all() or not (
            discrete or (over > LEAST * (1 + np.abs(x))).all()
        ):
            continue
        bumps.append(Bump(x, z, None if discrete else over, narrow))
    if discrete and not counted.any():
        bumps += leaning_bumps(flow, data[: half * half], seed + 6)
    if not bumps:
        raise Undecidable("its draws do not spread in every coordinate")
    return bumps


def leaning_bumps(flow: TwoWay, data: Array, seed: int) -> list[Bump]:
    """Bumps with the covariance of the latents around a few different integer data: with many
    correlated entries few latents fall into a bump without it.
    """
    bumps: list[Bump] = []
    for x in np.unique(data, axis=0)[: PAIRS // 2]:
        z = np.asarray(flow.push(_repeated(x, SOME), seed, None).value, dtype=np.float64)
        flat = z[np.isfinite(z).reshape(SOME, -1).all(1)].reshape(-1, math.prod(z.shape[1:]))
        lean = leaning(flat, np.random.default_rng(seed + 1)) if 2 * len(flat) > SOME else None
        if lean is not None:
            bumps.append(Bump(x, z[0], None, np.zeros(z.shape[1:]), lean))
    return bumps


def masses(flow: TwoWay, inside: Support, bump: Bump, count: int, seed: int) -> Finding | None:
    """The mass of a bump by both directions; None if few draws dominate one of them."""
    each = [
        bump_weights_and_heights(flow, inside, bump, count // CALLS, seed + 17 * call)
        for call in range(CALLS)
    ]
    weights, heights = (np.stack(ones) for ones in zip(*each, strict=True))
    if not np.isfinite(weights).all():
        return None
    backward, known = float(heights.mean()), error_of(heights)
    if backward < RARE or known > KNOWN * backward:
        return None
    heavy = not Guard().passes(weights)
    if heavy:
        # The mean of cut weights is accurate, and may already be too large.
        weights = np.minimum(weights, MOST * backward)
    forward, error = float(weights.mean()), math.hypot(error_of(weights), known)
    room = max(ERRORS * error, SHARE * max(forward, backward))
    found = Finding(
        abs(forward - backward) / room,
        {"forward": forward, "backward": backward, "standard error": error},
        f"around a pair of data and latents there is a mass of {forward:.3g} by the contributions, "
        f"and of {backward:.3g} by the draws of the inverse",
        f"a difference of {room / max(backward, 1e-300):.2g} of it would have been seen",
    )
    if heavy:
        return found if Guard().passes(weights) and forward > backward and found.violates else None
    return None if 0 < forward < backward and Mean.of(weights).uneven else found


def bump_weights_and_heights(
    flow: TwoWay, inside: Support, bump: Bump, count: int, seed: int
) -> tuple[Array, Array]:
    """The weights of a bump in one forward call, and its height at the draws of one inverse call,
    ``(count,)`` each.
    """
    rng = np.random.default_rng(seed)
    if bump.wide_x is None:
        x, log_r, usable = _repeated(bump.x, count), 0.0, np.ones(count, dtype=bool)
    else:
        x, usable = _near(flow.domain, bump.x, bump.wide_x, count, rng)
        # The bump is the density of these points, up to its height.
        log_r = -float(np.log(math.sqrt(2 * math.pi) * bump.wide_x).sum())
    z, v = stochastic_forward(flow, x, seed + 1)
    there = v + bump.log_prob(z) - log_r
    with np.errstate(over="ignore"):
        weights = np.where(usable & _holds(inside, z), np.exp(there), 0.0)
    latents, good = bump.latents(inside, count, rng)
    back = data_of(flow, latents, seed + 2)
    if bump.wide_x is None:
        heights = (back == bump.x).reshape(count, -1).all(1).astype(np.float64)
    else:
        far = ((back - bump.x) / bump.wide_x).reshape(count, -1)
        with np.errstate(over="ignore"):  # so far out a bump is zero
            heights = np.exp(-0.5 * (far**2).sum(1))
        heights = np.where(_holds(flow.domain, back), heights, 0.0)
    return weights, np.where(good, heights, 0.0)


def error_of(values: Array) -> float:
    """The standard error of the mean of values ``(calls, rows)``: that of independent rows, or of
    calls if these vary more.
    """
    calls = values.mean(1).std(ddof=1) / math.sqrt(len(values))
    return float(max(values.std() / math.sqrt(values.size), calls))


def _near(
    support: Support, center: Array, wide: Array, count: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Normal points around a center, and which lie in the support; the others are replaced by the
    center.
    """
    return _replace_outside_support(
        support, center + wide * rng.standard_normal((count, *center.shape)), center
    )


def _replace_outside_support(support: Support, x: Array, center: Array) -> tuple[Array, Array]:
    """The points with the center in place of those outside, and which lie inside."""
    inside = _holds(support, x)
    return np.where(inside.reshape(-1, *[1] * center.ndim), x, center), inside


def _holds(support: Support, x: Array) -> Array:
    return np.ones(len(x), dtype=bool) if support.kind == "real" else support.holds(x)


def _log_normal(z: Array, center: Array, wide: Array) -> Array:
    size = np.where(wide > 0, wide, 1.0)
    terms = -0.5 * ((z - center) / size) ** 2 - np.log(math.sqrt(2 * math.pi) * size)
    # For integers a bump is a single one, with its probability.
    terms = np.where(wide > 0, terms, np.where(z == center, 0.0, -np.inf))
    return np.asarray(terms.reshape(len(z), -1).sum(1))


def _repeated(x: Array, count: int) -> Array:
    return np.repeat(x[None], count, 0)
