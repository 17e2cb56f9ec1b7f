"""TensorFlow Probability on JAX (`tensorflow_probability.substrates.jax`): bijectors, and distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowref.adapters.common import jax_distributions
from flowref.adapters.common.jax_facts import built_in_double
from flowref.adapters.common.object_components import lineage
from flowref.adapters.tfp import calls, constructions
from flowref.adapters.tfp.facts import describe, discrete, flow, onto_simplex, single
from flowref.model import Adapter, Component, Dialect

BIJECTOR = Dialect(
    forward=calls.forward,
    inverse=calls.inverse,
    parts=calls.parts,
    chain=calls.chain,
    invert=calls.invert,
    normalizing="inverse",
)
SIMPLEX = Dialect(
    forward=calls.simplex_forward, inverse=calls.simplex_inverse, normalizing="inverse"
)
DENSITY = Dialect(
    log_prob=calls.log_prob,
    sample=jax_distributions.sample,
    sample_log_prob=calls.sample_log_prob,
    stated=jax_distributions.stated,
)
UNIVARIATE = replace(DENSITY, cdf=jax_distributions.cdf, icdf=calls.icdf)
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
    """The dialect of a bijector or distribution of the substrate; None for others, and for bijectors of
    several arrays or that are not injective.
    """
    names = lineage(obj)
    if "substrates.jax" not in "".join(kind.__module__ for kind in type(obj).__mro__):
        return None
    if "Bijector" in names:
        if not single(obj):
            return None
        return SIMPLEX if onto_simplex(obj) else BIJECTOR
    if "Distribution" not in names:
        return None
    if discrete(obj):
        return DISCRETE
    return FLOW if flow(obj) else offered(obj)


def offered(obj: Any) -> Dialect:
    """The dialect of a distribution, with the distribution function and quantiles that it offers."""
    there = {
        name: getattr(UNIVARIATE, name)
        for name, method in (("cdf", "cdf"), ("icdf", "quantile"))
        if not jax_distributions.event_of(obj) and jax_distributions.offers(obj, method)
    }
    return replace(DENSITY, **there)


def components() -> Mapping[str, Component]:
    """The bijectors and the distributions of the library."""
    return built_in_double(
        describe,
        (BIJECTOR, constructions.bijectors()),
        (SIMPLEX, constructions.onto_simplex()),
        (FLOW, constructions.flows()),
        (DENSITY, constructions.vectors()),
        (UNIVARIATE, constructions.univariate()),
        (replace(DENSITY, cdf=UNIVARIATE.cdf), constructions.without_quantiles()),
        (DENSITY, constructions.without_functions()),
    )


ADAPTER = Adapter(
    name="tfp",
    package="tensorflow_probability",
    title="TensorFlow Probability",
    components=components,
    recognizes=recognizes,
    describe=describe,
    backend="jax",
    extra="tfp",
    healthy=lambda: ("Exp", "Chain", "ScaleMatvecTriL", "SinhArcsinh", "distributions.Normal"),
)
