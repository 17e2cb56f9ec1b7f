"""The precision card: decimal digits left of a call in the precisions that people use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flowref import loading
from flowref.model import (
    REAL,
    Array,
    Condition,
    Mapped,
    Subject,
    Target,
    draw_points,
    one_line,
    seed_of,
)
from flowref.model.call import How
from flowref.model.errors import FlowrefError
from flowref.model.subject import per_point

# Precision -> how calls of a float32 object are made in it.
PRECISIONS: dict[str, How] = {
    "float32": "plain",
    "float16 autocast": "float16",
    "bfloat16 autocast": "bfloat16",
}
# States of the weights, and half-widths of the boxes of points on a real domain.
STATES = {
    "as built": Condition(),
    "moved": Condition(scale=0.3),
    "trained": Condition(history="trained"),
}
REACHES = (0.1, 1.0, 3.0, 10.0)
POINTS, SEED = 16, 5
ROUND_TRIP = "inverse(forward)"
CALLS = ("forward", "inverse", ROUND_TRIP, "log_prob")


class Left(NamedTuple):
    """Digits left of one result of a call.

    ``fewest``: decimal digits relative to 1 + the size, the minimum over points, nan if nothing
    could be measured; ``lost``: number of ``points`` with a float64 result where it is not finite
    or raises; ``error``: what was raised.
    """

    result: str
    fewest: float
    lost: int
    points: int
    error: str = ""


@dataclass(frozen=True)
class Digits:
    """Digits left of a call in one precision and state, at points up to a reach."""

    precision: str
    state: str
    call: str
    reach: float | None
    left: Left


def card(target: Target) -> Iterator[Digits]:
    """Yield the digits of each call in each precision and state. The reference is float64 at points
    representable in float32. Raises: `FlowrefError` if the target cannot be loaded.
    """
    for state, condition in STATES.items():
        try:
            subject = loading.load(target, condition)
        except FlowrefError:
            if state == "as built":
                raise
            continue
        if subject.dtype != "float64":
            continue
        real = subject.domain == REAL
        for reach in REACHES if real else (None,):
            points, context = card_points(subject, reach)
            for precision, how in PRECISIONS.items():
                for call in CALLS:
                    for left in digits_left(subject, call, how, points, context):
                        yield Digits(precision, state, call, reach, left)


def card_points(subject: Subject, reach: float | None) -> tuple[Array, Array | None]:
    """Return points representable in float32, ``(POINTS, *event)``, in a box whose corner is the
    first or of the domain, and contexts.
    """
    rng = np.random.default_rng(seed_of(SEED, "card", str(reach)) % 2**63)
    shape = (POINTS, *subject.event_shape)
    if reach is None:
        points = draw_points(subject.domain, shape, rng)
    else:
        points = rng.uniform(-reach, reach, shape)
        points[0] = reach * np.sign(points[0])
    context = None
    if subject.context_shape is not None:
        context = nearest_float32(rng.standard_normal((POINTS, *subject.context_shape)))
    return nearest_float32(points), context


def nearest_float32(array: Array) -> Array:
    """Round to float32, as float64."""
    return np.asarray(array.astype(np.float32).astype(np.float64))


def digits_left(
    subject: Subject, call: str, how: How, points: Array, context: Array | None
) -> Iterator[Left]:
    """Yield the digits left of each result of a call; nothing if float64 raises."""
    steps = ("forward", "inverse") if call == ROUND_TRIP else (call,)
    if not set(steps) <= set(subject.calls) or (
        call == "inverse" and "forward" not in subject.calls
    ):
        return
    try:
        if call == "inverse" or (call == "log_prob" and subject.normalizing == "inverse"):
            points = nearest_float32(np.asarray(subject.calls["forward"](points, context).value))
        exact = (
            Mapped(points, None)
            if call == ROUND_TRIP
            else subject.calls[call].under(points, context)
        )
    except Exception:  # what raises in float64 is not about precision
        return
    try:
        found, error = made(subject, steps, how, points, context), ""
    except Exception as raised:
        found, error = None, one_line(raised, 60)
    other = Mapped(np.zeros(0), None) if found is None else found
    name = "log-density" if call == "log_prob" else "value"
    yield Left(name, *digits(exact.value, other.value), error)
    if exact.ladj is not None:
        yield Left("log-det", *digits(exact.ladj, other.ladj), error)


def made(
    subject: Subject, steps: tuple[str, ...], how: How, x: Array, context: Array | None
) -> Mapped:
    """Return the result of calls in sequence, in a precision."""
    out = Mapped(x, None)
    for step in steps:
        out = subject.calls[step].under(
            np.asarray(out.value, np.float64), context, how=how, dtype="float32"
        )
    return out


def digits(exact: Array | float, found: Array | float | None) -> tuple[float, int, int]:
    """Return the fewest digits relative to 1 + the size of a result, and at how many of how many
    points it is lost.
    """
    truth = np.asarray(exact if np.ndim(exact) else per_point(exact, POINTS), np.float64)
    truth = truth.reshape(len(truth), -1)
    good = np.isfinite(truth).all(1)
    if found is None or not good.any():
        return np.nan, int(good.sum()), int(good.sum())
    other = np.asarray(found if np.ndim(found) else per_point(found, POINTS), np.float64)
    if other.size != truth.size:
        return np.nan, int(good.sum()), int(good.sum())
    with np.errstate(all="ignore"):
        error = np.abs(other.reshape(truth.shape) - truth).max(1, initial=0.0)
        error = error / (1 + np.abs(truth).max(1, initial=0.0))
    kept = good & np.isfinite(error)
    worst = float(error[kept].max(initial=0.0))
    fewest = -np.log10(max(worst, 1e-16)) if kept.any() else np.nan
    return float(max(0.0, fewest)), int((good & ~kept).sum()), int(good.sum())
