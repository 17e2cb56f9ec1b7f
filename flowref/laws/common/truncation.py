"""Discretisation errors of solvers in densities and samples: errors that fall as the solver takes
more steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.laws.common.quadrature import mass_apart
from flowref.model import Batch
from flowref.model.abilities import Density, Flow, Refinable, Sampler, offers

# With this many times the steps the error of a solver falls to a quarter or less, at any order; and
# the share that may be left, with some room for the measurement.
STEPS, LEFT = 4, 0.35
# Samples drawn again with more steps; and the share of an error by which more steps must move
# samples (relative to their spread) or mass to explain it.
DRAWN, RELEVANT = 512, 0.1


def mass_of_steps(flow: Density, batch: Batch, off: float) -> bool:
    """Whether the error of the mass falls as a solver of unknown accuracy takes more steps."""
    fallen = _refined(flow, lambda finer: mass_apart(flow, finer, batch))
    return fallen is not None and abs(off - fallen) <= LEFT * abs(off)


def samples_of_steps(
    flow: Density, batch: Batch, off: float, again: Callable[[Any], tuple[float, float]]
) -> bool:
    """Whether the deviation of samples from their density falls with more steps. ``again``: the
    deviation for another flow, and its uncertainty.

    Discretisation explains it only if more steps change the samples, or the mass, by as much. A
    density with one step less than its sampler is off by less with more steps, while mass and
    samples are unchanged.
    """

    def of_steps(finer: Flow) -> float:
        left, unsure = again(finer)
        fell = left - unsure <= LEFT * off
        return float(fell and (_moved(flow, finer, batch) >= RELEVANT * off))

    return bool(_refined(flow, of_steps))


def _moved(flow: Density, finer: Flow, batch: Batch) -> float:
    """The larger change of samples, relative to their spread, and of mass with more steps;
    infinite if neither is known.
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
    """The measurement with more steps; None if the steps cannot be changed."""
    if not offers(flow, Refinable):
        return None
    try:
        finer = flow.refined(STEPS)
        return None if finer is None else measure(finer)
    except Exception:  # more steps may exceed the budget
        return None
