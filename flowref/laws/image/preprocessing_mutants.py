"""Defects of preprocessing, put into healthy subjects."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Preprocessing, Subject, mutant

LOGIT, LIBRARY, FLOW = "reference:Logit", "normflows:transforms.Logit", "reference:Flow[logit]"
LEVELS = "reference:Dequantize"


def _known(subject: Subject) -> Preprocessing:
    return subject.preprocessing


def _plus(ability: Callable[..., Array], amount: float, *given: Any) -> Array:
    return np.asarray(ability(*given) + amount)


def _ladj_plus(
    call: Callable[..., Mapped], amount: float, x: Array, context: Array | None = None
) -> Mapped:
    out = call(x, context)
    return Mapped(out.value, np.asarray(out.ladj) + amount)


@mutant("preprocessing/log-det", host=FLOW)
def scale_missing(subject: Subject) -> Subject:
    """The log-density lacks the scale of the logit's argument."""
    amount = -math.prod(subject.density_shape) * math.log(_known(subject).slope)
    return subject.with_call("log_prob", partial(_plus, subject.log_prob, amount))


@mutant("preprocessing/log-det", host=FLOW, sizes=(1e-7, 1e-2))
def density_off(subject: Subject, size: float = 1e-2) -> Subject:
    """The log-density is off by a constant."""
    return subject.with_call("log_prob", partial(_plus, subject.log_prob, size))


def _off_by_one_level(
    rescaled: Callable[..., Array], dims: int, x: Array, factor: float, context: Any = None
) -> Array:
    return np.asarray(rescaled(x, factor, context) + dims * math.log(256 / 255))


@mutant("preprocessing/affine-scale-bits", host="torch:LogNormal")
def levels_off_by_one(subject: Subject) -> Subject:
    """The log-det of a scaling by 255 is that of 256."""
    return subject.with_call(
        "rescaled", partial(_off_by_one_level, subject.rescaled, math.prod(subject.density_shape))
    )


def _unscaled(
    log_prob: Callable[..., Array], x: Array, factor: float, context: Array | None = None
) -> Array:
    return log_prob(x / factor, context)


@mutant("preprocessing/affine-scale-bits", host="nflows:Flow")
def scaling_without_volume(subject: Subject) -> Subject:
    """The scaling of the data has no log-det."""
    return subject.with_call("rescaled", partial(_unscaled, subject.log_prob))


@mutant("preprocessing/logit-derivative", host=LOGIT)
def slope_missing(subject: Subject) -> Subject:
    """The log-det is that of the bare logit."""
    amount = -math.prod(subject.event_shape) * math.log(_known(subject).slope)
    return subject.with_call("forward", partial(_ladj_plus, subject.forward, amount))


@mutant("preprocessing/logit-derivative", host=LIBRARY, sizes=(1e-10, 1e-3))
def log_det_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The log-det of the logit is off by a constant."""
    return subject.with_call("inverse", partial(_ladj_plus, subject.inverse, size))


def _asymmetric(known: Preprocessing, x: Array, context: Array | None = None) -> Mapped:
    with np.errstate(all="ignore"):
        p = known.alpha + (1 - known.alpha) * x / known.bound
        h = np.log(p) - np.log1p(-p)
        ladj = (
            (math.log((1 - known.alpha) / known.bound) - np.log(p) - np.log1p(-p))
            .reshape(len(x), -1)
            .sum(1)
        )
    return Mapped(h, ladj)


@mutant("preprocessing/logit-boundary", host=LOGIT)
def asymmetric_alpha(subject: Subject) -> Subject:
    """Only the lower end of the range is kept finite: the argument of the logit is alpha + (1 -
    alpha) x / b.
    """
    return subject.with_call("forward", partial(_asymmetric, _known(subject)))


def _infinite_slopes(
    vjp: Callable[..., Array], bound: float, which: str, x: Array, *others: Any
) -> Array:
    slopes = np.asarray(vjp(which, x, *others)).copy()
    slopes[x.reshape(slopes.shape) == bound] = np.inf
    return slopes


@mutant("preprocessing/logit-boundary", host=LIBRARY)
def gradient_at_the_end(subject: Subject) -> Subject:
    """The gradient at the upper end of the range is infinite."""
    return replace(subject, vjp=partial(_infinite_slopes, subject.vjp, _known(subject).bound))


def _imprecise(
    call: Callable[..., Mapped], back: str, which: str, x: Array, context: Any = None, **how: Any
) -> Mapped:
    out = call(which, x, context, **how)
    return (
        out._replace(value=np.asarray(out.value).astype(np.float16).astype(np.float64))
        if which == back
        else out
    )


def _shifted(
    call: Callable[..., Mapped],
    back: str,
    size: float,
    which: str,
    x: Array,
    context: Any = None,
    **how: Any,
) -> Mapped:
    out = call(which, x, context, **how)
    return out._replace(value=out.value + size) if which == back else out


@mutant("preprocessing/logit-sigmoid-roundtrip", host=LOGIT, sizes=(1e-9, 1e-2))
def alpha_not_taken_off(subject: Subject, size: float = 1e-2) -> Subject:
    """What the sigmoid gives is shifted."""
    return replace(subject, call=partial(_shifted, subject.call, "inverse", size))


@mutant("preprocessing/logit-sigmoid-roundtrip", host=LIBRARY)
def half_precision(subject: Subject) -> Subject:
    """The sigmoid is taken in half precision."""
    return replace(subject, call=partial(_imprecise, subject.call, "forward"))


def _rounded_sum(levels: Array, noise: Array, dtype: str | None = None) -> Array:
    kind = np.dtype(dtype or "float64").type
    return np.asarray(levels.astype(kind) + noise.astype(kind))


def _centered(levels: Array, noise: Array, dtype: str | None = None) -> Array:
    kind = np.dtype(dtype or "float64").type
    return np.asarray(levels.astype(kind) + noise.astype(kind) - kind(0.5))


def _midpoint(levels: Array, noise: Array, dtype: str | None = None) -> Array:
    return np.asarray((levels + 0.5).astype(np.dtype(dtype or "float64")))


@mutant("preprocessing/dequantize-floor", host=LEVELS)
def sum_rounds_up(subject: Subject) -> Subject:
    """Level and noise are added without care, so that the sum may round to the next level."""
    return subject.with_call("dequantize", _rounded_sum)


@mutant("preprocessing/dequantize-floor", host="reference:Dequantize[bins]")
def noise_around_level(subject: Subject) -> Subject:
    """Noise is centered at the level."""
    return subject.with_call("dequantize", _centered)


@mutant("preprocessing/dequantize-bound", host=LEVELS)
def midpoint(subject: Subject) -> Subject:
    """Levels are moved to the middle of their interval, without noise."""
    return subject.with_call("dequantize", _midpoint)
