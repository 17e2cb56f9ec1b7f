"""Calls of distrax bijectors and distributions: on batches; samplers take a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowref.adapters.common.jax_distributions import of_events
from flowref.adapters.common.object_components import numbered


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    y, ladj = obj.forward_and_log_det(x)
    # Scalar bijectors return a log-det per entry.
    return y, of_events(ladj)


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    x, ladj = obj.inverse_and_log_det(y)
    return x, of_events(ladj)


def parts(obj: Any) -> Any:
    # The last one is applied first.
    return numbered(reversed(obj.bijectors)) if type(obj).__name__ == "Chain" else []


def chain(parts: Sequence[Any]) -> Any:
    from distrax import Block, Chain

    rank = max(part.event_ndims_in for part in parts)
    return Chain([Block(part, rank - part.event_ndims_out) for part in reversed(parts)])


def invert(obj: Any) -> Any:
    from distrax import Inverse

    return Inverse(obj)


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return of_events(obj.log_prob(x))


def sample_log_prob(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    x, density = obj.sample_and_log_prob(seed=key, sample_shape=(n,))
    return x, of_events(density)


def flow_forward(obj: Any, x: Any, context: Any = None) -> Any:
    return forward(obj.bijector, x)


def flow_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    return inverse(obj.bijector, y)


def base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return of_events(obj.distribution.log_prob(z))


def base_sample(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    return obj.distribution.sample(seed=key, sample_shape=(n,))
