"""Contributions give a normalized density: by importance sampling, whatever the layer draws."""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.contribution.calls import (
    FREEDOM,
    WIDER,
    Points,
    codomain,
    contribution,
    drawn_on,
    guarded,
    normal_on,
    placed_latents,
)
from flowref.model import (
    STATISTICAL,
    Array,
    Batch,
    Residual,
    Support,
    Undecidable,
    law,
    requires,
)
from flowref.model.abilities import Flow, Pushing, TwoWay, offers

# Points of the two stages; standard errors and share of the mass that are allowed.
STAGES = (20_000, 80_000)
ERRORS, SHARE = 5.0, 0.01
LARGEST = 16


@requires("its events have more than sixteen entries", waits=True)
def few_entries(flow: Flow) -> bool:
    """Weights of many entries are spread too unevenly."""
    return math.prod(flow.event_shape) <= LARGEST and flow.context_shape is None


@law(
    "contribution/integral",
    tolerance=STATISTICAL,
    local=False,
    scales=(0.0, 0.3),
    effort=2,
    size=1,
    applies=few_entries & placed_latents,
    source="importance sampling: e^V q(z) is on average over what forward draws a density of x "
    "(Nielsen et al., arXiv:2007.02731; Wu et al., arXiv:2002.06707), so that its mass is 1",
)
def integral(flow: Pushing, batch: Batch) -> Residual:
    r"""For every normalized density q of latents, $e^V q(z)$ is, on average over what forward draws, a
    normalized density of the data: $E_{x \sim r}[e^{V} q(z) / r(x)] = 1$.

    Two stages; violated only if a larger one with fresh draws confirms.
    """
    inside = codomain(flow)
    excess, mean, error = 0.0, 1.0, 0.0
    for stage, count in enumerate(STAGES):
        seed = batch.seed + 1000 * stage
        proposal = proposed(flow, inside, seed)
        x = proposal.draw(np.random.default_rng(seed), count)
        out, refused = attempt(flow.push, x, seed, None)
        if refused:
            raise Undecidable(f"forward refuses ordinary points ({refused})")
        z = np.asarray(out.value, dtype=np.float64)
        weights = contribution(out, count) + normal_on(inside, flow.latent_shape, z)
        mean, error = guarded(weights - proposal.log_prob(x))
        excess = abs(mean - 1) / max(ERRORS * error, SHARE)
        if excess <= 1:
            break
    return Residual(
        np.array([excess]),
        allowed=1.0,
        observed={"mass": np.array([mean]), "standard error": np.array([error])},
        note=f"the mass of its density is {mean:.4g}, give or take {error:.2g}",
        road=f"a bias of {max(ERRORS * error, SHARE):.2g} would have been seen",
    )


def proposed(flow: Pushing, inside: Support, seed: int) -> Points:
    """Points around where the layer's inverse puts what is drawn on its codomain, and wider."""
    shape = flow.event_shape
    plain = Points(flow.domain, shape, 0.0, WIDER)
    if not offers(flow, TwoWay) or flow.domain.kind != "real":
        return plain
    latents = drawn_on(inside, flow.latent_shape, np.random.default_rng(seed), 2000)
    out, refused = attempt(flow.pull, latents, seed + 1, None)
    if refused:
        return plain
    x: Array = np.asarray(out.value, dtype=np.float64).reshape(len(latents), -1)
    if not np.isfinite(x).all() or x.shape[1] != math.prod(shape):
        return plain
    low, center, high = np.quantile(x, (0.25, 0.5, 0.75), axis=0)
    # Half of Student's t lies within 0.73 of its middle.
    spread = np.maximum((high - low) / (2 * 0.7267 if FREEDOM == 5 else 1.35), 1e-3)
    return Points(flow.domain, shape, center.reshape(shape), WIDER * spread.reshape(shape))
