"""Errors of a solver's steps in densities and samples: what falls as it takes more of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.laws.common.quadrature import mass_apart
from flowref.model import Batch
from flowref.model.abilities import Density, Flow, Refinable, Sampler, offers

# With so many times the steps of a solver its error falls to a quarter of itself or less, whatever its order;
# and which share of it may be left, with room for what it is seen with.
STEPS, LEFT = 4, 0.35
# Samples that are drawn again in more steps; and which share of an error these have to move samples, beside
# their spread, or the mass, so that it may be theirs.
DRAWN, TELLING = 512, 0.1


def mass_of_steps(flow: Density, batch: Batch, off: float) -> bool:
    """Whether what the mass is off by falls as a solver takes more steps, of which nobody states how
    accurate it is.
    """
    fallen = _refined(flow, lambda finer: mass_apart(flow, finer, batch))
    return fallen is not None and abs(off - fallen) <= LEFT * abs(off)


def samples_of_steps(
    flow: Density, batch: Batch, off: float, again: Callable[[Any], tuple[float, float]]
) -> bool:
    """The same of what samples are off their density by; ``again``: by how much they are for another flow, and
    what that is uncertain by.

    What falls is of the steps only where these change the samples, or the mass, by as much. A density that
    takes a step less than its sampler is off by less in more steps, and its mass and its samples are not.
    """

    def of_steps(finer: Flow) -> float:
        left, unsure = again(finer)
        fell = left - unsure <= LEFT * off
        return float(fell and (_moved(flow, finer, batch) >= TELLING * off))

    return bool(_refined(flow, of_steps))


def _moved(flow: Density, finer: Flow, batch: Batch) -> float:
    """How far more steps move samples, beside their spread, or the mass, whichever is more; infinite where
    neither can be told.
    """
    found = []
    if offers(flow, Sampler) and offers(finer, Sampler) and batch.context is None:
        one, other = (np.asarray(of.sample(DRAWN, batch.seed, None)) for of in (flow, finer))
        spread = np.ptp(np.quantile(one, (0.1, 0.9), axis=0), axis=0)
        found.append(float(np.sqrt(np.mean(((one - other) / spread) ** 2))))
    if math.prod(flow.density_shape) <= 2:
        found.append(abs(mass_apart(flow, finer, batch)))
    else:
        found.append(math.inf)
    return max(found)


def _refined(flow: Flow, measure: Callable[[Flow], float]) -> float | None:
    """What is measured with more steps; None where nothing tells how to take them."""
    if not offers(flow, Refinable):
        return None
    try:
        finer = flow.refined(STEPS)
        return None if finer is None else measure(finer)
    except Exception:  # more steps may take more than there is
        return None
