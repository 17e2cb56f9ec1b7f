"""The size of a violation's error: in nats, and relative to float32 rounding."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from flowref.checking.examples import Example
from flowref.checking.judgement import UNDECIDED, Judgement
from flowref.checking.measurement import DOUBLE, SINGLE, Measurement
from flowref.checking.points import example_batch
from flowref.checking.tolerance import vast
from flowref.model import ROUNDING, Array, Size

# Points at which a typical error is measured: ordinary ones, since a mean over points of all
# magnitudes would be that of the farthest.
ORDINARY = Example(0.0, 48, "near", 15)
# Ordinary points show the violation only if their largest error exceeds this share of the violation's.
SHOWN = 1e-6


def error_size(judgement: Judgement) -> Size | None:
    """Return the error of a log-det or log-density in nats, None for other laws. It is measured at
    ordinary points in the same condition, or on the violating batch if ordinary points show no
    error.
    """
    measurement = judgement.measurement
    errors = _nats(measurement)
    if errors is None:
        return None
    usual = None if vast(measurement.subject) else _ordinary_errors(measurement)
    shown = usual is not None and usual.max(initial=0.0) > SHOWN * errors.max(initial=0.0)
    typical = usual if usual is not None and shown else errors
    if not typical.size:
        return None
    dimensions = max(1, math.prod(measurement.subject.event_shape))
    largest = float(max(typical.max(), errors.max(initial=0.0)))
    return Size(float(typical.mean()), largest, len(typical), dimensions)


def _nats(measurement: Measurement) -> Array | None:
    """Errors in nats at the decidable points with a finite error; None if the law measures none."""
    residual = measurement.residual
    if residual.nats is not None:
        errors = np.abs(np.asarray(residual.nats, dtype=np.float64)).reshape(-1)
    elif measurement.law.nats:
        errors = measurement.size
    else:
        return None
    known = np.isfinite(errors)
    if residual.decidable is not None:
        known &= np.asarray(residual.decidable, dtype=bool)
    return errors[known]


def _ordinary_errors(measurement: Measurement) -> Array | None:
    """Errors in nats at ordinary points; None if they cannot be measured."""
    law = measurement.law
    try:
        example = replace(ORDINARY, batch=min(ORDINARY.batch, law.size))
        batch = example_batch(measurement.subject, example, law.points)
        return _nats(measurement.again(batch))
    except Exception:  # rejected points have no error
        return None


def below_single(judgement: Judgement) -> Array:
    """Mask ``(n,)`` of violating points whose residual is below float32 rounding, $2^{-24}$ of the
    compared scale; only for laws judged against float64 rounding.
    """
    measurement = judgement.measurement
    if measurement.law.tolerance != ROUNDING or measurement.precision != DOUBLE:
        return np.zeros(len(judgement.outcome), dtype=bool)
    small = measurement.size <= SINGLE.unit * measurement.scale
    return np.asarray(judgement.violated & small)


def is_minor(judgement: Judgement) -> bool:
    """Whether every violation is below float32 rounding."""
    return bool((below_single(judgement) == judgement.violated).all())


def without_minor(judgement: Judgement) -> Judgement:
    """The judgement with violations below float32 rounding set to undecided."""
    return judgement.with_outcome(np.where(below_single(judgement), UNDECIDED, judgement.outcome))
