"""Log-densities that are estimated, beside their samples: on average they are those of what is sampled."""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.density.bound_at_samples import LARGEST, Held, beside_samples
from flowref.laws.density.consistency import SampledDensity, few_entries, unconditional
from flowref.laws.density.lower_bound import DRAWS
from flowref.model import (
    STATISTICAL,
    VOLUME,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Flow

# e to a mean over draws is known where these scatter no more.
SCATTER = 0.1
# The share of a mass that is allowed: where the estimate is promised to be without bias, where it is
# integrated step by step, and where it may be a series that is cut.
UNBIASED, INTEGRATED, CUT = 0.03, 0.1, 0.5


@requires("its log-density is no estimate")
def estimated_density(flow: Flow) -> bool:
    """A log-density that is exact is held to more, and a bound to what it is."""
    promises = flow.promises
    return bool(promises.get("estimator")) and not promises.get("lower-bound")


@law(
    "density/estimate-at-samples",
    about=VOLUME,
    points="data",
    tolerance=STATISTICAL,
    local=False,
    scales=(0.0, 0.3),
    size=1,
    effort=2,
    applies=estimated_density & few_entries & unconditional,
    source="Grathwohl et al., FFJORD (arXiv:1810.01367), section 3.1: the estimate of the log-density has the "
    "log-density as its mean",
)
def estimate_at_samples(flow: SampledDensity, batch: Batch) -> Residual:
    r"""An estimated log-density V is on average that of what is sampled:
    $\int e^{E[V(x)]}\,k(x)\,dx = E_{x \sim sample}[k(x)]$ for bumps k around samples, within a tenth where
    it is integrated step by step and a half where it may be a series that is cut.

    Two stages; violated only if a larger one with fresh draws confirms.
    """
    if math.prod(flow.density_shape) > LARGEST:
        raise Unsupported(f"its events have more than {LARGEST} entries", waits=True)
    if scattered(flow, batch) > SCATTER * DRAWS:
        raise Undecidable("its estimates scatter too much to know e to their mean")
    return beside_samples(flow, batch, Held(True, DRAWS, 0.5, share_of(flow)), "the estimate")


def scattered(flow: SampledDensity, batch: Batch) -> float:
    """The variance of the estimates at samples, as it is at most of them."""
    x = np.asarray(flow.sample(DRAWS, batch.seed, None), dtype=np.float64)
    told = np.asarray(flow.log_prob(np.repeat(x, DRAWS, 0), None), dtype=np.float64)
    return float(np.median(told.reshape(len(x), -1).var(1, ddof=1)))


def share_of(flow: SampledDensity) -> float:
    """The share of a mass that an estimate may be off by on average."""
    if flow.promises.get("unbiased-log-det"):
        return UNBIASED
    return INTEGRATED if flow.promises.get("log-det-tolerance") else CUT
