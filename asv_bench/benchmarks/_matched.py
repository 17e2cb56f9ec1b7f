"""Densities of the reference along one network: as the field of a continuous flow, as the velocity of flow matching,
and as the noise of a schedule that preserves the variance.
"""

from __future__ import annotations

import functools

import torch

from flowref import reference as ref

from ._cases import Case, operation
from ._continuous import Field
from ._models import data
from ._peers import Model
from ._sizes import VECTORS
from ._timing import copies, one_thread

TOLERANCE = 1e-4


def density(kind: str, size: str) -> ref.Flow:
    """The density of a kind."""
    architecture = VECTORS[size]
    (features,) = architecture.event
    field = Field(features, architecture.hidden)
    if kind == "continuous":
        cnf = ref.CNF(field, tolerance=TOLERANCE)
        return ref.Flow(ref.StandardNormal(architecture.event), cnf)
    if kind == "matching":
        flow = ref.ProbabilityFlow(field, ref.StraightLine(), tolerance=TOLERANCE)
    else:
        schedule = ref.VariancePreserving()
        flow = ref.ProbabilityFlow(field, schedule, "epsilon", tolerance=TOLERANCE)
    return ref.noise_flow(flow, features)


@functools.cache
def matched(kind: str, op: str, size: str) -> Case:
    """One operation of a kind."""
    one_thread()
    architecture, flow = VECTORS[size], density(kind, size)
    model = Model(flow, flow.log_prob, flow.sample)
    x = data((architecture.batch, *architecture.event), "cpu")
    with torch.no_grad():
        known = model.log_prob(x)
    assert bool(known.isfinite().all()), f"log_prob of {kind} is not finite"
    return Case(operation(model, op, architecture.batch), copies(x, "cpu"), architecture.batch)
