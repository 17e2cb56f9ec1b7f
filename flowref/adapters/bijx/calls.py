"""Calls of bijx objects: on batches with a running log-density, from which they subtract the log-det;
samplers take a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowref.adapters.common.jax_running import running_numbers
from flowref.adapters.common.object_components import numbered


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    before = running_numbers(x)
    y, density = obj.forward(x, before)
    return y, before - density


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    before = running_numbers(y)
    x, density = obj.reverse(y, before)
    return x, before - density


def parts(obj: Any) -> Any:
    return numbered(obj.bijections) if type(obj).__name__ == "Chain" else []


def chain(parts: Sequence[Any]) -> Any:
    from bijx import Chain

    return Chain(*parts)


def invert(obj: Any) -> Any:
    # A CondInverse has a flag of the same name, which hides the method.
    return type(obj).invert(obj)


def flow_forward(obj: Any, x: Any, context: Any = None) -> Any:
    return forward(obj.bijection, x)


def flow_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    return inverse(obj.bijection, y)


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.log_density(x)


def sample(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    return obj.sample((n,), rng=key)[0]


def sample_log_prob(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    return obj.sample((n,), rng=key)


def base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.prior.log_density(z)


def base_sample(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    return obj.prior.sample((n,), rng=key)[0]
