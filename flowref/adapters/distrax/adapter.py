"""distrax: bijectors and distributions, some of them transformed by a bijector; called as in TensorFlow
Probability.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowref.adapters.common import jax_distributions
from flowref.adapters.common.jax_facts import built_in_double
from flowref.adapters.common.object_components import lineage
from flowref.adapters.distrax import calls, constructions
from flowref.adapters.distrax.facts import describe, discrete, flow
from flowref.model import Adapter, Component, Dialect

BIJECTOR = Dialect(
    forward=calls.forward,
    inverse=calls.inverse,
    parts=calls.parts,
    chain=calls.chain,
    invert=calls.invert,
    normalizing="inverse",
)
DENSITY = Dialect(
    log_prob=calls.log_prob,
    sample=jax_distributions.sample,
    sample_log_prob=calls.sample_log_prob,
    stated=jax_distributions.stated,
)
UNIVARIATE = replace(DENSITY, cdf=jax_distributions.cdf)
FLOW = replace(
    DENSITY,
    forward=calls.flow_forward,
    inverse=calls.flow_inverse,
    base_log_prob=calls.base_log_prob,
    base_sample=calls.base_sample,
    normalizing="inverse",
)
DISCRETE = Dialect(sample=jax_distributions.sample)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a bijector or a distribution, or None."""
    names = lineage(obj)
    if "Bijector" in names:
        return BIJECTOR
    if "Distribution" not in names:
        return None
    if discrete(obj):
        return DISCRETE
    if flow(obj):
        return FLOW
    numbers = not jax_distributions.event_of(obj)
    return UNIVARIATE if numbers and jax_distributions.offers(obj, "cdf") else DENSITY


def components() -> Mapping[str, Component]:
    """The bijectors and the distributions of the library."""
    return built_in_double(
        describe,
        (BIJECTOR, constructions.bijectors()),
        (FLOW, constructions.flows()),
        (DENSITY, constructions.distributions()),
        (UNIVARIATE, constructions.univariate()),
    )


ADAPTER = Adapter(
    name="distrax",
    package="distrax",
    title="distrax",
    components=components,
    recognizes=recognizes,
    describe=describe,
    backend="jax",
    extra="tfp",
    # Its Sigmoid is approximate below -9: a known bug.
    healthy=lambda: ("Tanh", "Chain", "MaskedCoupling", "distributions.Normal"),
)
