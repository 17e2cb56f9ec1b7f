"""Calls of FlowJAX objects: single events, mapped over the batch; samplers take a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowref.adapters.common.object_components import numbered


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    import jax

    if context is None:
        return jax.vmap(obj.transform_and_log_det)(x)
    return jax.vmap(obj.transform_and_log_det)(x, context)


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    import jax

    if context is None:
        return jax.vmap(obj.inverse_and_log_det)(y)
    return jax.vmap(obj.inverse_and_log_det)(y, context)


def parts(obj: Any) -> Any:
    return numbered(obj.bijections) if type(obj).__name__ == "Chain" else []


def chain(parts: Sequence[Any]) -> Any:
    from flowjax.bijections import Chain

    return Chain(list(parts))


def invert(obj: Any) -> Any:
    from flowjax.bijections import Invert

    return Invert(obj)


def flow_forward(obj: Any, x: Any, context: Any = None) -> Any:
    return forward(obj.bijection, x, context)


def flow_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    return inverse(obj.bijection, y, context)


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.log_prob(x) if context is None else obj.log_prob(x, context)


def sample(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    # One sample per context.
    return obj.sample(key, (n,)) if context is None else obj.sample(key, (), context)


def sample_log_prob(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    if context is None:
        return obj.sample_and_log_prob(key, (n,))
    return obj.sample_and_log_prob(key, (), context)


def base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.base_dist.log_prob(z)


def base_sample(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    return obj.base_dist.sample(key, (n,))
