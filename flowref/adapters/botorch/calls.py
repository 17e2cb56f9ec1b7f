"""Calls of BoTorch transforms. The variances of outcomes imply log-dets."""

from __future__ import annotations

from typing import Any

# A second variance, as a multiple of the first, and the agreement of what becomes of both.
MULTIPLE, AGREEMENT = 4.0, 1e-6


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    return obj(x), None


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    return obj.untransform(y), None


def parts(obj: Any) -> Any:
    return list(obj.items())


def outcome_forward(obj: Any, x: Any, context: Any = None) -> Any:
    return _with_log_det(obj, obj, x)


def outcome_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    return _with_log_det(obj, obj.untransform, y)


def _with_log_det(obj: Any, call: Any, x: Any) -> Any:
    """The outcomes, and half the log-ratio of variances: variances are multiplied by the square of the slope,
    exactly if they are multiplied by anything. Others, such as moments of a log-normal distribution,
    agree with it for small variances only.
    """
    if obj.training:
        # Slopes of statistics that follow their batch are others.
        return call(x)[0], None
    try:
        value, variance = call(x, x.new_ones(x.shape))
        more = call(x, x.new_full(x.shape, MULTIPLE))[1]
    except NotImplementedError:
        return call(x)[0], None
    if variance is None or not variance.mul(MULTIPLE).allclose(more, AGREEMENT, 0.0):
        return value, None
    return value, 0.5 * variance.log().flatten(1).sum(-1)
