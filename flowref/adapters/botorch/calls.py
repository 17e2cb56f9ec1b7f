"""Calls of BoTorch transforms. The variances of outcomes imply log-dets."""

from __future__ import annotations

from typing import Any

# Outcomes with variances that show whether a transform is linear: it multiplies variances by one number.
TRIED, AGREEMENT = ((0.5, 1.0), (2.0, 4.0)), 1e-6


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
    """The outcomes, and for linear transforms half the log-ratio of variances, which are multiplied by the
    square of the slope. Those of other transforms are approximations.
    """
    if obj.training:
        # Slopes of statistics that follow their batch are others.
        return call(x)[0], None
    try:
        value, variance = call(x, x.new_ones(x.shape))
        less, more = (call(x.new_full(x.shape, at), x.new_full(x.shape, of))[1] for at, of in TRIED)
    except NotImplementedError:
        return call(x)[0], None
    if variance is None or not less.mul(TRIED[1][1]).allclose(more, AGREEMENT, 0.0):
        return value, None
    return value, 0.5 * variance.log().flatten(1).sum(-1)
