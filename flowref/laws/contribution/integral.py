"""Contributions define a normalized density: by importance sampling, and by the acceptance ratio
of draws in both directions.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from flowref.laws.common.statistics import ERRORS, Finding, Look, Mean, two_stage
from flowref.laws.contribution.calls import (
    Given,
    contribution,
    stochastic_forward,
    stochastic_inverse,
)
from flowref.laws.contribution.places import SAY, placed, proposals
from flowref.laws.contribution.sets import drawn_on, normal_on
from flowref.laws.contribution.weights import filled, truncated_mean_weight, weighed
from flowref.model import (
    NEARBY,
    STATISTICAL,
    Array,
    Batch,
    Residual,
    Support,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Flow, Pushing, TwoWay

# Points of the two stages; and the share of the mass, and of the draws, that is allowed whatever
# the standard error.
STAGES = (20_000, 80_000)
SHARE, SHARE_OF_DRAWS = 0.01, 0.005
LARGEST = 16
# The weight of a share of latents that is known by ranges only.
UNSURE = 0.7
# The allowed share of non-finite contributions, as of a step that diverges far out.
MISSING = 0.02


@requires("its events have more than sixteen entries", blocked=True)
def few_weighted_entries(flow: Flow) -> bool:
    """Importance weights in many dimensions are too uneven."""
    return math.prod(flow.event_shape) <= LARGEST


@law(
    "density/mass[contribution]",
    key="contribution/integral",
    tolerance=STATISTICAL,
    local=False,
    scales=NEARBY,
    effort=2,
    size=1,
    applies=few_weighted_entries,
    version=3,
    source="importance sampling: e^V q(z) is on average over what forward draws a density of x "
    "(Nielsen et al., arXiv:2007.02731; Wu et al., arXiv:2002.06707), so that its mass is 1",
)
def integral(flow: Pushing, batch: Batch) -> Residual:
    r"""For every normalized density q of latents, $e^V q(z)$, averaged over the draws of forward,
    is a normalized density of the data: $E_{x \sim r}[e^{V} q(z) / r(x)] = 1$.

    Two stages; violated only if a larger one with fresh draws confirms. If few points dominate,
    weights are cut, and only a mass above 1 is a violation. With an undeclared codomain, a mass
    above 1 is a violation, and one below 1 only as far as latents are known to fill a set.
    """
    flow = cast(Pushing, Given(flow, batch))
    place = placed(flow, batch.seed)
    share = place.share if place.sure else UNSURE * place.share

    def mass(look: Look) -> Finding:
        found = _mean_weight(flow, place.support, look)
        room, doubt = found.room(SHARE), ""
        if found.mean < 1 and found.uneven:
            doubt = f"its weights are uneven: a mass of {found.mean:.3g} may miss rare draws"
        elif found.mean < 1 and share - found.mean <= room:
            doubt = (
                f"the mass of its density is {found.mean:.3g}, and its codomain, which is not declared, may be "
                f"less than {place.support}; {SAY}"
            )
        return Finding(
            abs(found.mean - 1) / room,
            {"mass": found.mean, "standard error": found.error},
            f"the mass of its density is {found.mean:.4g}, give or take {found.error:.2g}",
            f"a bias of {room:.2g} would have been seen",
            doubt,
        )

    return two_stage(mass, STAGES, batch.seed).residual()


def _mean_weight(flow: Pushing, support: Support, look: Look) -> Mean:
    try:
        return weighed(flow, support, look.count, look.seed).mass
    except Undecidable:
        # However heavy the tail: the mean of the cut weights may already be too large.
        least = truncated_mean_weight(flow, support, look.count, look.seed)
        if least is None or least.mean - 1 <= least.room(SHARE):
            raise
        return least


@law(
    "kernel/follows-contribution[balance]",
    key="contribution/balance",
    tolerance=STATISTICAL,
    local=False,
    scales=NEARBY,
    effort=2,
    size=1,
    source="Bennett 1976, the acceptance ratio, and Crooks 1999, of paths: the weight of a pair is the ratio "
    "of the chances to draw it backward and forward",
)
def balance(flow: TwoWay, batch: Batch) -> Residual:
    r"""With $W = e^V q(z) / r(x)$, the ratio of the probability of a pair drawn backward from $z
    \sim q$ to that drawn forward from $x \sim r$, $E_{forward}[W / (1 + W)] = E_{backward}[1 / (1
    + W)]$.

    Both terms are bounded, so it decides also if few points dominate the weights. Two stages;
    violated only if a larger one with fresh draws confirms.
    """
    flow = cast(TwoWay, Given(flow, batch))
    inside = filled(flow, batch.seed)

    def sides(look: Look) -> Finding:
        both = _shares(flow, inside, look.count, look.seed)
        # A non-finite term may be anything in [0, 1].
        missing = sum(float(np.isnan(side).mean()) for side in both)
        forward, backward = (Mean.of(np.nan_to_num(side, nan=0.5)) for side in both)
        error = math.hypot(forward.error, backward.error)
        room = max(ERRORS * error, SHARE_OF_DRAWS)
        return Finding(
            abs(forward.mean - backward.mean) / (room + missing / 2),
            {"forward": forward.mean, "backward": backward.mean, "standard error": error},
            f"the two means are {forward.mean:.4g} and {backward.mean:.4g}, give or take {error:.2g}",
            f"a difference of {room:.2g} would have been seen",
        )

    found = two_stage(sides, STAGES, batch.seed)
    most = np.maximum(found.observed["forward"], found.observed["backward"])
    return found.residual(trivial=np.array([most < SHARE_OF_DRAWS]))


def _shares(flow: TwoWay, inside: Support, count: int, seed: int) -> tuple[Array, Array]:
    """W / (1 + W) of pairs drawn forward, and 1 / (1 + W) of pairs drawn backward, ``(n,)`` each."""
    proposal = proposals(flow, inside, seed)[0]
    x = proposal.draw(np.random.default_rng(seed), count)
    z, given = stochastic_forward(flow, x, seed)
    latents = drawn_on(inside, flow.latent_shape, np.random.default_rng(seed + 7), count)
    back = stochastic_inverse(flow, latents, seed + 8)
    data = np.asarray(back.value, dtype=np.float64)
    if back.ladj is not None:
        returned = -contribution(back, count)
    elif flow.kernel.deterministic == "push":
        returned = contribution(flow.push(data, seed + 9, None), count)
    else:
        raise Unsupported("its inverse returns no contribution, and forward draws", blocked=True)
    there = given + normal_on(inside, flow.latent_shape, z) - proposal.log_prob(x)
    again = returned + normal_on(inside, flow.latent_shape, latents) - proposal.log_prob(data)
    if max(np.isnan(there).mean(), np.isnan(again).mean()) > MISSING:
        raise Undecidable("many contributions are not finite")
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-there)), 1 / (1 + np.exp(again))
