"""Calls of objects of nflows and its copies. Imports no library."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.object_components import numbered
from flowref.model import Dialect


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    return obj(x, context)


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    return obj.inverse(y, context)


def parts(obj: Any) -> Any:
    """The transforms of a composite, in order."""
    return numbered(getattr(obj, "_transforms", ()))


def repair(obj: Any) -> None:
    """Clear cached weights, as a switch to train mode would."""
    for module in obj.modules():
        if hasattr(module, "using_cache"):
            module.cache.invalidate()


def flow_forward(obj: Any, x: Any, context: Any = None) -> Any:
    """Data ``(n, *event)`` to latents ``(n, *latent)``."""
    return obj._transform(x, context=obj._embedding_net(context))


def flow_inverse(obj: Any, z: Any, context: Any = None) -> Any:
    """Latents ``(n, *latent)`` to data ``(n, *event)``."""
    return obj._transform.inverse(z, context=obj._embedding_net(context))


def flow_log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.log_prob(x, context=context)


def flow_base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return obj._distribution.log_prob(z, context=obj._embedding_net(context))


def flow_sample(obj: Any, n: int, context: Any = None) -> Any:
    """Draw points ``(n, *event)``, divided evenly over the contexts if there are any."""
    if context is None:
        return obj.sample(n)
    draws = obj.sample(n // len(context), context=context)
    return draws.reshape(n, *draws.shape[2:])


def flow_sample_log_prob(obj: Any, n: int, context: Any = None) -> Any:
    """Draw points ``(n, *event)`` with their log-densities, divided evenly over the contexts if there are
    any.
    """
    if context is None:
        return obj.sample_and_log_prob(n)
    draws, density = obj.sample_and_log_prob(n // len(context), context=context)
    return draws.reshape(n, *draws.shape[2:]), density.reshape(n)


def flow_base_sample(obj: Any, n: int, context: Any = None) -> Any:
    """Base noise ``(n, *latent)``, as drawn by the sampler."""
    return obj._distribution.sample(n)


def flow_parts(obj: Any) -> Any:
    """The transforms that a flow applies to data, in order."""
    transforms = getattr(obj._transform, "_transforms", [obj._transform])
    return numbered(transforms)


# Each copy composes, inverts and rescales with its own classes.
TRANSFORM = Dialect(forward=forward, inverse=inverse, repair=repair)
FLOW = Dialect(
    forward=flow_forward,
    inverse=flow_inverse,
    log_prob=flow_log_prob,
    sample=flow_sample,
    sample_log_prob=flow_sample_log_prob,
    base_log_prob=flow_base_log_prob,
    base_sample=flow_base_sample,
    parts=flow_parts,
    repair=repair,
)
