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


def composed(obj: Any) -> Any:
    """The transforms of a distribution as one, from latents to data."""
    from numpyro.distributions.transforms import ComposeTransform

    return ComposeTransform(list(obj.transforms))


def per_event(ladj: Any, rows: Any) -> Any:
    """A log-det of each event: transforms of numbers have one for each entry."""
    return ladj.reshape(*rows.shape[:1], -1).sum(-1)


def flow_forward(obj: Any, x: Any, context: Any = None) -> Any:
    y, ladj = forward(composed(obj), x)
    return y, per_event(ladj, x)


def flow_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    x, ladj = inverse(composed(obj), y)
    return x, per_event(ladj, y)


def base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.base_dist.log_prob(z)


def base_sample(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    return obj.base_dist.sample(key, (n,))


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.log_prob(x)


def sample(obj: Any, n: int, context: Any = None, key: Any = None) -> Any:
    return obj.sample(key, (n,))
