"""Calls of transforms and distributions that follow torch.distributions, in PyTorch or JAX."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from flowref.adapters.common import distribution_functions
from flowref.adapters.common.object_components import numbered
from flowref.model import Dialect


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    y = obj(x)
    return y, obj.log_abs_det_jacobian(x, y)


def log_det_by_method(obj: Any, x: Any, context: Any = None) -> Any:
    y = obj(x)
    obj(x.roll(1, 0))
    return obj.log_abs_det_jacobian(x, y)


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    x = obj.inv(y)
    return x, obj.inv.log_abs_det_jacobian(y, x)


def parts(obj: Any) -> Any:
    # Other classes may keep parallel parts under that name, as a stack does.
    composed = any(kind.__name__ == "ComposeTransform" for kind in type(obj).__mro__)
    return numbered(obj.parts if composed else ())


def invert(obj: Any) -> Any:
    return obj.inv


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.log_prob(x)


def sample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.sample((n,))


def rsample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.rsample((n,))


def expanded(obj: Any, x: Any, context: Any = None) -> Any:
    several = obj.expand((2, *obj.batch_shape))
    return several.log_prob(x[:, None]).reshape(len(x), 2, -1).sum(-1)


def distribution_moments(obj: Any, excluded: Collection[str] = ()) -> Any:
    """Concatenated mean, variance, entropy, standard deviation, mode and covariance, NaN where not stated,
    and a flag for each. ``excluded``: names with another meaning.
    """
    import torch

    size = math.prod(obj.event_shape)
    sizes = {"entropy": 1, "covariance_matrix": size * size}
    values, flags = [], []
    for name in distribution_functions.MOMENTS:
        value = None if name in excluded else distribution_attribute(obj, name)
        part, flag = distribution_functions.moment_values(name, value, sizes.get(name, size))
        if len(obj.batch_shape) and flag == distribution_functions.MISSHAPEN:
            flag = distribution_functions.FINE  # a value per distribution of a batch
        if flag == distribution_functions.FINE and name in OF_EACH and not len(obj.batch_shape):
            flag = of_copies(obj, name, value)
        values.append(part)
        flags.append(flag)
    return torch.cat([*values, torch.tensor(flags, dtype=torch.float64)])


# Moments compared between copies in a batch.
OF_EACH = ("mean", "variance")


def distribution_attribute(obj: Any, name: str) -> Any:
    """A stated quantity; None if it is missing or not implemented."""
    import torch

    try:
        value = getattr(obj, name)
        return torch.as_tensor(value() if name == "entropy" else value)
    except (NotImplementedError, AttributeError):
        return None


def of_copies(obj: Any, name: str, value: Any) -> float:
    """The flag of a moment: whether two copies in a batch state the same value of each."""
    import torch

    if value is None or not bool(torch.isfinite(value).all()):
        return distribution_functions.FINE
    try:
        several = distribution_attribute(obj.expand((2,)), name)
    except Exception:  # reported by another law
        return distribution_functions.FINE
    if several is None:
        return distribution_functions.FINE
    wanted = (2, *obj.event_shape)
    if tuple(several.shape) != wanted or not torch.allclose(several, value.expand(wanted)):
        return distribution_functions.NOT_OF_COPIES
    return distribution_functions.FINE


def transform_sign(obj: Any) -> Any:
    import torch

    try:
        return torch.as_tensor(obj.sign, dtype=torch.float64)
    except (NotImplementedError, AttributeError):
        return torch.tensor(float("nan"))


def flow_forward(obj: Any, z: Any, context: Any = None) -> Any:
    from torch.distributions import ComposeTransform

    transform: Any = ComposeTransform(list(obj.transforms))
    x = transform(z)
    return x, transform.log_abs_det_jacobian(z, x)


def flow_inverse(obj: Any, x: Any, context: Any = None) -> Any:
    from torch.distributions import ComposeTransform

    transform: Any = ComposeTransform(list(obj.transforms)).inv
    z = transform(x)
    return z, transform.log_abs_det_jacobian(x, z)


def flow_base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.base_dist.log_prob(z)


def flow_base_sample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.base_dist.sample((n,))


def flow_parts(obj: Any) -> Any:
    return numbered(obj.transforms)


def flow_chain(parts: Sequence[Any]) -> Any:
    from torch.distributions import ComposeTransform

    return ComposeTransform(
        [
            ComposeTransform(part.transforms) if hasattr(part, "base_dist") else part
            for part in parts
        ]
    )


# Each library composes and rescales with its own classes.
TRANSFORM = Dialect(
    forward=forward,
    inverse=inverse,
    parts=parts,
    invert=invert,
    sign=transform_sign,
    log_det_by_method=log_det_by_method,
    normalizing="inverse",
)
DENSITY = Dialect(log_prob=log_prob, sample=sample)
FLOW = Dialect(
    forward=flow_forward,
    inverse=flow_inverse,
    log_prob=log_prob,
    sample=sample,
    base_log_prob=flow_base_log_prob,
    base_sample=flow_base_sample,
    parts=flow_parts,
    chain=flow_chain,
    normalizing="inverse",
)
