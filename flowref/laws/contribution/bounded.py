"""What is drawn backward beside what is weighed forward, by means that are bounded however uneven weights are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.contribution.calls import contribution
from flowref.laws.contribution.features import features
from flowref.laws.contribution.places import Levels, proposals
from flowref.laws.contribution.sets import Points, drawn_on, normal_on
from flowref.model import Array, Support
from flowref.model.abilities import TwoWay

# Points of the two stages, both of which have to show a difference; and so many calls draw them, since
# what one call draws for all of its rows varies between calls alone.
STAGES, CALLS = (20_000, 80_000), 16
# Standard errors, and the share of what both directions have in common, that are allowed.
ERRORS, SHARE = 5.0, 0.02
# Of less than this share of the draws few points decide.
COMMON = 0.02


class Moments(NamedTuple):
    """Of the rows of one call, or of several calls: the mean share, and of functions times these shares
    the means and the means of their squares, ``(functions,)``.
    """

    share: Array
    means: Array
    squares: Array

    @classmethod
    def of(cls, shares: Array, functions: Array) -> Moments:
        """Those of shares, ``(rows,)``, and functions, ``(rows, functions)``."""
        both = shares[:, None] * functions
        return cls(shares.mean(), both.mean(0), (both**2).mean(0))

    def errors(self, rows: int) -> Array:
        """Standard errors of the means of calls with so many rows: those of independent rows, or of
        calls where these vary more.
        """
        spread = np.maximum(self.squares.mean(0) - self.means.mean(0) ** 2, 0.0)
        calls = len(self.means)
        apart = self.means.std(0, ddof=1) / np.sqrt(calls)
        return np.asarray(np.maximum(np.sqrt(spread / (rows * calls)), apart))


class Means(NamedTuple):
    """How far the means of the function that tells most are apart, their standard error, and how much of
    the draws both directions share: the lesser of two means that should be one.
    """

    apart: float
    error: float
    common: float

    @property
    def excess(self) -> float:
        """The difference beside what is allowed."""
        return self.apart / max(ERRORS * self.error, SHARE * self.common)


def bounded_means(flow: TwoWay, inside: Support, seed: int) -> Means | None:
    r"""How far, with $W = e^V q(z) / r(x)$, $E_{x \sim r, forward}[h(x)\,W / (1 + W)]$ and
    $E_{z \sim q, inverse}[h(x) / (1 + W)]$ are apart for bounded h; None where the contribution of what is
    drawn backward is not known, or few points decide.

    These are one mean: W is how much likelier a pair is drawn backward. No weight counts more than 1,
    so that standard errors are known where those of weights are not.
    """
    means = None
    for stage, count in enumerate(STAGES):
        ways = _ways(flow, inside, count // CALLS, seed + 1000 * stage)
        if ways is None:
            return None
        means = _apart(*ways, count // CALLS)
        if means.excess <= 1:
            break
    return means


def _apart(forward: Moments, backward: Moments, rows: int) -> Means:
    apart = np.abs(forward.means.mean(0) - backward.means.mean(0))
    errors = np.hypot(forward.errors(rows), backward.errors(rows))
    common = _common(forward, backward)
    worst = int(np.argmax(apart / np.maximum(ERRORS * errors, SHARE * common)))
    return Means(float(apart[worst]), float(errors[worst]), common)


def _common(forward: Moments, backward: Moments) -> float:
    return float(min(forward.share.mean(), backward.share.mean()))


def _ways(flow: TwoWay, inside: Support, rows: int, seed: int) -> tuple[Moments, Moments] | None:
    """Of both directions, with the first proposal that has enough in common with what is drawn."""
    for proposal in proposals(flow, inside, seed):
        told = [_one_call(flow, inside, proposal, rows, seed + 17 * k) for k in range(CALLS)]
        found = [one for one in told if one is not None]
        if len(found) < CALLS:
            return None
        forward, backward = (
            Moments(*(np.stack(ones) for ones in zip(*way, strict=True)))
            for way in zip(*found, strict=True)
        )
        if _common(forward, backward) >= COMMON:
            return forward, backward
    return None


def _one_call(
    flow: TwoWay, inside: Support, proposal: Points | Levels, rows: int, seed: int
) -> tuple[Moments, Moments] | None:
    """Of one call forward and of one backward; None where one of them is refused, or gives no number."""
    x = proposal.draw(np.random.default_rng(seed), rows)
    out, refused = attempt(flow.push, x, seed + 1, None)
    latents = drawn_on(inside, flow.latent_shape, np.random.default_rng(seed + 2), rows)
    drawn = None if refused else _drawn(flow, latents, seed + 3)
    if drawn is None:
        return None
    data, taken = drawn
    z = np.asarray(out.value, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        there = contribution(out, rows) + normal_on(inside, flow.latent_shape, z)
        again = taken + normal_on(inside, flow.latent_shape, latents)
        forward = 1 / (1 + np.exp(proposal.log_prob(x) - there))
        backward = 1 / (1 + np.exp(again - proposal.log_prob(data)))
    if np.isnan(forward).any() or np.isnan(backward).any():
        return None
    sides = ((forward, x), (backward, data))
    one, other = (
        Moments.of(shares, features((points - proposal.center) / proposal.spread))
        for shares, points in sides
    )
    return one, other


def _drawn(flow: TwoWay, latents: Array, seed: int) -> tuple[Array, Array] | None:
    """Data that the inverse draws, and the contribution of forward there: its own where it draws
    nothing, else that which the inverse returns.
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
