"""torchflows: bijections from data to latents over any batch shape, and flows over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common import torch_dialects
from flowref.adapters.common.object_components import components_of, lineage, numbered
from flowref.adapters.common.published_models import components_of_models
from flowref.adapters.torchflows import bases, constructions, published_models
from flowref.adapters.torchflows.facts import describe
from flowref.model import Adapter, Component, Dialect, Facts, Shape


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.forward(x, context=context)


def inverse(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.inverse(z, context=context)


def parts(obj: Any) -> Any:
    return numbered(obj.layers)


def chain(parts: Sequence[Any]) -> Any:
    """Compose bijections, first element first."""
    from torchflows.bijections.base import BijectiveComposition

    return BijectiveComposition(list(parts))


def invert(obj: Any) -> Any:
    """A copy with its two calls exchanged."""
    from copy import deepcopy

    from torchflows.bijections.base import invert

    return invert(deepcopy(obj))  # it exchanges the calls of its argument in place


def flow_forward(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.bijection.forward(x, context=context)


def flow_inverse(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.bijection.inverse(z, context=context)


def flow_log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.log_prob(x, context=context)


def flow_sample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.sample((n,), context=context)


def flow_sample_log_prob(obj: Any, n: int, context: Any = None) -> Any:
    return obj.sample(n, context=context, return_log_prob=True)


def flow_base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.base_log_prob(z)


def flow_base_sample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.base_sample((n,))


def flow_parts(obj: Any) -> Any:
    """The layers that a flow applies to data, in order."""
    layers = getattr(obj.bijection, "layers", [obj.bijection])
    return numbered(layers)


def continuous_log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    """The log-density of data, which this flow returns in a list."""
    return obj.log_prob(x, context=context)[0]


BIJECTION = Dialect(forward=forward, inverse=inverse, chain=chain, invert=invert)
COMPOSITE = replace(BIJECTION, parts=parts)
# Planar, radial and Sylvester bijections have one direction: the inverse, unless built with
# inverse=True.
ONLY_INVERSE = Dialect(forward=inverse)
ONLY_FORWARD = Dialect(forward=forward)
FLOW = Dialect(
    forward=flow_forward,
    inverse=flow_inverse,
    log_prob=flow_log_prob,
    sample=flow_sample,
    sample_log_prob=flow_sample_log_prob,
    base_log_prob=flow_base_log_prob,
    base_sample=flow_base_sample,
    parts=flow_parts,
    chain=chain,
)
CONTINUOUS_FLOW = replace(FLOW, log_prob=continuous_log_prob, parts=None, chain=None)

ONE_WAY = ("Planar", "Radial", "Sylvester")
COMPOSITES = ("arch.", "multiscale.Normalized")


def components() -> Mapping[str, Component]:
    """All bijections of the library, and flows over some architectures."""
    promised = constructions.promised
    return {
        **components_of(constructions.bijections(), _bijection_dialect, describe, promised),
        **components_of(constructions.flows(), FLOW, describe),
        **components_of(bases.constructions(), torch_dialects.DENSITY, bases.describe),
    }


def models() -> Mapping[str, Component]:
    """Flows of published size."""
    return {
        **components_of_models(published_models.models(), FLOW, describe),
        **components_of_models(published_models.continuous_models(), CONTINUOUS_FLOW, describe),
    }


def _bijection_dialect(name: str) -> Dialect:
    if any(kind in name for kind in ONE_WAY):
        return ONLY_INVERSE
    return COMPOSITE if name.startswith(COMPOSITES) else BIJECTION


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a bijection or a flow of torchflows, or None."""
    from torch.distributions import Distribution
    from torchflows.bijections.base import Bijection, BijectiveComposition
    from torchflows.flows import Flow

    if "ContinuousFlow" in lineage(obj):  # missing in older versions
        return CONTINUOUS_FLOW
    if isinstance(obj, Flow):
        return FLOW if _one_way(obj.bijection) is None else None
    if isinstance(obj, Distribution):
        return torch_dialects.DENSITY
    if not isinstance(obj, Bijection):
        return None
    return _one_way(obj) or (COMPOSITE if isinstance(obj, BijectiveComposition) else BIJECTION)


def _one_way(obj: Any) -> Dialect | None:
    from torchflows.bijections.finite.residual.base import ClassicResidualBijection

    for module in obj.modules():
        if isinstance(module, ClassicResidualBijection):
            return ONLY_FORWARD if "forward" in vars(module) else ONLY_INVERSE
    return None


def describe_any(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a bijection, a flow or a base distribution."""
    from torch.distributions import Distribution

    return (bases.describe if isinstance(obj, Distribution) else describe)(obj, event_shape)


ADAPTER = Adapter(
    name="torchflows",
    package="torchflows",
    title="torchflows",
    components=components,
    published=models,
    recognizes=recognizes,
    describe=describe_any,
)
