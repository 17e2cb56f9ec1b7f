"""FlowJAX: bijections, and distributions transformed by one, whose forward call maps latents to data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowref.adapters.common.jax_facts import built_in_double
from flowref.adapters.common.object_components import lineage
from flowref.adapters.flowjax import calls, constructions
from flowref.adapters.flowjax.facts import describe, iterating, one_way
from flowref.model import Adapter, Component, Dialect

BIJECTION = Dialect(
    forward=calls.forward,
    inverse=calls.inverse,
    parts=calls.parts,
    chain=calls.chain,
    invert=calls.invert,
    normalizing="inverse",
)
# It has no inverse.
ONE_WAY = Dialect(forward=calls.forward, normalizing="inverse")
FLOW = Dialect(
    forward=calls.flow_forward,
    inverse=calls.flow_inverse,
    log_prob=calls.log_prob,
    sample=calls.sample,
    sample_log_prob=calls.sample_log_prob,
    base_log_prob=calls.base_log_prob,
    base_sample=calls.base_sample,
    normalizing="inverse",
)
# Samples with log-densities are found by bisection.
BISECTED_FLOW = replace(FLOW, sample_log_prob=None)
DENSITY = Dialect(
    log_prob=calls.log_prob, sample=calls.sample, sample_log_prob=calls.sample_log_prob
)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a bijection or a distribution, or None."""
    names = lineage(obj)
    if "AbstractBijection" in names:
        return ONE_WAY if one_way(obj) else BIJECTION
    if "AbstractTransformed" in names:
        # The log-density uses the inverse of the bijection, samples use forward.
        return BISECTED_FLOW if iterating(obj.bijection) else FLOW
    return DENSITY if "AbstractDistribution" in names else None


def components() -> Mapping[str, Component]:
    """The bijections, the flows and the distributions of the library."""
    flows = constructions.flows()
    bisected = {name: flows[name] for name in flows if name.startswith("block_neural")}
    return built_in_double(
        describe,
        (BIJECTION, constructions.bijections()),
        (ONE_WAY, constructions.one_way()),
        (FLOW, flows),
        (BISECTED_FLOW, bisected),
        (FLOW, constructions.distributions()),
        (DENSITY, constructions.densities()),
    )


ADAPTER = Adapter(
    name="flowjax",
    package="flowjax",
    title="FlowJAX",
    components=components,
    recognizes=recognizes,
    describe=describe,
    backend="jax",
    healthy=lambda: (
        "Affine",
        "TriangularAffine",
        "Chain",
        "Tanh",
        "Coupling[affine]",
        "LogNormal",
        "MaskedAutoregressive[cond]",
        "RationalQuadraticSpline",
        "coupling_flow",
        "coupling_flow[cond]",
    ),
)
