"""Bijections: forward and inverse undo each other, and different points have different images."""

from __future__ import annotations

import numpy as np

from flowref.laws.bijection.round_trip_exemptions import Trip, lost_latents, round_trip_exemptions
from flowref.laws.bijection.search_reach import same_shape
from flowref.laws.common.arithmetic import (
    TINY,
    back_inside,
    finite_rows,
    inverse_inputs,
    invertible_images,
    reported,
    rows_max,
)
from flowref.laws.common.cases import CONTEXT, RESIZED, TRAIN
from flowref.laws.common.outcomes import attempt
from flowref.model import CONTRACT, EXACT, VALUES, Array, Batch, Residual, Unsupported, law
from flowref.model.abilities import Bijection, Differentiable, Flow, Invertible

ROUND_TRIP = "change of variables: a flow is a bijection; NICE (arXiv:1410.8516), Real NVP (arXiv:1605.08803)"
# Slack, in nats, between a reported log-det and that of outputs that are bitwise equal.
FLAT_SLACK = 10.0
ULP = 2.0**-53


def unit(flow: Flow) -> float:
    """The absolute error that is lost next to 1: a bisection stops there, also for points close to
    zero.
    """
    return 2 * ULP if flow.dtype == "float64" else 2.0**-23


def inverse_tolerance(flow: Flow, value: Array) -> Array:
    """The declared error of an iterative inverse per point, ``(n,)``, absolute and relative."""
    return promised_accuracy(flow) * (1 + rows_max(value))


def promised_accuracy(flow: Flow) -> float:
    """The declared accuracy of an iterative inverse."""
    return flow.certainty.inverse


@law(
    "map/inverse",
    key="bijection/inverse-roundtrip",
    about=VALUES,
    version=2,
    scanned=True,
    local=False,
    source=ROUND_TRIP,
    localize_in_parts=True,
    pointwise=True,
    cases=(TRAIN, CONTEXT, RESIZED),
)
def inverse_roundtrip(flow: Invertible, batch: Batch) -> Residual:
    r"""$f^{-1}(f(x)) = x$ for every $x$ in the domain."""
    forward = flow.forward
    y = forward(batch.x, batch.context).value
    image, usable = invertible_images(flow, y)
    back = flow.inverse(image, batch.context).value
    back = same_shape(back, batch.x)
    return Residual(
        back - batch.x,
        scale=rows_max(batch.x),
        allowed=inverse_tolerance(flow, batch.x) + unit(flow),
        decidable=usable,
        exempt=round_trip_exemptions(
            flow, Trip(forward, batch.x, back, y, batch.context, promised_accuracy(flow))
        ),
        observed={"x": batch.x, "f(x)": y, "inverse(f(x))": back},
    )


@law(
    "map/inverse[latents]",
    key="bijection/forward-roundtrip",
    about=VALUES,
    version=2,
    scanned=True,
    points="latents",
    local=False,
    source=ROUND_TRIP,
    localize_in_parts=True,
    pointwise=True,
    cases=(TRAIN,),
)
def forward_roundtrip(flow: Invertible, batch: Batch) -> Residual:
    r"""$f(f^{-1}(z)) = z$ for every $z$ in the codomain."""
    inverse = flow.inverse
    z = inverse_inputs(flow, batch.x, batch.context)
    x, usable = back_inside(flow, inverse(z + 0.0, batch.context).value)
    again = flow.forward(x + 0.0, batch.context).value
    slack: Array | float = unit(flow)
    if flow.certainty.inverse:
        # An error within the promise in x moves f(x) by as much as it moves neighbouring points.
        tolerance = inverse_tolerance(flow, x).reshape(-1, *[1] * (x.ndim - 1))
        moved = [flow.forward(x + sign * tolerance, batch.context).value for sign in (1.0, -1.0)]
        slack += 2 * np.maximum(*(rows_max(value - again) for value in moved)) + inverse_tolerance(
            flow, z
        )
    again = same_shape(again, z)
    return Residual(
        again - z,
        scale=rows_max(z),
        allowed=slack,
        decidable=usable & finite_rows(z) & (finite_rows(x) if flow.codomain is None else True),
        exempt=lost_latents(
            flow, Trip(inverse, z, again, x, batch.context, promised_accuracy(flow))
        ),
        observed={"z": z, "inverse(z)": x, "f(inverse(z))": again},
    )


