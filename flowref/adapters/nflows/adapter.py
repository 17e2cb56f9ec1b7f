"""nflows: transforms that map data to latents, and flows over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common.nflows_family import calls
from flowref.adapters.common.nflows_family.constructions import components as transforms
from flowref.adapters.common.nflows_family.facts import context_shape, describe
from flowref.adapters.common.object_components import components_of
from flowref.adapters.common.published_models import components_of_models
from flowref.adapters.nflows import bases, constructions, published_models
from flowref.model import Adapter, Component, Dialect, Facts, Shape


def chain(parts: Sequence[Any]) -> Any:
    """Compose transforms, first element first."""
    from nflows.transforms import CompositeTransform

    return CompositeTransform(parts)


def invert(obj: Any) -> Any:
    """Wrap a transform in its inverse."""
    from nflows.transforms import InverseTransform

    return InverseTransform(obj)


def rescale(obj: Any, factor: float) -> Any:
    """The flow of data multiplied by a factor."""
    from nflows.flows import Flow
    from nflows.transforms import CompositeTransform, PointwiseAffineTransform

    whole = CompositeTransform([PointwiseAffineTransform(0.0, 1 / factor), obj._transform])
    return Flow(whole, obj._distribution, obj._embedding_net)


TRANSFORM = replace(calls.TRANSFORM, chain=chain, invert=invert)
COMPOSITE = replace(TRANSFORM, parts=calls.parts)
FLOW = replace(calls.FLOW, chain=chain, rescale=rescale)
CONDITIONAL = replace(FLOW, parts=None, chain=None)


def components() -> Mapping[str, Component]:
    """All transforms of the library, and flows over some of them."""
    return {
        **transforms("nflows", TRANSFORM, COMPOSITE),
        **components_of(constructions.flows(), FLOW, describe, constructions.promised),
        **components_of(constructions.conditional_flows(), CONDITIONAL, describe),
        **components_of(bases.constructions(), bases.dialect, bases.describe),
    }


def models() -> Mapping[str, Component]:
    """Flows of published size."""
    return components_of_models(published_models.models(), FLOW, describe)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a transform or a flow of nflows, or None."""
    from nflows.flows import Flow
    from nflows.transforms import CompositeTransform, Transform

    if isinstance(obj, Flow):
        return FLOW if context_shape(obj) is None else CONDITIONAL
    if isinstance(obj, CompositeTransform):
        return COMPOSITE
    return TRANSFORM if isinstance(obj, Transform) else bases.recognizes(obj)


def describe_any(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a transform, a flow or a base distribution."""
    of_base = bases.recognizes(obj) is not None and not hasattr(obj, "_transform")
    return (bases.describe if of_base else describe)(obj, event_shape)


ADAPTER = Adapter(
    name="nflows",
    package="nflows",
    title="nflows",
    components=components,
    published=models,
    recognizes=recognizes,
    describe=describe_any,
)
