"""Points with importance weights that no few of them decide."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.contribution.calls import at_least, contribution, guarded
from flowref.laws.contribution.places import Levels, proposals
from flowref.laws.contribution.sets import Points, normal_on
from flowref.model import Array, Mapped, Support, Undecidable
from flowref.model.abilities import Pushing

# Of more points latents are not finite by no accident.
FEW = 1e-3


def weighed(
    flow: Pushing, inside: Support, count: int, seed: int
) -> tuple[Points | Levels, Array, Array]:
    """A proposal of which no few points hold most of the weight, its points, and their log-weights."""
    few = Undecidable("no points are proposed")
    for proposal in proposals(flow, inside, seed):
        x = proposal.draw(np.random.default_rng(seed), count)
        out, refused = attempt(flow.push, x, seed, None)
        if refused:
            few = Undecidable(f"forward refuses ordinary points ({refused})")
            continue
        log_w = _log_weights(flow, inside, proposal, x, out)
        try:
            guarded(log_w)
        except Undecidable as error:
            few = error
            continue
        return proposal, x, log_w
    raise few


def cut(
    flow: Pushing, inside: Support, count: int, seed: int, most: float
) -> tuple[float, float] | None:
    """Of the first proposal the mean of weights that count up to ``most``, and its standard error; None
    where these are not known.
    """
    proposal = proposals(flow, inside, seed)[0]
    x = proposal.draw(np.random.default_rng(seed), count)
    out, refused = attempt(flow.push, x, seed, None)
    return None if refused else at_least(_log_weights(flow, inside, proposal, x, out), most)


def _log_weights(
    flow: Pushing, inside: Support, proposal: Points | Levels, x: Array, out: Mapped
) -> Array:
    z = np.asarray(out.value, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        log_w = contribution(out, len(x)) + normal_on(inside, flow.latent_shape, z)
    return np.where(lost(z), -np.inf, log_w) - proposal.log_prob(x)


def lost(z: Array) -> Array:
    """Latents that are beyond all numbers, as those of a few points far out may be: there q is 0."""
    beyond = ~np.isfinite(z).reshape(len(z), -1).all(1)
    return np.asarray(beyond & (beyond.mean() <= FEW))