@law(
    "map/one-to-one",
    key="bijection/injective",
    tolerance=EXACT,
    effort=4,
    source="definition of a bijection",
    pointwise=True,
)
def injective(flow: Differentiable, batch: Batch) -> Residual:
    r"""Different points have different images: $f(x) \ne f(x')$ where the log-det reports that
    volume is kept.

    One coordinate is mirrored or moved. Equal images of a saturated map are permitted if the
    log-det is about as small as one unit in the last place over the step.
    """
    rng = np.random.default_rng(batch.seed)
    flat = batch.x.reshape(len(batch.x), -1)
    other = flat.copy()
    rows = np.arange(len(flat))
    column = rng.integers(0, flat.shape[1], size=len(flat))
    old = flat[rows, column]
    mirrored = rng.random(len(flat)) < 0.5
    low, high = flow.domain.ends
    if flow.domain.coordinates:  # with an unbounded domain, points move as on the real line
        low, high = low[column], high[column]
        whole = np.isfinite(low) & np.isfinite(high)
        low, high = np.where(whole, low, -abs(old) - 1), np.where(whole, high, abs(old) + 1)
    if np.all(np.isfinite(low)) and np.all(np.isfinite(high)):
        other[rows, column] = np.where(mirrored, low + high - old, (old + low) / 2)
    else:
        other[rows, column] = np.where(
            mirrored, -old, old + np.sign(old + (old == 0)) * (1 + 0.5 * np.abs(old))
        )
    there = other.reshape(batch.x.shape)
    within = flow.domain.holds(there) & flow.domain.holds((batch.x + there) / 2)
    there = np.where(within.reshape(-1, *[1] * (batch.x.ndim - 1)), there, batch.x)
    middle = (batch.x + there) / 2
    step = np.abs(there.reshape(flat.shape)[rows, column] - old)
    apart = (step > 1e-3 * (1 + np.abs(old))) & within
    first, second = flow.forward(batch.x, batch.context), flow.forward(there, batch.context)
    between = flow.forward(middle, batch.context)
    equal = (first.value == second.value).reshape(len(flat), -1).all(1)
    decidable = apart & finite_rows(first.value, second.value)
    guilty = np.zeros(len(flat))
    for row in np.flatnonzero(equal & decidable):
        one = slice(row, row + 1)
        context = None if batch.context is None else batch.context[one]
        claims = [float(reported(flow, out, len(flat))[row]) for out in (first, second, between)]
        bounds = []
        for point in (batch.x[one], there[one]):
            columns = np.linalg.norm(flow.jacobian("forward", point, context)[0], axis=0)
            # Another coordinate whose derivative underflows makes the bound meaningless.
            columns[columns < TINY] = np.inf
            columns[column[row]] = max(
                ULP * float(rows_max(first.value[one])[0]) / step[row], ULP**2
            )
            with np.errstate(all="ignore"):
                bounds.append(float(np.log(columns).sum()))
        # A mirror image can share its value with a point whose log-det is right at both ends and
        # wrong in between.
        guilty[row] = float(all(np.isfinite(claims)) and min(claims[:2]) > max(bounds) + FLAT_SLACK)
    return Residual(
        guilty,
        decidable=decidable,
        observed={"x": batch.x, "x'": there, "f(x) = f(x')": first.value},
        note="two different points have the same image",
    )


@law(
    "map/promised-jacobian[monotone]",
    key="bijection/monotone",
    force=CONTRACT,
    promise="monotone",
    effort=4,
)
def monotone(flow: Bijection, batch: Batch) -> Residual:
    r"""An increasing elementwise map keeps order: $x_1 \le x_2 \Rightarrow f(x_1) \le f(x_2)$."""
    order = np.sort(batch.x, axis=0)
    y = flow.forward(
        order, batch.context if batch.context is None else batch.context[:1].repeat(len(order), 0)
    ).value
    fall = np.zeros_like(y)
    fall[1:] = np.maximum(y[:-1] - y[1:], 0.0)
    return Residual(
        fall,
        scale=rows_max(y),
        decidable=finite_rows(y),
        observed={"f(x)": y},
        note="a larger input has a smaller output",
    )


@law(
    "shape/any-batch[batch-axes]",
    key="bijection/batch-dimensions",
    force=CONTRACT,
    promise="batch-dims",
    effort=4,
)
def batch_dimensions(flow: Bijection, batch: Batch) -> Residual:
    r"""Several batch dimensions are one: $f$ on $(b_1, b_2, \dots)$ is $f$ on $(b_1 b_2, \dots)$,
    reshaped. Maps that reject several batch dimensions are skipped.
    """
    flat = flow.forward(batch.x, batch.context)
    lead = (2, len(batch.x) // 2) if len(batch.x) % 2 == 0 else (1, len(batch.x))
    context = (
        None if batch.context is None else batch.context.reshape(*lead, *flow.context_shape or ())
    )
    deep, refused = attempt(flow.forward, batch.x.reshape(*lead, *flow.event_shape), context)
    if refused:
        raise Unsupported(f"it rejects points in two batch dimensions ({refused})", blocked=False)
    value = np.asarray(deep.value)
    if value.shape[:2] != lead or value.size != flat.value.size:
        return Residual(
            np.full(len(batch.x), np.inf), note=f"the value came back in shape {value.shape}"
        )
    difference = (value.reshape(flat.value.shape) - flat.value).reshape(len(batch.x), -1)
    if flat.ladj is not None and np.ndim(flat.ladj) and np.shape(flat.ladj)[0] == len(batch.x):
        ladj = np.asarray(deep.ladj, dtype=np.float64)
        if ladj.shape[:2] != lead:
            return Residual(
                np.full(len(batch.x), np.inf), note=f"the log-det came back in shape {ladj.shape}"
            )
        gap = ladj.reshape(len(batch.x), -1) - np.asarray(flat.ladj, dtype=np.float64).reshape(
            len(batch.x), -1
        )
        difference = np.concatenate([difference, gap], axis=1)
    return Residual(difference, scale=4 + rows_max(flat.value), decidable=finite_rows(flat.value))
