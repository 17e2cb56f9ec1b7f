"""Contributions give a normalized density: by importance sampling, whatever the layer draws."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from flowref.laws.contribution.calls import Given, guarded
from flowref.laws.contribution.places import SAY, placed
from flowref.laws.contribution.tails import infinite_variance
from flowref.laws.contribution.weighing import cut, weighed
from flowref.model import STATISTICAL, Batch, Residual, Undecidable, law, requires
from flowref.model.abilities import Flow, Pushing

# Points of the two stages; standard errors and share of the mass that are allowed.
STAGES = (20_000, 80_000)
ERRORS, SHARE = 5.0, 0.01
LARGEST = 16
# Where a few points hold most of the weight, no weight counts more than that.
MOST = 20.0
# The standard deviation of weights beside their mean from which on what is missing may be what was not
# drawn: their effective number is then a tenth of them.
UNEVEN = 3.0
# What counts of a share of latents that is judged by ranges alone.
UNSURE = 0.7


@requires("its events have more than sixteen entries", waits=True)
def few_entries(flow: Flow) -> bool:
    """Weights of many entries are spread too unevenly."""
    return math.prod(flow.event_shape) <= LARGEST


@law(
    "contribution/integral",
    tolerance=STATISTICAL,
    local=False,
    scales=(0.0, 0.3),
    effort=2,
    size=1,
    applies=few_entries,
    version=3,
    source="importance sampling: e^V q(z) is on average over what forward draws a density of x "
    "(Nielsen et al., arXiv:2007.02731; Wu et al., arXiv:2002.06707), so that its mass is 1",
)
def integral(flow: Pushing, batch: Batch) -> Residual:
    r"""For every normalized density q of latents, $e^V q(z)$ is, on average over what forward draws, a
    normalized density of the data: $E_{x \sim r}[e^{V} q(z) / r(x)] = 1$.

    Two stages; violated only if a larger one with fresh draws confirms. Where few points hold most of
    the weight, weights count up to a bound, and only more than 1 accuses. Where no codomain is
    declared, more than 1 accuses, and less only as far as latents are seen to fill a set.
    """
    flow = cast(Pushing, Given(flow, batch))
    place = placed(flow, batch.seed)
    excess, mean, error, rare = 0.0, 1.0, 0.0, False
    for stage, count in enumerate(STAGES):
        seed = batch.seed + 1000 * stage
        try:
            log_w = weighed(flow, place.support, count, seed)[2]
            mean, error = guarded(log_w)
            rare = infinite_variance(np.exp(log_w - log_w.max()))
        except Undecidable:
            # However much the heaviest hold: what is left of them when they are cut may be too much.
            least = cut(flow, place.support, count, seed, MOST)
            if least is None or least[0] - 1 <= max(ERRORS * least[1], SHARE):
                raise
            (mean, error), rare = least, False
        excess = abs(mean - 1) / max(ERRORS * error, SHARE)
        if excess <= 1:
            break
    uneven = error * np.sqrt(STAGES[-1]) > UNEVEN * mean
    if excess > 1 and mean < 1 and (uneven or rare):
        raise Undecidable(
            f"its weights are uneven: a mass of {mean:.3g} may miss what is rarely drawn"
        )
    share = place.share if place.sure else UNSURE * place.share
    if excess > 1 and mean < 1 and share - mean <= max(ERRORS * error, SHARE):
        raise Undecidable(
            f"the mass of its density is {mean:.3g}, and its codomain, which is not declared, may be "
            f"less than {place.support}; {SAY}"
        )
    return Residual(
        np.array([excess]),
        allowed=1.0,
        observed={"mass": np.array([mean]), "standard error": np.array([error])},
        note=f"the mass of its density is {mean:.4g}, give or take {error:.2g}",
        road=f"a bias of {max(ERRORS * error, SHARE):.2g} would have been seen",
    )
