"""What is drawn backward and what is weighed forward are one joint distribution."""

from __future__ import annotations

from typing import cast

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.contribution.bounded import bounded_means
from flowref.laws.contribution.calls import Given
from flowref.laws.contribution.features import features
from flowref.laws.contribution.filling import filled
from flowref.laws.contribution.integral import ERRORS, SHARE, STAGES, UNEVEN, few_entries
from flowref.laws.contribution.sets import drawn_on
from flowref.laws.contribution.tails import infinite_variance
from flowref.laws.contribution.weighing import weighed
from flowref.model import STATISTICAL, Batch, Residual, Support, Undecidable, law
from flowref.model.abilities import TwoWay

# From this share of what accuses on more draws are taken.
CONSPICUOUS = 0.5


@law(
    "contribution/two-ways",
    tolerance=STATISTICAL,
    local=False,
    scales=(0.0, 0.3),
    effort=2,
    size=1,
    applies=few_entries,
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
    excess, apart, error, uneven = 0.0, 0.0, 0.0, False
    flow = cast(TwoWay, Given(flow, batch))
    inside = filled(flow, batch.seed)
    try:
        for stage, count in enumerate(STAGES):
            apart, error, uneven = gap(flow, inside, count, batch.seed + 1000 * stage)
            excess = apart / max(ERRORS * error, SHARE)
            if excess <= CONSPICUOUS:
                break
        if excess > 1 and uneven:
            raise Undecidable("its weights are uneven: they may miss what is rarely drawn")
    except Undecidable:
        if (found := by_bounded(flow, inside, batch.seed)) is None:
            raise
        return found
    if uneven and (found := by_bounded(flow, inside, batch.seed)) is not None:
        return found
    return Residual(
        np.array([excess]),
        allowed=1.0,
        observed={"difference": np.array([apart]), "standard error": np.array([error])},
        note=f"a bounded function of the data has means {apart:.3g} apart, give or take {error:.2g}",
        road=f"a difference of {max(ERRORS * error, SHARE):.2g} would have been seen",
    )


def by_bounded(flow: TwoWay, inside: Support, seed: int) -> Residual | None:
    """What bounded weights accuse of; None where they show nothing."""
    means = bounded_means(flow, inside, seed + 5000)
    if means is None or means.excess <= 1:
        return None
    return Residual(
        np.array([means.excess]),
        allowed=1.0,
        observed={
            "difference": np.array([means.apart]),
            "standard error": np.array([means.error]),
        },
        note=f"a bounded function of the data has means {means.apart:.3g} apart, give or take "
        f"{means.error:.2g}, where no weight counts more than 1 and the mean weight is {means.common:.2g}",
    )


def gap(flow: TwoWay, inside: Support, count: int, seed: int) -> tuple[float, float, bool]:
    """The difference of means that is largest beside its standard error, that, and whether weights are
    spread so far that rare ones may be missing.
    """
    proposal, x, log_w = weighed(flow, inside, count, seed)
    latents = drawn_on(inside, flow.latent_shape, np.random.default_rng(seed + 7), count)
    drawn, refused = attempt(flow.pull, latents, seed + 8, None)
    if refused:
        raise Undecidable(f"inverse refuses points of the declared codomain ({refused})")
    there = np.asarray(drawn.value, dtype=np.float64)
    if not np.isfinite(there).all() or there.shape != x.shape:
        raise Undecidable("inverse gives no finite data of the shape of events")
    center, spread = np.asarray(proposal.center), np.asarray(proposal.spread)
    weights = np.exp(log_w)
    total = weights.mean()
    forward, backward = features((x - center) / spread), features((there - center) / spread)
    # Means by weights that are divided by their sum: what all of them lack is another law's affair.
    means = (weights[:, None] * forward).mean(0) / total
    rest = weights[:, None] * (forward - means) / total
    errors = np.sqrt((rest.var(0) + backward.var(0)) / count)
    apart = np.abs(means - backward.mean(0))
    worst = int(np.argmax(apart / np.maximum(ERRORS * errors, SHARE)))
    uneven = bool(weights.std() > UNEVEN * total) or infinite_variance(weights)
    return float(apart[worst]), float(errors[worst]), uneven
