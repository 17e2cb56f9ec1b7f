"""How transforms and distributions of NumPyro are called: in batches; what draws is given a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowref.adapters.common.described import numbered


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    y = obj(x)
    return y, obj.log_abs_det_jacobian(x, y)


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    x = obj.inv(y)
    return x, obj.inv.log_abs_det_jacobian(y, x)


def parts(obj: Any) -> Any:
    return numbered(getattr(obj, "parts", ()))


def chain(parts: Sequence[Any]) -> Any:
    from numpyro.distributions.transforms import ComposeTransform

    return ComposeTransform(list(parts))


def invert(obj: Any) -> Any:
    return obj.inv


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.log_prob(x)


def sample(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    return obj.sample(key, (n,))
