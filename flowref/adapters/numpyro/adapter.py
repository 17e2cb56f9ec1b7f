"""NumPyro: transforms and distributions, called like those of torch.distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowref.adapters.common import torch_dialects
from flowref.adapters.common.jax_facts import built_in_double
from flowref.adapters.common.object_components import lineage
from flowref.adapters.numpyro import calls, constructions
from flowref.adapters.numpyro.facts import describe, is_flow, onto_simplex
from flowref.model import Adapter, Component, Dialect

TRANSFORM = replace(
    torch_dialects.TRANSFORM,
    chain=calls.chain,
    sign=calls.sign,
    log_det_by_method=calls.log_det_by_method,
)
# It has no inverse.
ONE_WAY = Dialect(forward=torch_dialects.forward, normalizing="inverse")
SIMPLEX = Dialect(
    forward=calls.simplex_forward, inverse=calls.simplex_inverse, normalizing="inverse"
)
FLOW = Dialect(
    forward=calls.flow_forward,
    inverse=calls.flow_inverse,
    log_prob=torch_dialects.log_prob,
    sample=calls.sample,
    base_log_prob=torch_dialects.flow_base_log_prob,
    base_sample=calls.base_sample,
    normalizing="inverse",
    expanded=torch_dialects.expanded,
    stated=calls.stated,
    rescale=calls.rescale,
)
DENSITY = Dialect(
    log_prob=torch_dialects.log_prob,
    sample=calls.sample,
    expanded=torch_dialects.expanded,
    stated=calls.stated,
    rescale=calls.rescale,
)
UNIVARIATE = replace(DENSITY, cdf=calls.cdf, icdf=calls.icdf)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a transform or a distribution, or None."""
    names = lineage(obj)
    if "Transform" in names:
        if onto_simplex(obj):
            return SIMPLEX
        return ONE_WAY if "BlockNeuralAutoregressiveTransform" in names else TRANSFORM
    if is_flow(obj):
        return FLOW
    if "Distribution" not in names:
        return None
    return replace(DENSITY, cdf=offered(obj, "cdf"), icdf=offered(obj, "icdf"))


def offered(obj: Any, name: str) -> Any:
    """The distribution function or quantiles of a univariate distribution, or None."""
    import jax.numpy as jnp

    if obj.event_shape or obj.batch_shape:
        return None
    try:
        getattr(obj, name)(jnp.asarray(0.5))
    except (NotImplementedError, ImportError):  # some quantiles need another package
        return None
    except ValueError:  # 0.5 is outside the support
        pass
    return getattr(calls, name)


def components() -> Mapping[str, Component]:
    """The transforms and the distributions of the library."""
    return built_in_double(
        describe,
        (TRANSFORM, constructions.transforms()),
        (SIMPLEX, constructions.onto_simplex()),
        (ONE_WAY, constructions.one_way()),
        (FLOW, constructions.flows()),
        (DENSITY, constructions.distributions()),
        (UNIVARIATE, constructions.univariate()),
    )


ADAPTER = Adapter(
    name="numpyro",
    package="numpyro",
    title="NumPyro",
    components=components,
    recognizes=recognizes,
    describe=describe,
    backend="jax",
    healthy=lambda: (
        "AffineTransform", "ComposeTransform", "ExpTransform", "SigmoidTransform", "PermuteTransform",
        "TransformedDistribution[affine]", "distributions.Normal", "distributions.Kumaraswamy",
        "distributions.Normal[0-d]", "distributions.Exponential", "distributions.HalfNormal",
        "distributions.Laplace", "distributions.MultivariateNormal",
    ),
)  # fmt: skip
