"""Importance weights of points, and the sets that latents fill according to these."""

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

# A larger share of non-finite latents is no accident.
FEW = 1e-3
# Weights are cut at this value if few points dominate.
MOST = 20.0
# Points of an estimate of the mass, more if its standard error is larger than this, and the mass
# that may be missing.
COUNTS, ERROR, LACKING = (80_000, 640_000), 0.006, 0.02
# A set is filled if its share on latents is at least this, relative to what draws show of a filled
# set: for half of a line it is half of that.
NEARLY = 0.8


class Weighed(NamedTuple):
    """Points of a proposal, their log-weights, and the mean of the weights, which no few dominate."""

    proposal: Points | Levels
    x: Array
    log_weights: Array
    mass: Mean


def weighed(flow: Pushing, inside: Support, count: int, seed: int) -> Weighed:
    """Points of the first proposal whose weights are not dominated by a few. Raises `Undecidable`
    if there is none.
    """
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
    """The mean of cut weights of the first proposal; None if it is unknown."""
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
    # A few points far out may overflow: q is 0 there.
    beyond = ~np.isfinite(z).reshape(len(z), -1).all(1)
    return np.where(beyond & (beyond.mean() <= FEW), -np.inf, log_w) - proposal.log_prob(x)


def filled(flow: Pushing, seed: int) -> Support:
    """The support of the latents, with every point of it a latent. Raises `Undecidable` if it is
    unknown.

    For a normalized density q the mass of $E[e^V q(z)]$ is the probability under q of the set of
    latents. If contributions give a mass of 1, the set is complete; so it is if a stochastic
    forward draws on all sides of nearly every latent, whatever the contributions are.
    """
    place = placed(flow, seed)
    if place.sure and place.share >= 1:
        return place.support
    # For one value among several exchangeable ones, the others lie on both sides with this
    # probability.
    around = ((AGAIN - 1) / (AGAIN + 1)) ** math.prod(flow.latent_shape)
    seen = place.share >= NEARLY * around
    if not place.sure and (seen or abs(_density_mass(flow, place.support, seed) - 1) <= LACKING):
        return place.support
    raise Undecidable(f"its codomain is not declared, and may be less than {place.support}; {SAY}")


def _density_mass(flow: Pushing, support: Support, seed: int) -> float:
    """The mass of the density; 0 if this many points do not determine it."""
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
