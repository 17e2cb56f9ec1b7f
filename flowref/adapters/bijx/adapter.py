"""bijx: bijections, and distributions transformed by one, whose forward call maps latents to data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowref.adapters.bijx import calls, constructions
from flowref.adapters.bijx.facts import describe
from flowref.adapters.common.jax_facts import built_in_double
from flowref.adapters.common.object_components import lineage
from flowref.model import Adapter, Component, Dialect

BIJECTION = Dialect(
    forward=calls.forward,
    inverse=calls.inverse,
    parts=calls.parts,
    chain=calls.chain,
    invert=calls.invert,
    normalizing="inverse",
)
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
DENSITY = Dialect(log_prob=calls.log_prob, sample=calls.sample)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a bijection or distribution, or None."""
    names = lineage(obj)
    if "Bijection" in names:
        return BIJECTION
    if "Transformed" in names:
        return FLOW
    return DENSITY if "Distribution" in names else None


def components() -> Mapping[str, Component]:
    """The bijections, flows and distributions of the library."""
    return built_in_double(
        describe,
        (BIJECTION, constructions.bijections()),
        (FLOW, constructions.flows()),
        (DENSITY, constructions.distributions()),
        compiled=True,
    )


ADAPTER = Adapter(
    name="bijx",
    package="bijx",
    title="bijx",
    components=components,
    recognizes=recognizes,
    describe=describe,
    backend="jax",
    # The inverse of its spline has a constant outside the root: a known bug.
    healthy=lambda: ("AffineLinear", "Chain", "coupling_flow[affine]"),
)
