"""Finds conversions of predictions: data, noise, score and velocity from each other, beside the method that
mixes data and noise, by the names of methods and parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import normalized_name
from flowref.adapters.user.processes.equations import EVENTS, ROOT, VARIANCE, points_like
from flowref.adapters.user.processes.time_functions import (
    CALL_FORMS,
    MIXED,
    NOISE,
    NUMBER,
    TimeReading,
    for_each,
    is_time,
    last_time,
    own_callables,
    plain_array,
    returned_texts,
    tried_times,
)
from flowref.model.call import CONVERSIONS

# Attributes that tell how many steps there are.
STEPS = (
    "num_timesteps", "n_timesteps", "timesteps", "num_steps", "n_steps", "num_train_timesteps", "num_diffusion_timesteps",
    "n_T", "N", "T",
)  # fmt: skip
# Words of what is predicted, in methods and in parameters.
WORDS = {
    "x0": r"(x0|xstart|start|data|clean|original)",
    "noise": r"(noise|eps|epsilon)",
    "v": r"(v|velocity)",
    "score": r"score",
}
BEFORE, AFTER = r"(predict|pred|get|compute|convert|the)*", r"(pred|prediction)?"
VELOCITY = re.compile(r"(predict|get|compute)v(target)?")
NOISED = re.compile(r"noiseimagesat|addnoiseat")
# Means and variances of noised data.
MEAN_VARIANCE = re.compile(r"qmeanvar(iance)?|qmeanvariance|meanvariance")


class Conversion(NamedTuple):
    """A method that finds ``wanted`` from ``given``, by the names of its parameters for the mixture (empty if it
    takes none) and for what is given.
    """

    given: str
    wanted: str
    reading: TimeReading
    mixture: str
    prediction: str


class Mixing(NamedTuple):
    """The method that mixes data and noise, with the names of its parameters, and whether its times are steps."""

    reading: TimeReading
    data: str
    noise: str
    steps: bool


def conversions_of(obj: Any) -> dict[str, Any]:
    """The conversions of an object as a call of a dialect; empty if it has none."""
    for event in EVENTS:
        for mixing in _mixings(obj, event):
            rows = tuple(_conversions(obj, mixing, event))
            moments = _mean_and_variance(obj, mixing, event)
            velocity = next((one for one in rows if one.wanted == "v"), None)
            rows = tuple(one for one in rows if one.given != "v" or velocity is not None)
            if moments is None and not any(one.wanted != "v" for one in rows):
                continue
            call = partial(conversions, mixing=mixing, rows=rows, moments=moments, event=event)
            return {"conversions": call}
    return {}


def _mixings(obj: Any, event: Sequence[int]) -> Iterator[Mixing]:
    """Methods that mix data and noise, in the forms in which they can be called."""
    for method in dict.fromkeys(own_callables(obj)):
        word = normalized_name(method)
        if not MIXED.fullmatch(word) and not NOISED.fullmatch(word):
            continue
        names = [one.name for one in signatures.method_parameters(obj, method)]
        points = [one for one in names if not is_time(one)]
        noise = next((one for one in points if NOISE.fullmatch(normalized_name(one))), "")
        data = next((one for one in points if one != noise), "")
        if not noise or not data or len(names) - len(points) != 1:
            continue
        for steps in (True, False):
            for form in CALL_FORMS:
                mixing = Mixing(TimeReading(method, form), data, noise, steps)
                try:
                    x, noise_points, times = _tried_points(obj, steps, event)
                    mixed = _mix(obj, mixing, x, noise_points, times)
                except Exception:  # it takes other times
                    continue
                if mixed.shape == x.shape and np.isfinite(mixed).all():
                    yield mixing
                    break


def _tried_points(obj: Any, steps: bool, event: Sequence[int]) -> tuple[Any, Any, Any]:
    times = tried_times(obj)
    x = points_like(1 + times, event)
    return x, x / 2 - 1, _times(obj, times / last_time(obj), steps)


def _times(obj: Any, shares: Any, steps: bool) -> Any:
    """Times, or indices of steps, at fractions of the whole."""
    return step_indices(obj, shares) if steps else shares * last_time(obj)


def step_indices(obj: Any, shares: Any) -> Any:
    """Step indices at fractions of the number of steps, from 1 on."""
    values = (signatures.attribute(obj, name) for name in STEPS)
    count = next((one for one in values if type(one) is int and one > 1), 4)
    return (shares * count).astype(int).clip(1, count - 1)


def _mix(obj: Any, mixing: Mixing, x: Any, noise: Any, times: Any) -> Any:
    return mixing.reading.of(obj, times, **{mixing.data: x, mixing.noise: noise})


def _conversions(obj: Any, mixing: Mixing, event: Sequence[int]) -> Iterator[Conversion]:
    for method in dict.fromkeys(own_callables(obj)):
        word, names = normalized_name(method), signatures.required(obj, method)
        points = [one for one in names if not is_time(one)]
        if len(names) - len(points) != 1 or not 1 <= len(points) <= 2:
            continue
        for given, wanted in _meanings(word):
            like = re.compile(f"{BEFORE}{WORDS[given]}{AFTER}t?")
            known = [one for one in points if like.fullmatch(normalized_name(one))]
            prediction = known[0] if len(known) == 1 else points[-1]
            mixture = next((one for one in points if one != prediction), "")
            for form in (mixing.reading.form, *CALL_FORMS):
                found = Conversion(given, wanted, TimeReading(method, form), mixture, prediction)
                if form != NUMBER and _gives_points(obj, found, mixing, event):
                    yield found
                    break


def _meanings(word: str) -> Iterator[tuple[str, str]]:
    """What a method finds from what, by its name."""
    if VELOCITY.fullmatch(word):
        yield "noise", "v"
    for given in WORDS:
        for wanted in WORDS:
            names = f"{BEFORE}{WORDS[wanted]}(from|by|given|of){WORDS[given]}|{BEFORE}{WORDS[given]}(to|2){WORDS[wanted]}"
            if given != wanted and wanted != "v" and re.fullmatch(names, word):
                yield given, wanted


def _gives_points(obj: Any, found: Conversion, mixing: Mixing, event: Sequence[int]) -> bool:
    try:
        x, noise, times = _tried_points(obj, mixing.steps, event)
        out = _converted(obj, found, x, noise, times)
    except Exception:  # it takes other points
        return False
    return bool(out.shape == x.shape)


def _converted(obj: Any, found: Conversion, mixture: Any, prediction: Any, times: Any) -> Any:
    points = {found.prediction: prediction} | ({found.mixture: mixture} if found.mixture else {})
    return found.reading.of(obj, times, **points)


def _mean_and_variance(
    obj: Any, mixing: Mixing, event: Sequence[int]
) -> tuple[TimeReading, TimeReading] | None:
    """Readings of the mean and of the deviation of noised data."""
    for method in dict.fromkeys(own_callables(obj)):
        names = signatures.required(obj, method)
        if not MEAN_VARIANCE.fullmatch(normalized_name(method)) or len(names) != 2:
            continue
        texts = returned_texts(obj, method)
        if len(texts) < 2 or not VARIANCE.search(texts[1]) or ROOT.search(texts[1]):
            continue
        for form in CALL_FORMS:
            mean, deviation = TimeReading(method, form, 0), TimeReading(method, form, 1, "root")
            try:
                x, _, times = _tried_points(obj, mixing.steps, event)
                points = {one: x for one in names if not is_time(one)}
                whole = mean.of(obj, times, **points).shape == x.shape
                for_each(deviation.of(obj, times, **points), x)
            except Exception:  # it takes other times
                continue
            if whole:
                return mean, deviation
    return None


def conversions(
    obj: Any,
    x: Any,
    noise: Any,
    shares: Any,
    mixing: Mixing,
    rows: Sequence[Conversion],
    moments: tuple[TimeReading, TimeReading] | None,
    event: Sequence[int],
) -> Any:
    """Data x and noise ``(n, 4)`` recovered from their mixture at fractions of the time: ``(n, kinds, 4)`` in the
    order `CONVERSIONS`, nan for missing ones. A score is that of noised data given the data, as the noise that
    it stands for; data and noise are given as they are.
    """
    x, noise = (plain_array(obj, one).reshape(-1, *event) for one in (x, noise))
    times = _times(obj, plain_array(obj, shares), mixing.steps)
    mixed = _mix(obj, mixing, x, noise, times)
    nowhere = np.zeros_like(x)
    share = _mix(obj, mixing, nowhere, nowhere + 1, times) - _mix(
        obj, mixing, nowhere, nowhere, times
    )
    known = {"x0": x, "noise": noise, "score": -noise / share}
    for row in rows:
        if row.wanted == "v":
            known["v"] = _converted(obj, row, x, noise, times)
    found = {}
    for row in rows:
        if row.wanted != "v":
            out = _converted(obj, row, mixed, known[row.given], times)
            found[row.given, row.wanted] = -share * out if row.wanted == "score" else out
    if moments is not None:
        points = {one: x for one in signatures.required(obj, moments[0].method) if not is_time(one)}
        mean, deviation = (one.of(obj, times, **points) for one in moments)
        found["moments", "noise"] = (mixed - mean) / for_each(deviation, x)
    nothing = np.full_like(x, np.nan)
    parts = [found.get(one, nothing) for one in CONVERSIONS]
    if any(one.shape != x.shape for one in parts):
        raise TypeError("it finds no points")
    return np.stack([one.reshape(len(x), -1) for one in parts], 1)
