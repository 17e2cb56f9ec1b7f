"""How distributions of TensorFlow Probability and distrax are called on JAX where the two agree. A batch of
distributions is their product: its events have the axes of the batch, and its log-density is the sum.
"""

from __future__ import annotations

import math
from typing import Any

from flowref.model import Shape

# What a distribution states of itself, in the order of `flowref.model.Dialect`, and what it is called.
STATED = ("mean", "variance", "entropy", "stddev", "mode", "covariance")


def event_of(obj: Any) -> Shape:
    """The shape of an event, with the axes of a batch of distributions."""
    return (*map(int, obj.batch_shape), *map(int, obj.event_shape))


def of_events(density: Any) -> Any:
    """A log-density of each event: of a batch of distributions there is one for each."""
    return density.reshape(density.shape[0], -1).sum(-1) if density.ndim > 1 else density


def sample(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    return obj.sample(seed=key, sample_shape=(n,))


def cdf(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.cdf(x)


def offers(obj: Any, method: str) -> bool:
    """Whether a function of numbers can be called at a half."""
    import jax.numpy as jnp

    try:
        getattr(obj, method)(jnp.asarray(0.5))
    except (NotImplementedError, AttributeError):
        return False
    except Exception:  # what a call of it raises is another matter
        pass
    return True


def stated(obj: Any) -> Any:
    """Mean, variance, entropy, deviation, mode and covariance, each flat and one after the other; nan
    for what a distribution does not state.
    """
    import jax.numpy as jnp

    size = math.prod(event_of(obj))
    sizes = {"entropy": 1, "covariance": size * size}
    parts = []
    for name in STATED:
        value = _asked(obj, name)
        if name == "entropy" and value.size:
            value = value.sum()  # that of a product
        fits = value.size == sizes.get(name, size)
        parts.append(value.reshape(-1) if fits else jnp.full(sizes.get(name, size), math.nan))
    return jnp.concatenate(parts)


def _asked(obj: Any, name: str) -> Any:
    """What a distribution states under a name, nothing where it does not."""
    import jax.numpy as jnp

    try:
        return jnp.asarray(getattr(obj, name)(), float)
    except (NotImplementedError, AttributeError):
        return jnp.zeros(0)


def vector(low: float = 0.5, high: float = 2.0, size: int = 4) -> Any:
    """Evenly spaced numbers."""
    import jax.numpy as jnp

    return jnp.linspace(low, high, size)


def lower(size: int = 4) -> Any:
    """A lower triangular matrix that is far from singular."""
    import jax.numpy as jnp

    entries = jnp.sin(jnp.arange(1.0, size * size + 1).reshape(size, size))
    return jnp.tril(entries) + 2 * jnp.eye(size)
