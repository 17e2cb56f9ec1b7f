"""The base distributions of nflows, as densities."""

from __future__ import annotations

import math
from typing import Any

from flowref.adapters.common.nflows_family import calls
from flowref.adapters.common.nflows_family.facts import context_shape
from flowref.adapters.common.object_components import Constructions, lineage
from flowref.adapters.common.shapes import unknown_shape
from flowref.model import Dialect, Facts, Shape

BASE = Dialect(
    log_prob=calls.flow_log_prob,
    sample=calls.flow_sample,
    sample_log_prob=calls.flow_sample_log_prob,
)
# Its sampler raises NotImplementedError.
UNSAMPLED = Dialect(log_prob=calls.flow_log_prob)
# Probability masses of classes rather than densities.
DISCRETE = frozenset({"ConditionalIndependentBernoulli"})


def constructions() -> Constructions:
    """Name -> (builder, event shape); by default ``(features,)``."""
    import torch
    from nflows import distributions as nd

    def diagonal(features: int = 4) -> Any:
        base = nd.DiagonalNormal([features])
        for parameter in base.parameters():
            torch.nn.init.normal_(parameter, 0.0, 0.5)
        return base

    def conditional(features: int = 4, context_features: int = 3) -> Any:
        encoder = torch.nn.Linear(context_features, 2 * features)
        return nd.ConditionalDiagonalNormal([features], encoder)

    def mixture(features: int = 3, hidden: int = 16, context_features: int = 2) -> Any:
        return nd.MADEMoG(features, hidden, context_features, num_mixture_components=2)

    return {
        "StandardNormal": lambda features=4: nd.StandardNormal([features]),
        "StandardNormal[img]": (lambda: nd.StandardNormal([2, 2, 2]), (2, 2, 2)),
        "DiagonalNormal": diagonal,
        "ConditionalDiagonalNormal[ctx]": conditional,
        "MADEMoG[ctx]": mixture,
    }


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a base distribution, or None."""
    from nflows.distributions import Distribution

    if not isinstance(obj, Distribution) or lineage(obj) & DISCRETE:
        return None
    return UNSAMPLED if "DiagonalNormal" in lineage(obj) else BASE


def dialect(name: str) -> Dialect:
    return UNSAMPLED if name == "DiagonalNormal" else BASE


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a base distribution, with the event shape that it states."""
    shape, context = event_shape or getattr(obj, "_shape", None), context_shape(obj)
    if "MADEMoG" in lineage(obj):
        made = obj._made
        shape = event_shape or (int(made.features),)
    if shape is None or not math.prod(shape):
        raise unknown_shape(obj)
    sizes = tuple(int(size) for size in shape)
    return Facts(event_shape=sizes, latent_shape=sizes, context_shape=context)
