"""How large the error of a violation is: in nats, and against the rounding of single precision."""

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
# Where the largest of their errors is no larger than this share of that of the violation, they do not show it.
SHOWN = 1e-6


def error_size(judgement: Judgement) -> Size | None:
    """The size of the error of a log-det or log-density in nats; None where the law measures no such.

    Measured over ordinary points in the same condition, or over the batch that showed the violation where it is
    no error there.
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
    """The errors of the points that the law decides and that have one."""
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
    """The errors at ordinary points; None where they cannot be measured."""
    law = measurement.law
    try:
        example = replace(ORDINARY, batch=min(ORDINARY.batch, law.size))
        batch = example_batch(measurement.subject, example, law.points)
        return _nats(measurement.again(batch))
    except Exception:  # points that are refused have no error
        return None


def below_single(judgement: Judgement) -> Array:
    """Which violating points, ``(batch,)``, are off by less than single precision rounds: by
    $2^{-24}$ of the scale of what is compared, of laws that are judged against rounding in double precision.
    """
    measurement = judgement.measurement
    if measurement.law.tolerance != ROUNDING or measurement.precision != DOUBLE:
        return np.zeros(len(judgement.outcome), dtype=bool)
    small = measurement.size <= SINGLE.unit * measurement.scale
    return np.asarray(judgement.violated & small)


def is_minor(judgement: Judgement) -> bool:
    """Whether all violating points are off by less than single precision rounds."""
    return bool((below_single(judgement) == judgement.violated).all())


def without_minor(judgement: Judgement) -> Judgement:
    """The judgement without violations below the rounding of single precision."""
    return judgement.with_outcome(np.where(below_single(judgement), UNDECIDED, judgement.outcome))
