"""Pyro: transform modules, also conditional ones, whose forward call maps latents to data, and densities
over them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common import torch_dialects
from flowref.adapters.common.object_components import components_of
from flowref.adapters.common.published_models import components_of_models
from flowref.adapters.pyro import constructions, published_models
from flowref.adapters.pyro.facts import NO_INVERSE, describe, describe_users, is_flow, one_way
from flowref.model import Adapter, Component, Dialect


def conditional_forward(obj: Any, x: Any, context: Any = None) -> Any:
    transform = obj.condition(context)
    y = transform(x)
    return y, transform.log_abs_det_jacobian(x, y)


def conditional_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    transform = obj.condition(context).inv
    x = transform(y)
    return x, transform.log_abs_det_jacobian(y, x)


def chain(parts: Sequence[Any]) -> Any:
    from pyro.distributions import torch_transform

    compose: Any = torch_transform.ComposeTransformModule
    return compose(list(parts))


def rescale(obj: Any, factor: float) -> Any:
    from pyro.distributions import TransformedDistribution
    from torch.distributions import AffineTransform

    return TransformedDistribution(obj, [AffineTransform(0.0, factor)])


def conditional_log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.condition(context).log_prob(x)


def conditional_sample(obj: Any, n: int, context: Any = None) -> Any:
    # One context per sample, so that the base is drawn once for each.
    return obj.condition(context).sample((n,))


def stated(obj: Any) -> Any:
    """The stated moments. By its own note, the covariance matrix of a multivariate Student t is not its
    covariance but that of the normal inside.
    """
    from pyro.distributions import MultivariateStudentT

    name = "covariance_matrix"
    own = inspect.getattr_static(MultivariateStudentT, name, None)
    other = inspect.getattr_static(type(obj), name, None) is own is not None
    return torch_dialects.distribution_moments(obj, (name,) if other else ())


TRANSFORM = replace(torch_dialects.TRANSFORM, chain=chain)
# Without an inverse, warm-up uses the only call.
ONE_WAY = Dialect(
    forward=torch_dialects.forward, chain=chain, log_det_by_method=torch_dialects.log_det_by_method
)
CONDITIONAL = Dialect(
    forward=conditional_forward, inverse=conditional_inverse, normalizing="inverse"
)
CONDITIONAL_ONE_WAY = Dialect(forward=conditional_forward)
DENSITY = replace(
    torch_dialects.DENSITY,
    expanded=torch_dialects.expanded,
    rescale=rescale,
    stated=stated,
)
CONDITIONAL_DENSITY = Dialect(log_prob=conditional_log_prob, sample=conditional_sample)
FLOW = replace(
    torch_dialects.FLOW,
    rsample=torch_dialects.rsample,
    expanded=torch_dialects.expanded,
    rescale=rescale,
)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a bijective transform, conditional or not, or of a density, or None."""
    from pyro.distributions.conditional import ConditionalDistribution, ConditionalTransform
    from torch.distributions import Distribution, Transform

    if isinstance(obj, ConditionalTransform):
        return CONDITIONAL_ONE_WAY if one_way(obj) else CONDITIONAL
    if isinstance(obj, ConditionalDistribution):
        return CONDITIONAL_DENSITY
    if isinstance(obj, Transform):
        return (ONE_WAY if one_way(obj) else TRANSFORM) if obj.bijective else None
    if isinstance(obj, Distribution):
        return FLOW if is_flow(obj) else DENSITY
    return None


def components() -> Mapping[str, Component]:
    """The transforms of the library, and densities over some of them."""
    return {
        **components_of(constructions.transforms(), _transform_dialect, describe),
        **components_of(constructions.conditionals(), _conditional_dialect, describe),
        **components_of(
            constructions.densities(), lambda name: DENSITY if "exp" in name else FLOW, describe
        ),
    }


def models() -> Mapping[str, Component]:
    """Densities of published size."""
    return components_of_models(published_models.models(), FLOW, describe)


def _transform_dialect(name: str) -> Dialect:
    one_way = name.partition("[")[0] in NO_INVERSE or name == "MatrixExponential"
    return ONE_WAY if one_way else TRANSFORM


def _conditional_dialect(name: str) -> Dialect:
    one_way = name.removeprefix("Conditional") in NO_INVERSE
    return CONDITIONAL_ONE_WAY if one_way else CONDITIONAL


ADAPTER = Adapter(
    name="pyro",
    package="pyro",
    title="Pyro",
    components=components,
    published=models,
    recognizes=recognizes,
    describe=describe_users,
)
