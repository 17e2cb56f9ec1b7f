"""glasflow: flows from data to latents, and its bundled copy of nflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common.nflows_family import calls
from flowref.adapters.common.nflows_family.constructions import components as transforms
from flowref.adapters.common.nflows_family.facts import context_shape, describe
from flowref.adapters.common.object_components import components_of
from flowref.adapters.common.published_models import components_of_models
from flowref.adapters.glasflow import constructions, published_models
from flowref.model import Adapter, Component, Dialect


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.forward(x, conditional=context)


def inverse(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.inverse(z, conditional=context)


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.log_prob(x, conditional=context)


def sample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.sample(n, conditional=context)


def sample_log_prob(obj: Any, n: int, context: Any = None) -> Any:
    """Draw points ``(n, *event)`` with their log-densities."""
    return obj.sample_and_log_prob(n, conditional=context)


def base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.base_distribution_log_prob(z)


def chain(parts: Sequence[Any]) -> Any:
    """Compose transforms, first element first."""
    from glasflow.nflows.transforms import CompositeTransform

    return CompositeTransform(parts)


def invert(obj: Any) -> Any:
    """Wrap a transform in its inverse."""
    from glasflow.nflows.transforms import InverseTransform

    return InverseTransform(obj)


def rescale(obj: Any, factor: float) -> Any:
    """The flow of data multiplied by a factor."""
    from glasflow.flows.base import Flow
    from glasflow.nflows.transforms import CompositeTransform, PointwiseAffineTransform

    return Flow(
        CompositeTransform([PointwiseAffineTransform(0.0, 1 / factor), obj._transform]),
        obj._distribution,
    )


TRANSFORM = replace(calls.TRANSFORM, chain=chain, invert=invert)
COMPOSITE = replace(TRANSFORM, parts=calls.parts)
BUNDLED_FLOW = replace(calls.FLOW, chain=chain, base_sample=None)
BUNDLED_CONDITIONAL = replace(BUNDLED_FLOW, parts=None, chain=None)
FLOW = replace(
    calls.FLOW,
    forward=forward,
    inverse=inverse,
    log_prob=log_prob,
    sample=sample,
    sample_log_prob=sample_log_prob,
    base_log_prob=base_log_prob,
    rescale=rescale,
    chain=chain,
)
CONDITIONAL = replace(FLOW, parts=None, chain=None)


def components() -> Mapping[str, Component]:
    """The flows of glasflow, and all transforms of the bundled nflows under the prefix ``nflows.``."""
    return {
        **components_of(constructions.flows(), FLOW, describe, constructions.promised),
        **components_of(constructions.conditional_flows(), CONDITIONAL, describe),
        **transforms("glasflow.nflows", TRANSFORM, COMPOSITE, "nflows."),
    }


def models() -> Mapping[str, Component]:
    """Flows of published size."""
    return components_of_models(published_models.models(), FLOW, describe)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a glasflow flow, or of a transform or flow of the bundled nflows, or None."""
    from glasflow.flows.base import Flow
    from glasflow.nflows.flows import Flow as BundledFlow
    from glasflow.nflows.transforms import CompositeTransform, Transform

    if isinstance(obj, Flow):
        return FLOW if context_shape(obj) is None else CONDITIONAL
    if isinstance(obj, BundledFlow):
        return BUNDLED_FLOW if context_shape(obj) is None else BUNDLED_CONDITIONAL
    if isinstance(obj, CompositeTransform):
        return COMPOSITE
    return TRANSFORM if isinstance(obj, Transform) else None


ADAPTER = Adapter(
    name="glasflow",
    package="glasflow",
    title="glasflow",
    components=components,
    published=models,
    recognizes=recognizes,
    describe=describe,
)
