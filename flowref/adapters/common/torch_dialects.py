"""How transforms and distributions that follow torch.distributions are called, where their
libraries agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flowref.adapters.common.described import numbered
from flowref.model import Dialect


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    y = obj(x)
    return y, obj.log_abs_det_jacobian(x, y)


def told_late(obj: Any, x: Any, context: Any = None) -> Any:
    y = obj(x)
    obj(x.roll(1, 0))
    return obj.log_abs_det_jacobian(x, y)


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    x = obj.inv(y)
    return x, obj.inv.log_abs_det_jacobian(y, x)


def parts(obj: Any) -> Any:
    return numbered(getattr(obj, "parts", ()))


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
    return several.log_prob(x.unsqueeze(1)).reshape(len(x), 2, -1).sum(-1)


# What a distribution may say of itself, in the order in which it is told: all of it as numbers, of
# which entropy is one and the covariance a matrix.
TOLD = ("mean", "variance", "entropy", "stddev", "mode", "covariance_matrix")


def stated(obj: Any) -> Any:
    """Mean, variance, entropy, deviation, mode and covariance, each flat and one after the other;
    nan for what a distribution does not tell.
    """
    import torch

    size = math.prod(obj.event_shape)
    sizes = {"entropy": 1, "covariance_matrix": size * size}
    told = []
    for name in TOLD:
        wanted = sizes.get(name, size)
        try:
            value = getattr(obj, name)
            value = torch.as_tensor(value() if name == "entropy" else value, dtype=torch.float64)
        except (NotImplementedError, AttributeError):
            value = torch.empty(0)
        fits = value.numel() == wanted
        told.append(value.reshape(-1) if fits else torch.full((wanted,), math.nan))
    return torch.cat([value.to(torch.float64) for value in told])


def sign(obj: Any) -> Any:
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
    sign=sign,
    told_late=told_late,
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
