"""nflows: transforms that map data to latents, and flows over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common import nflows_constructions as constructions
from flowref.adapters.common import nflows_family as family
from flowref.adapters.common.described import described
from flowref.model import Adapter, Component, Dialect


def chain(parts: Sequence[Any]) -> Any:
    """Compose transforms, first first."""
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


TRANSFORM = Dialect(
    forward=family.forward, inverse=family.inverse, chain=chain, invert=invert, repair=family.repair
)
COMPOSITE = replace(TRANSFORM, parts=family.parts)
FLOW = Dialect(
    forward=family.flow_forward,
    inverse=family.flow_inverse,
    log_prob=family.flow_log_prob,
    sample=family.flow_sample,
    base_log_prob=family.flow_base_log_prob,
    base_sample=family.flow_base_sample,
    rescale=rescale,
    parts=family.flow_parts,
    chain=chain,
    repair=family.repair,
)
CONDITIONAL = replace(FLOW, parts=None, chain=None)


def components() -> Mapping[str, Component]:
    """Every transform of the library, and flows over some of them."""
    found = {}
    for name, (build, event) in constructions.transforms("nflows").items():
        composite = name.startswith("Composite")
        found[name] = described(
            name, build, COMPOSITE if composite else TRANSFORM, family.describe, event
        )
    for name, build in {
        "Flow": _flow,
        "Flow[features=2]": lambda features=2, hidden=16: _flow(features, hidden),
        "SimpleRealNVP": _real_nvp,
        "SimpleRealNVP[features=2]": lambda features=2, hidden=16: _real_nvp(features, hidden),
        "SimpleRealNVP[batch_norm]": lambda features=4, hidden=16: _real_nvp(
            features, hidden, batch_norm=True
        ),
        "MaskedAutoregressiveFlow": _autoregressive_flow,
        "MaskedAutoregressiveFlow[features=2]": lambda features=2, hidden=16: _autoregressive_flow(
            features, hidden
        ),
    }.items():
        stacked = {"transforms-all": True} if name.startswith("SimpleRealNVP") else {}
        found[name] = described(name, build, FLOW, family.describe, None, **stacked)
    found["Flow[ctx]"] = described("Flow[ctx]", _conditional_flow, CONDITIONAL, family.describe)
    return found


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a transform or a flow of nflows, or None."""
    from nflows.flows import Flow
    from nflows.transforms import CompositeTransform, Transform

    if isinstance(obj, Flow):
        return FLOW if family._context(obj) is None else CONDITIONAL
    if isinstance(obj, CompositeTransform):
        return COMPOSITE
    return TRANSFORM if isinstance(obj, Transform) else None


def _flow(features: int = 4, hidden: int = 16) -> Any:
    from nflows.distributions import StandardNormal
    from nflows.flows import Flow
    from nflows.transforms import (
        CompositeTransform,
        LULinear,
        MaskedPiecewiseRationalQuadraticAutoregressiveTransform,
        ReversePermutation,
    )

    spline = MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
        features, hidden, num_bins=6, num_blocks=1, tails="linear", tail_bound=3.0
    )
    return Flow(
        CompositeTransform([spline, ReversePermutation(features), LULinear(features)]),
        StandardNormal([features]),
    )


def _real_nvp(features: int = 4, hidden: int = 16, batch_norm: bool = False) -> Any:
    from nflows.flows import SimpleRealNVP

    return SimpleRealNVP(
        features, hidden, num_layers=2, num_blocks_per_layer=1, batch_norm_between_layers=batch_norm
    )


def _autoregressive_flow(features: int = 4, hidden: int = 16) -> Any:
    from nflows.flows import MaskedAutoregressiveFlow

    return MaskedAutoregressiveFlow(features, hidden, num_layers=2, num_blocks_per_layer=1)


def _conditional_flow(features: int = 4, hidden: int = 16, context_features: int = 3) -> Any:
    from nflows.distributions import ConditionalDiagonalNormal
    from nflows.flows import Flow
    from nflows.transforms import MaskedAffineAutoregressiveTransform
    from torch import nn

    transform = MaskedAffineAutoregressiveTransform(
        features, hidden, context_features=context_features, num_blocks=1
    )
    return Flow(
        transform, ConditionalDiagonalNormal([features], nn.Linear(context_features, 2 * features))
    )


ADAPTER = Adapter(
    name="nflows",
    package="nflows",
    title="nflows",
    components=components,
    recognizes=recognizes,
    describe=family.describe,
)
