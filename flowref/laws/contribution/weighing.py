"""Points with importance weights that no few of them decide."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.contribution.calls import contribution, guarded
from flowref.laws.contribution.places import Levels, proposals
from flowref.laws.contribution.sets import Points, normal_on
from flowref.model import Array, Support, Undecidable
from flowref.model.abilities import Pushing


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
        z = np.asarray(out.value, dtype=np.float64)
        log_w = contribution(out, count) + normal_on(inside, flow.latent_shape, z)
        log_w = log_w - proposal.log_prob(x)
        try:
            guarded(log_w)
        except Undecidable as error:
            few = error
            continue
        return proposal, x, log_w
    raise few
