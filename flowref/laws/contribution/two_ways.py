"""What is drawn backward and what is weighed forward are one joint distribution: by means of weights, and
where these are uneven by means that are bounded.
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

# From this share of what accuses on more draws are taken.
CONSPICUOUS = 0.5
# Calls that draw them where means are bounded: what one call draws for all of its rows varies between calls
# alone. The share of what both directions have in common that is allowed, and the share of the draws below
# which few points decide.
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
    r"""Data drawn by the inverse from latents with the density q are distributed as the contributions
    of forward say: $E_{x \sim r}[e^V q(z)\,h(x) / r(x)] = E_{z \sim q}[h(x)]$ for bounded h of one and
    of two entries.

    Two stages; the second, with more and fresh draws, alone accuses, and is looked at where the first is
    conspicuous. Where few points hold most of the weight, the same means with every weight bounded decide.
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
    """The difference of means that is largest beside its standard error; in doubt where rare weights may be
    missing.
    """
    proposal, x, log_w, mass = weighed(flow, inside, look.count, look.seed)
    rng = np.random.default_rng(look.seed + 7)
    there = data_of(flow, drawn_on(inside, flow.latent_shape, rng, look.count), look.seed + 8)
    center, spread = np.asarray(proposal.center), np.asarray(proposal.spread)
    weights = np.exp(log_w)
    shares = weights[:, None] / weights.mean()
    forward, backward = features((x - center) / spread), features((there - center) / spread)
    # Means by weights that are divided by their sum: what all of them lack is another law's affair.
    means = (shares * forward).mean(0)
    errors = np.sqrt(((shares * (forward - means)).var(0) + backward.var(0)) / look.count)
    apart, room = np.abs(means - backward.mean(0)), np.maximum(ERRORS * errors, SHARE)
    worst = int(np.argmax(apart / room))
    return Finding(
        float((apart / room)[worst]),
        {"difference": float(apart[worst]), "standard error": float(errors[worst])},
        f"a bounded function of the data has means {apart[worst]:.3g} apart, give or take {errors[worst]:.2g}",
        f"a difference of {room[worst]:.2g} would have been seen",
        "its weights are uneven: they may miss what is rarely drawn" if mass.uneven else "",
    )


def features(x: Array) -> Array:
    """Bounded functions of one and of two entries, `(rows, functions)`."""
    flat = np.tanh(x.reshape(len(x), -1))
    pairs = [flat[:, i] * flat[:, j] for i in range(flat.shape[1]) for j in range(i + 1)]
    return np.concatenate([flat, np.stack(pairs, 1)], 1)


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
        return self.apart / max(ERRORS * self.error, SHARE_IN_COMMON * self.common)

    @property
    def finding(self) -> Finding:
        """The same in words."""
        return Finding(
            self.excess,
            {"difference": self.apart, "standard error": self.error},
            f"a bounded function of the data has means {self.apart:.3g} apart, give or take "
            f"{self.error:.2g}, where no weight counts more than 1 and the mean weight is {self.common:.2g}",
        )


def bounded_means(flow: TwoWay, inside: Support, seed: int) -> Means | None:
    r"""How far, with $W = e^V q(z) / r(x)$, $E_{x \sim r, forward}[h(x)\,W / (1 + W)]$ and
    $E_{z \sim q, inverse}[h(x) / (1 + W)]$ are apart for bounded h; None where the contribution of what is
    drawn backward is not known, or few points decide.

    These are one mean: W is how much likelier a pair is drawn backward. No weight counts more than 1,
    so that standard errors are known where those of weights are not.
    """
    return two_stage(lambda look: _bounded(flow, inside, look), STAGES, seed)


def _bounded(flow: TwoWay, inside: Support, look: Look) -> Means | None:
    """With the first proposal that has enough in common with what is drawn."""
    rows = look.count // CALLS
    for proposal in proposals(flow, inside, look.seed):
        told = [_one_call(flow, inside, proposal, rows, look.seed + 17 * k) for k in range(CALLS)]
        found = [one for one in told if one is not None]
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
                Means(*one, common) for one in zip(apart.tolist(), errors.tolist(), strict=True)
            ]
            return max(each, key=lambda one: one.excess)
    return None


def _one_call(
    flow: TwoWay, inside: Support, proposal: Points | Levels, rows: int, seed: int
) -> tuple[Moments, Moments] | None:
    """Of one call forward and of one backward; None where one of them is refused, or gives no number."""
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
