"""Calls of TensorFlow Probability bijectors and distributions on JAX: on batches; samplers take a key.
Constant log-dets are returned once and broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flowref.adapters.common.jax_distributions import of_events
from flowref.adapters.common.object_components import lineage, numbered
from flowref.adapters.common.onto_simplex import with_last, without_last


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    import jax.numpy as jnp

    ladj = obj.forward_log_det_jacobian(x, event_ndims=x.ndim - 1)
    return obj.forward(x), jnp.broadcast_to(ladj, x.shape[:1])


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    import jax.numpy as jnp

    ladj = obj.inverse_log_det_jacobian(y, event_ndims=y.ndim - 1)
    return obj.inverse(y), jnp.broadcast_to(ladj, y.shape[:1])


def simplex_forward(obj: Any, x: Any, context: Any = None) -> Any:
    # The last coordinate is one minus the sum of others; without it the Jacobian is square.
    y, ladj = forward(obj, x)
    return without_last(y), ladj - volume(obj, x.shape[-1])


def simplex_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    import jax.numpy as jnp

    x, ladj = inverse(obj, with_last(y, jnp.concatenate))
    return x, ladj + volume(obj, y.shape[-1])


def volume(obj: Any, size: int) -> float:
    """The constant in a log-det onto a simplex: that of `SoftmaxCentered` refers to the simplex's own area,
    by its source.
    """
    return 0.5 * math.log(size + 1) if "SoftmaxCentered" in lineage(obj) else 0.0


def parts(obj: Any) -> Any:
    # The last one is applied first.
    return numbered(reversed(obj.bijectors)) if type(obj).__name__ in ("Chain", "_Chain") else []


def chain(parts: Sequence[Any]) -> Any:
    from tensorflow_probability.substrates.jax.bijectors import Chain

    return Chain(list(reversed(parts)))


def invert(obj: Any) -> Any:
    from tensorflow_probability.substrates.jax.bijectors import Invert

    return Invert(obj)


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return of_events(obj.log_prob(x))


def sample_log_prob(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    x, density = obj.experimental_sample_and_log_prob((n,), seed=key)
    return x, of_events(density)


def icdf(obj: Any, u: Any, context: Any = None) -> Any:
    return obj.quantile(u)


def flow_forward(obj: Any, x: Any, context: Any = None) -> Any:
    return forward(obj.bijector, x)


def flow_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    return inverse(obj.bijector, y)


def base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return of_events(obj.distribution.log_prob(z))


def base_sample(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    return obj.distribution.sample((n,), seed=key)
