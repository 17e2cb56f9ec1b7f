"""Finds stochastic differential equations: drift and diffusion, beside mean and deviation of noised data, in
one method each or together, of data and a time or of a time alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import normalized_name
from flowref.adapters.user.processes.time_functions import (
    CALL_FORMS,
    TimeReading,
    core_of,
    for_each,
    is_time,
    last_time,
    own_callables,
    plain_array,
    returned_texts,
    time_readings,
    tried_times,
)

# Events at which methods are tried, of four entries: some stretch numbers over images.
EVENTS = ((4,), (1, 2, 2))
PARTS = ("mean", "deviation", "drift", "diffusion")
# Methods of data and a time that return two of them, whatever the text of the second, and those that return
# a deviation or a variance as the text says.
SURE = {
    ("mean", "deviation"): re.compile(r"marginalprob|marginalmeanstd|(get|compute)?meanand?std"),
    ("drift", "diffusion"): re.compile(
        r"(get|compute|forward)*(sde|driftand?diffusion|coeffs?|coefficients)"
    ),
}
BY_TEXT = re.compile(
    r"(get|compute)?(marginal|perturbation)(params?|meanvar|distribution|dist|kernel|moments|stats|statistics)?|"
    r"(get|compute)?meanand?(var|variance)"
)
# Words of a variance, and of its root, in what a method returns.
VARIANCE = re.compile(r"var", re.IGNORECASE)
ROOT = re.compile(r"sqrt|std|sigma|dev|scale|\*\* ?\(?(0?\.5|1 ?/ ?2)", re.IGNORECASE)
# Methods of data and a time that return one of them, and functions of time that do.
SINGLE = {
    "mean": (re.compile(r"(get|compute|marginal)*mean"), ("alpha",)),
    "deviation": (re.compile(r"(get|compute|marginal)*(std|stddev|sigma)(fn)?"), ("sigma",)),
    "drift": (re.compile(r"(get|compute|forward)*(drift|f)(fn)?"), ("drift", "(log alpha)'")),
    "diffusion": (
        re.compile(r"(get|compute|forward)*(diffusion|dispersion|g)(fn)?"),
        ("diffusion",),
    ),
}


# A part, a method, where it is in its result, and what is done to reach it.
Entry = tuple[str, str, int | str | None, str]


def equation_of(obj: Any) -> dict[str, Any]:
    """Moments and equation of an object as a call of a dialect; empty if it has no methods for them."""
    times = tried_times(obj)
    for event in EVENTS:
        points = points_like(1 + times, event)
        found = dict(_of_time(obj))
        for name, reading in _of_data(obj, points, times):
            found[name] = reading  # methods of data precede functions of time
        drift, diffusion = found.get("drift"), found.get("diffusion")
        if not drift or not diffusion or "deviation" not in found:
            continue
        if "mean" not in found and not _leaves_data(obj, found, points, times):
            continue
        if "mean" in found and not _is_affine(obj, found, points, times):
            continue
        call = partial(moments, parts=tuple(found.get(one) for one in PARTS), event=event)
        try:
            shares = times / last_time(obj)
            if np.isfinite(call(obj, points.reshape(len(points), -1), shares)).all():
                return {"moments": call}
        except Exception:  # it stretches numbers over other axes
            continue
    return {}


def points_like(numbers: Any, event: Sequence[int]) -> Any:
    """Points ``(n, *event)``, each of one number."""
    return numbers.reshape(-1, *[1] * len(event)) * np.ones(event)


def _of_time(obj: Any) -> Iterator[tuple[str, TimeReading]]:
    known = time_readings(obj)
    for part, (_, names) in SINGLE.items():
        yield from ((part, known[name]) for name in names[::-1] if name in known)


def _of_data(obj: Any, points: Any, times: Any) -> Iterator[tuple[str, TimeReading]]:
    """Parts that methods of data and a time return, those of single ones first."""
    later = []
    for method in dict.fromkeys(own_callables(obj)):
        word, asked = normalized_name(method), signatures.required(obj, method)
        if sorted(map(is_time, asked)) != [False, True]:
            continue
        pair = next((two for two, names in SURE.items() if names.fullmatch(word)), ())
        if pair or BY_TEXT.fullmatch(word):
            later += [*_pair(obj, method, pair, points, times)]
            continue
        for part, (names, _) in SINGLE.items():
            if names.fullmatch(word):
                yield from _working(obj, [(part, method, None, "")], points, times)
    yield from later


def _pair(
    obj: Any, method: str, pair: Sequence[str], points: Any, times: Any
) -> Iterator[tuple[str, TimeReading]]:
    names = pair or PARTS[:2]
    texts = returned_texts(obj, method)
    second = texts[1] if len(texts) == 2 else ""
    root, variance = bool(ROOT.search(second)), bool(VARIANCE.search(second))
    if pair or root or variance:
        change = "root" if variance and not root and not pair else ""
        entries: list[Entry] = [(names[0], method, 0, ""), (names[1], method, 1, change)]
        yield from _working(obj, entries, points, times)
    elif not texts:  # a distribution
        entries = [(names[0], method, "mean", ""), (names[1], method, "stddev", "")]
        yield from _working(obj, entries, points, times)


def _working(
    obj: Any, entries: Sequence[Entry], points: Any, times: Any
) -> Iterator[tuple[str, TimeReading]]:
    """Readings in the first form in which all of them can be called."""
    for form in CALL_FORMS:
        found = [
            (part, TimeReading(method, form, entry, change))
            for part, method, entry, change in entries
        ]
        try:
            for part, reading in found:
                value = value_at(obj, reading, points, times)
                if part in ("mean", "drift") and value.shape != points.shape:
                    raise TypeError("it gives no points")
                for_each(value, points)
        except Exception:  # it takes times otherwise
            continue
        yield from found
        return


def _is_affine(obj: Any, found: dict[str, TimeReading], points: Any, times: Any) -> bool:
    """Whether a mean can be what it is read as: a share of data is the mean only if there is no drift at zero."""
    if len(signatures.required(obj, found["mean"].method)) > 1:
        return True
    if len(signatures.required(obj, found["drift"].method)) == 1:
        # A drift that is a function of time alone may be added, where a mean is.
        return core_of(found["mean"].method) != "mean"
    return not bool(value_at(obj, found["drift"], 0 * points, times).any())


def _leaves_data(obj: Any, found: dict[str, TimeReading], points: Any, times: Any) -> bool:
    """Whether data are their own mean, since there is no drift. A "sigma" that is the diffusion is no deviation."""
    drift, deviation, diffusion = (
        for_each(value_at(obj, found[one], points, times), points)
        for one in ("drift", "deviation", "diffusion")
    )
    return not bool(drift.any()) and not bool((deviation == diffusion).all())


def value_at(obj: Any, reading: TimeReading, points: Any, times: Any) -> Any:
    """What a reading gives for data ``(n, *event)`` at times ``(n,)``."""
    asked = signatures.required(obj, reading.method)
    given = {name: points for name in asked if not is_time(name)}
    return reading.of(obj, times, **given)


def moments(
    obj: Any, x: Any, shares: Any, parts: Sequence[TimeReading | None], event: Sequence[int]
) -> Any:
    """Mean and standard deviation of data x ``(n, 4)`` at fractions of the time ``(n,)``, drift and
    diffusion at x, and the final time: ``(n, 5, 4)``. Coefficients of mean and drift that are functions of
    time multiply x; data without a mean of theirs are it.
    """
    x = plain_array(obj, x)
    points, times = x.reshape(-1, *event), plain_array(obj, shares) * last_time(obj)
    found = []
    for name, reading in zip(PARTS, parts, strict=True):
        if reading is None:
            found.append(points)
            continue
        value = value_at(obj, reading, points, times)
        of_time = len(signatures.required(obj, reading.method)) == 1
        value = for_each(value, points)
        found.append(value * points if of_time and name in ("mean", "drift") else value)
    found.append(for_each(times, points))
    return np.stack([one.reshape(x.shape) for one in found], 1)
