"""Calls of NumPyro transforms and distributions that differ from torch.distributions: on batches; samplers
take a key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flowref.adapters.common.onto_simplex import with_last, without_last
from flowref.adapters.common.torch_dialects import forward, inverse


def simplex_forward(obj: Any, x: Any, context: Any = None) -> Any:
    # The last coordinate is one minus the sum of others; without it the Jacobian is square.
    y, ladj = forward(obj, x)
    return without_last(y), ladj


def simplex_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    import jax.numpy as jnp

    return inverse(obj, with_last(y, jnp.concatenate))


def log_det_by_method(obj: Any, x: Any, context: Any = None) -> Any:
    import jax.numpy as jnp

    y = obj(x)
    obj(jnp.roll(x, 1, 0))
    return obj.log_abs_det_jacobian(x, y)


def sign(obj: Any) -> Any:
    import jax.numpy as jnp

    try:
        return jnp.asarray(obj.sign, float)
    except (NotImplementedError, AttributeError):
        return jnp.asarray(math.nan)


def chain(parts: Sequence[Any]) -> Any:
    from numpyro.distributions.transforms import ComposeTransform

    return ComposeTransform(list(parts))


def composed(obj: Any) -> Any:
    """The transforms of a distribution as one, from latents to data."""
    from numpyro.distributions.transforms import ComposeTransform

    return ComposeTransform(list(obj.transforms))


def per_event(ladj: Any, rows: Any) -> Any:
    """Scalar transforms have one log-det per entry."""
    return ladj.reshape(*rows.shape[:1], -1).sum(-1)


def flow_forward(obj: Any, x: Any, context: Any = None) -> Any:
    y, ladj = forward(composed(obj), x)
    return y, per_event(ladj, x)


def flow_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    x, ladj = inverse(composed(obj), y)
    return x, per_event(ladj, y)


def base_sample(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    return obj.base_dist.sample(key, (n,))


def sample(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    return obj.sample(key, (n,))


def cdf(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.cdf(x)


def icdf(obj: Any, u: Any, context: Any = None) -> Any:
    return obj.icdf(u)


# Stated quantities, in order.
TOLD = ("mean", "variance", "entropy", "stddev", "mode", "covariance_matrix")


def stated(obj: Any) -> Any:
    """Concatenated mean, variance, entropy, standard deviation, mode and covariance; NaN where not stated."""
    import jax.numpy as jnp

    size = math.prod(obj.event_shape)
    sizes = {"entropy": 1, "covariance_matrix": size * size}
    values = []
    for name in TOLD:
        wanted = sizes.get(name, size)
        try:
            value = getattr(obj, name)
            value = jnp.asarray(value() if name == "entropy" else value, float)
        except (NotImplementedError, AttributeError):
            value = jnp.zeros(0)
        values.append(value.reshape(-1) if value.size == wanted else jnp.full(wanted, math.nan))
    return jnp.concatenate(values)


def rescale(obj: Any, factor: float) -> Any:
    from numpyro.distributions import TransformedDistribution
    from numpyro.distributions.transforms import AffineTransform

    return TransformedDistribution(obj, [AffineTransform(0.0, factor)])
