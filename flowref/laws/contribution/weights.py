"""Importance weights of points, and the sets that latents are told by them to fill."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from flowref.laws.common.statistics import Mean, at_least, guarded
from flowref.laws.contribution.calls import stochastic_forward
from flowref.laws.contribution.places import AGAIN, SAY, Levels, placed, proposals
from flowref.laws.contribution.sets import Points, normal_on
from flowref.model import Array, Support, Undecidable
from flowref.model.abilities import Pushing

# Of more points latents are not finite by no accident.
FEW = 1e-3
# Where a few points hold most of the weight, no weight counts more than that.
MOST = 20.0
# How many points tell the mass, the more where its standard error is larger than that, and what of it may
# be missing.
COUNTS, ERROR, LACKING = (80_000, 640_000), 0.006, 0.02
# A set is filled of which so much is on latents beside what draws show of one that is: of half of a line
# it is half of that.
NEARLY = 0.8


class Weighed(NamedTuple):
    """Points of a proposal, their log-weights, and the mean of the weights, of which no few decide."""

    proposal: Points | Levels
    x: Array
    log_weights: Array
    mass: Mean


def weighed(flow: Pushing, inside: Support, count: int, seed: int) -> Weighed:
    """So many points of the first proposal of which no few points hold most of the weight."""
    few = Undecidable("no points are proposed")
    for proposal in proposals(flow, inside, seed):
        x = proposal.draw(np.random.default_rng(seed), count)
        try:
            log_w = _log_weights(flow, inside, proposal, x, seed)
            return Weighed(proposal, x, log_w, guarded(log_w))
        except Undecidable as error:
            few = error
    raise few


def truncated_mean_weight(flow: Pushing, inside: Support, count: int, seed: int) -> Mean | None:
    """Of the first proposal the mean of weights that count up to a bound; None where it is not known."""
    proposal = proposals(flow, inside, seed)[0]
    x = proposal.draw(np.random.default_rng(seed), count)
    try:
        return at_least(_log_weights(flow, inside, proposal, x, seed), MOST)
    except Undecidable:
        return None


def _log_weights(
    flow: Pushing, inside: Support, proposal: Points | Levels, x: Array, seed: int
) -> Array:
    z, contributed = stochastic_forward(flow, x, seed)
    with np.errstate(over="ignore", invalid="ignore"):
        log_w = contributed + normal_on(inside, flow.latent_shape, z)
    # Those of a few points far out may be beyond all numbers: there q is 0.
    beyond = ~np.isfinite(z).reshape(len(z), -1).all(1)
    return np.where(beyond & (beyond.mean() <= FEW), -np.inf, log_w) - proposal.log_prob(x)


def filled(flow: Pushing, seed: int) -> Support:
    r"""Where latents lie, each point being one; `Undecidable` where that is not known.

    For a normalized density q the mass of $E[e^V q(z)]$ is the chance under q of what are latents at
    all. Where contributions give a mass of 1, there is nothing else; and where forward draws on all
    sides of nearly every latent, whatever contributions are.
    """
    place = placed(flow, seed)
    if place.sure and place.share >= 1:
        return place.support
    # Of one number among several that are alike the others lie on both sides with this chance.
    around = ((AGAIN - 1) / (AGAIN + 1)) ** math.prod(flow.latent_shape)
    seen = place.share >= NEARLY * around
    if not place.sure and (seen or abs(_density_mass(flow, place.support, seed) - 1) <= LACKING):
        return place.support
    raise Undecidable(f"its codomain is not declared, and may be less than {place.support}; {SAY}")


def _density_mass(flow: Pushing, support: Support, seed: int) -> float:
    """The mass of the density, or 0 where this many points do not tell it."""
    for count in COUNTS:
        try:
            mass, error, _ = weighed(flow, support, count, seed + 17).mass
        except Undecidable:
            return 0.0
        if error <= ERROR:
            return mass
        if abs(mass - 1) > LACKING + 3 * error:
            return 0.0
    return 0.0
