"""Calls of distributions where TensorFlow Probability and distrax agree. A batch of distributions is
treated as their product: batch axes belong to the event, and log-densities are summed.
"""

from __future__ import annotations

import math
from typing import Any

from flowref.model import Shape

# Stated quantities, in the order of `flowref.model.Dialect`, by their names.
STATED = ("mean", "variance", "entropy", "stddev", "mode", "covariance")


def event_of(obj: Any) -> Shape:
    """The event shape, including the batch axes of distributions."""
    return (*map(int, obj.batch_shape), *map(int, obj.event_shape))


def of_events(density: Any) -> Any:
    """Log-densities ``(n,)``, summed over a batch of distributions."""
    return density.reshape(density.shape[0], -1).sum(-1) if density.ndim > 1 else density


def sample(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    return obj.sample(seed=key, sample_shape=(n,))


def cdf(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.cdf(x)


def offers(obj: Any, method: str) -> bool:
    """Whether a univariate function can be called at 0.5."""
    import jax.numpy as jnp

    try:
        getattr(obj, method)(jnp.asarray(0.5))
    except (NotImplementedError, AttributeError):
        return False
    except Exception:  # exceptions of a call are reported elsewhere
        pass
    return True


def stated(obj: Any) -> Any:
    """Concatenated mean, variance, entropy, standard deviation, mode and covariance; NaN where not stated."""
    import jax.numpy as jnp

    size = math.prod(event_of(obj))
    sizes = {"entropy": 1, "covariance": size * size}
    parts = []
    for name in STATED:
        value = _asked(obj, name)
        if name == "entropy" and value.size:
            value = value.sum()  # entropy of a product
        fits = value.size == sizes.get(name, size)
        parts.append(value.reshape(-1) if fits else jnp.full(sizes.get(name, size), math.nan))
    return jnp.concatenate(parts)


def _asked(obj: Any, name: str) -> Any:
    """The stated quantity of a name; empty if not implemented."""
    import jax.numpy as jnp

    try:
        return jnp.asarray(getattr(obj, name)(), float)
    except (NotImplementedError, AttributeError):
        return jnp.zeros(0)


def vector(low: float = 0.5, high: float = 2.0, size: int = 4) -> Any:
    """Evenly spaced numbers, ``(size,)``."""
    import jax.numpy as jnp

    return jnp.linspace(low, high, size)


def lower(size: int = 4) -> Any:
    """A well-conditioned lower triangular matrix, ``(size, size)``."""
    import jax.numpy as jnp

    entries = jnp.sin(jnp.arange(1.0, size * size + 1).reshape(size, size))
    return jnp.tril(entries) + 2 * jnp.eye(size)
