"""Constructions of the flows of nflows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def flows() -> dict[str, Callable[..., Any]]:
    """Name -> builder, for flows without a context."""
    return {
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
    }


def conditional_flows() -> dict[str, Callable[..., Any]]:
    """Name -> builder, for flows with a context."""
    return {"Flow[ctx]": _conditional_flow}


def promised(name: str) -> dict[str, bool]:
    """Promises implied by a flow's name: its couplings transform every entry."""
    return {"transforms-all": True} if name.startswith("SimpleRealNVP") else {}


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
