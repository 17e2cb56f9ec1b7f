"""Forward and backward draws balance: an identity between bounded means, however uneven weights are."""

from __future__ import annotations

from typing import cast

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.contribution.calls import Given, contribution
from flowref.laws.contribution.filling import filled
from flowref.laws.contribution.integral import ERRORS, STAGES
from flowref.laws.contribution.places import proposed
from flowref.laws.contribution.sets import drawn_on, normal_on
from flowref.model import (
    STATISTICAL,
    Array,
    Batch,
    Residual,
    Support,
    Undecidable,
    Unsupported,
    law,
)
from flowref.model.abilities import TwoWay

# A share of the draws that is allowed whatever the standard error.
SHARE = 0.005
# Which share of contributions may be no numbers, as of a step that diverges far out.
MISSING = 0.02


@law(
    "contribution/balance",
    tolerance=STATISTICAL,
    local=False,
    scales=(0.0, 0.3),
    effort=2,
    size=1,
    source="Bennett 1976, the acceptance ratio, and Crooks 1999, of paths: the weight of a pair is the ratio "
    "of the chances to draw it backward and forward",
)
def balance(flow: TwoWay, batch: Batch) -> Residual:
    r"""With $W = e^V q(z) / r(x)$, which is how much likelier a pair is drawn backward from $z \sim q$ than
    forward from $x \sim r$, $E_{forward}[W / (1 + W)] = E_{backward}[1 / (1 + W)]$.

    Both are bounded, so that nothing is undecided where few points have all the weight. Two stages;
    violated only if a larger one with fresh draws confirms.
    """
    excess, sides, error = 0.0, (0.5, 0.5), 0.0
    flow = cast(TwoWay, Given(flow, batch))
    inside = filled(flow, batch.seed)
    for stage, count in enumerate(STAGES):
        forward, backward = shares(flow, inside, count, batch.seed + 1000 * stage)
        # What is no number is anything between 0 and 1.
        missing = float(np.isnan(forward).mean() + np.isnan(backward).mean())
        forward, backward = np.nan_to_num(forward, nan=0.5), np.nan_to_num(backward, nan=0.5)
        sides = float(forward.mean()), float(backward.mean())
        error = float(np.sqrt((forward.var() + backward.var()) / count))
        excess = abs(sides[0] - sides[1]) / (max(ERRORS * error, SHARE) + missing / 2)
        if excess <= 1:
            break
    return Residual(
        np.array([excess]),
        allowed=1.0,
        trivial=np.array([max(sides) < SHARE]),
        observed={
            "forward": np.array([sides[0]]),
            "backward": np.array([sides[1]]),
            "standard error": np.array([error]),
        },
        note=f"the two means are {sides[0]:.4g} and {sides[1]:.4g}, give or take {error:.2g}",
        road=f"a difference of {max(ERRORS * error, SHARE):.2g} would have been seen",
    )


def shares(flow: TwoWay, inside: Support, count: int, seed: int) -> tuple[Array, Array]:
    """W / (1 + W) of pairs that were drawn forward, and 1 / (1 + W) of pairs drawn backward."""
    proposal = proposed(flow, inside, seed)
    x = proposal.draw(np.random.default_rng(seed), count)
    out, refused = attempt(flow.push, x, seed, None)
    if refused:
        raise Undecidable(f"forward refuses ordinary points ({refused})")
    latents = drawn_on(inside, flow.latent_shape, np.random.default_rng(seed + 7), count)
    back, refused = attempt(flow.pull, latents, seed + 8, None)
    if refused:
        raise Undecidable(f"inverse refuses points of the declared codomain ({refused})")
    data = np.asarray(back.value, dtype=np.float64)
    if back.ladj is not None:
        taken = -contribution(back, count)
    elif flow.kernel.deterministic == "push":
        taken = contribution(flow.push(data, seed + 9, None), count)
    else:
        raise Unsupported("its inverse returns no contribution, and forward draws", waits=True)
    z = np.asarray(out.value, dtype=np.float64)
    there = (
        contribution(out, count) + normal_on(inside, flow.latent_shape, z) - proposal.log_prob(x)
    )
    again = taken + normal_on(inside, flow.latent_shape, latents) - proposal.log_prob(data)
    missing = max(np.isnan(there).mean(), np.isnan(again).mean())
    if missing > MISSING:
        raise Undecidable("many contributions are no numbers")
    return _logistic(there), _logistic(-again)


def _logistic(a: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-a)))
