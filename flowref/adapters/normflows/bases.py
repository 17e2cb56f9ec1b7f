"""The base distributions of normflows, as densities."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.object_components import Constructions, lineage
from flowref.adapters.common.shapes import unknown_shape
from flowref.adapters.common.torch_supports import interval
from flowref.model import REAL, Dialect, Facts, Shape, Support

# They take class labels in place of contexts, which no law draws.
LABELLED = frozenset({"ClassCondDiagGaussian"})
# Some coordinates are bounded angles; the density outside is not stated to be zero.
PERIODIC = "UniformGaussian"


def log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.log_prob(z) if context is None else obj.log_prob(z, context=context)


def sample(obj: Any, n: int, context: Any = None) -> Any:
    """Draw points ``(n, *event)``, one per context if there are any."""
    return obj.sample(n) if context is None else obj.sample(n, context=context)


def sample_log_prob(obj: Any, n: int, context: Any = None) -> Any:
    return obj(n) if context is None else obj(n, context=context)


BASE = Dialect(log_prob=log_prob, sample=sample, sample_log_prob=sample_log_prob)


def constructions() -> Constructions:
    """Name -> (builder, event shape); by default ``(features,)``."""
    import numpy as np
    import torch
    from normflows.distributions import base as nd

    def uneven(base: Any) -> Any:
        """Parameters away from their initial values, at which they have no effect."""
        for parameter in base.parameters():
            torch.nn.init.normal_(parameter, 0.0, 0.5)
        return base

    def mixture(features: int = 2, modes: int = 3) -> Any:
        places = 3.0 * np.cos(np.arange(modes * features)).reshape(modes, features)
        scales = np.linspace(0.5, 1.5, modes * features).reshape(modes, features)
        return nd.GaussianMixture(modes, features, places, scales, np.arange(1.0, modes + 1))

    def conditional(features: int = 4, context_features: int = 3) -> Any:
        encoder = torch.nn.Linear(context_features, 2 * features)
        return nd.ConditionalDiagGaussian(features, encoder)

    return {
        "DiagGaussian": lambda features=4: uneven(nd.DiagGaussian(features)),
        "DiagGaussian[img]": (lambda: uneven(nd.DiagGaussian((2, 2, 2))), (2, 2, 2)),
        "ConditionalDiagGaussian[ctx]": conditional,
        "Uniform": lambda features=2: nd.Uniform(features, -1.0, 2.0),
        "UniformGaussian": lambda features=3: nd.UniformGaussian(
            features, [1], torch.linspace(0.5, 1.5, features)
        ),
        "GlowBase": (lambda: uneven(nd.GlowBase((2, 2, 2))), (2, 2, 2)),
        "AffineGaussian": (lambda: uneven(nd.AffineGaussian((2, 2, 2), (2, 1, 1))), (2, 2, 2)),
        "GaussianMixture": mixture,
        "GaussianPCA": lambda features=2, rank=1: nd.GaussianPCA(features, rank, 0.5),
    }


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a base distribution, or None."""
    from normflows.distributions import BaseDistribution

    names = lineage(obj)
    if not isinstance(obj, BaseDistribution) or names & LABELLED:
        return None
    if getattr(obj, "num_classes", None) is not None:
        return None
    return BASE


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a base distribution, with the event shape that it states."""
    names = lineage(obj)
    shape = getattr(obj, "shape", getattr(obj, "ndim", getattr(obj, "dim", None)))
    shape = (shape,) if isinstance(shape, int) else shape
    shape = event_shape or (None if shape is None else tuple(int(size) for size in shape))
    if shape is None:
        raise unknown_shape(obj)
    context = _context(obj) if "ConditionalDiagGaussian" in names else None
    support = REAL
    if "Uniform" in names:
        support = interval(float(obj.low.max()), float(obj.high.min()))
    if PERIODIC in names:
        support = _periodic(obj)
    promises = {"truncated-domain": True} if PERIODIC in names else {}
    return Facts(
        event_shape=shape,
        latent_shape=shape,
        domain=support,
        context_shape=context,
        promises=promises,
    )


def _periodic(obj: Any) -> Support:
    """Intervals around zero for uniform coordinates, as wide as their scale; the line for others."""
    widths = dict(zip(obj.ind.tolist(), obj.scale[obj.ind].tolist(), strict=True))
    sets = [
        interval(-widths[i] / 2, widths[i] / 2) if i in widths else REAL for i in range(obj.ndim)
    ]
    return Support.product(sets)


def _context(obj: Any) -> Shape | None:
    """The context shape: the inputs of the encoder's first layer."""
    for module in obj.context_encoder.modules():
        if hasattr(module, "in_features"):
            return (int(module.in_features),)
    raise unknown_shape(obj)
