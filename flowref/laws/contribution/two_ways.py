"""Backward draws and weighted forward draws have one joint distribution: by means of weights, and
if these are uneven by bounded means.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.common.statistics import ERRORS, Finding, Look, two_stage
from flowref.laws.contribution.calls import Given, contribution, data_of
from flowref.laws.contribution.integral import SHARE, STAGES, few_weighted_entries
from flowref.laws.contribution.places import Levels, proposals
from flowref.laws.contribution.sets import Points, drawn_on, normal_on
from flowref.laws.contribution.weights import filled, weighed
from flowref.model import NEARBY, STATISTICAL, Array, Batch, Residual, Support, Undecidable, law
from flowref.model.abilities import TwoWay

# From this share of the allowed difference on, more draws are taken.
CONSPICUOUS = 0.5
# Calls of bounded means, since random numbers shared by all rows of a call vary between calls only.
# The allowed share of the overlap of both directions, and the overlap below which few points
# dominate.
CALLS, SHARE_IN_COMMON, COMMON = 16, 0.02, 0.02


@law(
    "kernel/follows-contribution",
    key="contribution/two-ways",
    tolerance=STATISTICAL,
    local=False,
    scales=NEARBY,
    effort=2,
    size=1,
    applies=few_weighted_entries,
    version=4,
    source="importance sampling: the layer's inverse draws from the density that its contributions give "
    "(Nielsen et al., arXiv:2007.02731, where V is defined by both conditionals)",
)
def two_ways(flow: TwoWay, batch: Batch) -> Residual:
    r"""Data drawn by the inverse from latents with density q are distributed as the contributions
    of forward imply: $E_{x \sim r}[e^V q(z)\,h(x) / r(x)] = E_{z \sim q}[h(x)]$ for bounded h of
    one and of two entries.

    Two stages; the second, with more and fresh draws, decides, and is made if the first is
    conspicuous. If few points dominate the weights, means with bounded weights decide.
    """
    flow = cast(TwoWay, Given(flow, batch))
    inside, bounded = filled(flow, batch.seed), None
    try:
        found = two_stage(
            lambda look: difference(flow, inside, look), STAGES, batch.seed, CONSPICUOUS
        )
        residual = found.residual()
    except Undecidable:
        if (
            bounded := bounded_means(flow, inside, batch.seed + 5000)
        ) is None or bounded.excess <= 1:
            raise
        return bounded.finding.residual()
    if found.doubt:
        bounded = bounded_means(flow, inside, batch.seed + 5000)
    return residual if bounded is None or bounded.excess <= 1 else bounded.finding.residual()


def difference(flow: TwoWay, inside: Support, look: Look) -> Finding:
    """The difference of means that is largest relative to its standard error; with a doubt if rare
    weights may be missing.
    """
    proposal, x, log_w, mass = weighed(flow, inside, look.count, look.seed)
    rng = np.random.default_rng(look.seed + 7)
    there = data_of(flow, drawn_on(inside, flow.latent_shape, rng, look.count), look.seed + 8)
    center, spread = np.asarray(proposal.center), np.asarray(proposal.spread)
    weights = np.exp(log_w)
    shares = weights[:, None] / weights.mean()
    forward, backward = features((x - center) / spread), features((there - center) / spread)
    # Self-normalized weights: another law reports a missing total.
    means = (shares * forward).mean(0)
    errors = np.sqrt(((shares * (forward - means)).var(0) + backward.var(0)) / look.count)
    apart, room = np.abs(means - backward.mean(0)), np.maximum(ERRORS * errors, SHARE)
    worst = int(np.argmax(apart / room))
    return Finding(
        float((apart / room)[worst]),
        {"difference": float(apart[worst]), "standard error": float(errors[worst])},
        f"a bounded function of the data has means {apart[worst]:.3g} apart, give or take {errors[worst]:.2g}",
        f"a difference of {room[worst]:.2g} would have been seen",
        "its weights are uneven: they may miss rare draws" if mass.uneven else "",
    )


def features(x: Array) -> Array:
    """Bounded functions of one and of two entries, ``(rows, functions)``."""
    flat = np.tanh(x.reshape(len(x), -1))
    pairs = [flat[:, i] * flat[:, j] for i in range(flat.shape[1]) for j in range(i + 1)]
    return np.concatenate([flat, np.stack(pairs, 1)], 1)


class Moments(NamedTuple):
    """Over the rows of one call, or of several: the mean share, and means of functions times
    shares and of their squares, ``(functions,)``.
    """

    share: Array
    means: Array
    squares: Array

    @classmethod
    def of(cls, shares: Array, functions: Array) -> Moments:
        """The moments of shares ``(rows,)`` and functions ``(rows, functions)``."""
        both = shares[:, None] * functions
        return cls(shares.mean(), both.mean(0), (both**2).mean(0))

    def errors(self, rows: int) -> Array:
        """Standard errors of the means over calls with ``rows`` rows each, ``(functions,)``: those
        of independent rows, or of calls if these vary more.
        """
        spread = np.maximum(self.squares.mean(0) - self.means.mean(0) ** 2, 0.0)
        calls = len(self.means)
        apart = self.means.std(0, ddof=1) / np.sqrt(calls)
        return np.asarray(np.maximum(np.sqrt(spread / (rows * calls)), apart))


class Budget(NamedTuple):
    """The largest difference of means of a function, its standard error, and the overlap of both
    directions: the lesser of two means that should be one.
    """

    apart: float
    error: float
    common: float

    @property
    def excess(self) -> float:
        """The difference relative to the allowed one."""
        return self.apart / max(ERRORS * self.error, SHARE_IN_COMMON * self.common)

    @property
    def finding(self) -> Finding:
        """The finding with its sentences."""
        return Finding(
            self.excess,
            {"difference": self.apart, "standard error": self.error},
            f"a bounded function of the data has means {self.apart:.3g} apart, give or take "
            f"{self.error:.2g}, where no weight counts more than 1 and the mean weight is {self.common:.2g}",
        )


def bounded_means(flow: TwoWay, inside: Support, seed: int) -> Budget | None:
    r"""With $W = e^V q(z) / r(x)$, the difference between $E_{x \sim r, forward}[h(x)\,W / (1 +
    W)]$ and $E_{z \sim q, inverse}[h(x) / (1 + W)]$ for bounded h; None if the contribution of
    backward draws is unknown, or few points dominate.

    The two are equal, since W is the ratio of the probabilities of a pair backward and forward. No
    weight exceeds 1, so standard errors are known when those of weights are not.
    """
    return two_stage(lambda look: _bounded(flow, inside, look), STAGES, seed)


def _bounded(flow: TwoWay, inside: Support, look: Look) -> Budget | None:
    """With the first proposal that overlaps enough with the draws."""
    rows = look.count // CALLS
    for proposal in proposals(flow, inside, look.seed):
        pairs = [_one_call(flow, inside, proposal, rows, look.seed + 17 * k) for k in range(CALLS)]
        found = [one for one in pairs if one is not None]
        if len(found) < CALLS:
            return None
        ways = [
            Moments(*(np.stack(ones) for ones in zip(*way, strict=True)))
            for way in zip(*found, strict=True)
        ]
        common = min(float(way.share.mean()) for way in ways)
        if common >= COMMON:
            apart = np.abs(ways[0].means.mean(0) - ways[1].means.mean(0))
            errors = np.hypot(*(way.errors(rows) for way in ways))
            each = [
                Budget(*one, common) for one in zip(apart.tolist(), errors.tolist(), strict=True)
            ]
            return max(each, key=lambda one: one.excess)
    return None


def _one_call(
    flow: TwoWay, inside: Support, proposal: Points | Levels, rows: int, seed: int
) -> tuple[Moments, Moments] | None:
    """Moments of one forward and one inverse call; None if either is rejected, or not finite."""
    x = proposal.draw(np.random.default_rng(seed), rows)
    out, refused = attempt(flow.push, x, seed + 1, None)
    latents = drawn_on(inside, flow.latent_shape, np.random.default_rng(seed + 2), rows)
    drawn = None if refused else _inverse_samples(flow, latents, seed + 3)
    if drawn is None:
        return None
    data, returned = drawn
    z = np.asarray(out.value, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        there = contribution(out, rows) + normal_on(inside, flow.latent_shape, z)
        again = returned + normal_on(inside, flow.latent_shape, latents)
        forward = 1 / (1 + np.exp(proposal.log_prob(x) - there))
        backward = 1 / (1 + np.exp(again - proposal.log_prob(data)))
    if np.isnan(forward).any() or np.isnan(backward).any():
        return None
    one, other = (
        Moments.of(shares, features((points - proposal.center) / proposal.spread))
        for shares, points in ((forward, x), (backward, data))
    )
    return one, other


def _inverse_samples(flow: TwoWay, latents: Array, seed: int) -> tuple[Array, Array] | None:
    """Data drawn by the inverse, and the contribution of forward there: its own if it is
    deterministic, else the one that the inverse returned.
    """
    back, refused = attempt(flow.pull, latents, seed, None)
    if refused:
        return None
    data = np.asarray(back.value, dtype=np.float64)
    if not np.isfinite(data).all() or data.shape[1:] != flow.event_shape:
        return None
    if flow.kernel.deterministic != "push":
        return None if back.ladj is None else (data, -contribution(back, len(data)))
    again, refused = attempt(flow.push, data, seed + 1, None)
    return None if refused else (data, contribution(again, len(data)))
