"""Finds conversions of predictions: data, noise, score and velocity from each other, beside the method that
mixes data and noise or an equation with its moments, by the names of methods and parameters.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from flowref.adapters.common.distribution_functions import names_in
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import normalized_name
from flowref.adapters.user.processes.equations import (
    EVENTS,
    ROOT,
    VARIANCE,
    equation_of,
    points_like,
    value_at,
)
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
    "v": r"(v|velocity|probabilityflow(drift|velocity|ode)?|(pf)?ode(drift|velocity)?)",
    "score": r"score",
}
BEFORE, AFTER = r"(predict|pred|get|compute|convert|the)*", r"(pred|prediction)?"
VELOCITY = re.compile(r"(predict|get|compute)v(target)?")
NOISED = re.compile(r"noiseimagesat|addnoiseat")
# Velocities and scores of noised data and a time, one of which may call the other.
FIELDS = {
    "v": re.compile(
        r"(get|compute|marginal)*(velocity|vectorfield|probabilityflow(drift|velocity|ode)?|(pf)?ode(drift|velocity)?)(field|fn)?"
    ),
    "score": re.compile(r"(get|compute|marginal)*score(fn|function)?"),
}
# Half the step of differences in time, as a share of the whole.
STEP = 5e-4
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
    """The method that mixes data and noise, with the names of its parameters, and whether its times are steps.
    ``deviation``: that of the noise, if the method gives the mean alone; ``named``: whether names show which
    of its points is noise.
    """

    reading: TimeReading
    data: str
    noise: str
    steps: bool
    deviation: TimeReading | None = None
    named: bool = True


# A velocity and the score from which it is computed, or the reverse, both functions of noised data and a time.
Pair = tuple[TimeReading, TimeReading]


def conversions_of(obj: Any) -> dict[str, Any]:
    """The conversions of an object as a call of a dialect; empty if it has none."""
    for event in EVENTS:
        unnamed: list[partial[Any]] = []
        for mixing in _mixings(obj, event):
            rows = tuple(_conversions(obj, mixing, event))
            moments = _mean_and_variance(obj, mixing, event) if mixing.named else None
            known = not mixing.steps or any(is_velocity(one) for one in rows)
            rows = tuple(one for one in rows if known or "v" not in (one.given, one.wanted))
            pair = None if mixing.steps else _velocity_and_score(obj, event)
            if not (moments or pair or any(not is_velocity(one) for one in rows)):
                continue
            call = partial(
                conversions, mixing=mixing, rows=rows, moments=moments, pair=pair, event=event
            )
            if mixing.named:
                return {"conversions": call}
            unnamed.append(call)
        if unnamed:  # which point is noise, the conversions show
            return {
                "conversions": min(unnamed, key=partial(_distance_from_noise, obj, event=event))
            }
    return {}


def _distance_from_noise(obj: Any, call: Callable[..., Any], event: Sequence[int]) -> float:
    """How far conversions are from the noise at tried points."""
    x, noise, times = _tried_points(obj, False, event)
    x, noise = (one.reshape(len(one), -1) for one in (x, noise))
    found = call(obj, x, noise, times / last_time(obj))
    of_noise = np.array([wanted != "x0" for _, wanted in CONVERSIONS])
    return float(np.nan_to_num(np.abs((found - noise[:, None])[:, of_noise])).max())


def _mixings(obj: Any, event: Sequence[int]) -> Iterator[Mixing]:
    """Methods that mix data and noise, in the forms in which they can be called; then mean and deviation of an
    equation.
    """
    for method in dict.fromkeys(own_callables(obj)):
        word = normalized_name(method)
        if not MIXED.fullmatch(word) and not NOISED.fullmatch(word):
            continue
        names = [one.name for one in signatures.method_parameters(obj, method)]
        points = [one for one in names if not is_time(one)]
        noise = next((one for one in points if NOISE.fullmatch(normalized_name(one))), "")
        if len(points) < 2 or len(names) - len(points) != 1:
            continue
        first, second = next(one for one in points if one != noise), noise or points[1]
        needed = {one for one in signatures.required(obj, method) if not is_time(one)}
        if not needed <= {first, second} or (
            not noise and signatures.required(obj, method) != names
        ):
            continue
        for steps in (True, False) if noise else (False,):
            for form in CALL_FORMS:
                mixing = Mixing(TimeReading(method, form), first, second, steps, named=bool(noise))
                if _mixes(obj, mixing, event):
                    yield mixing
                    if not noise:
                        yield mixing._replace(data=second, noise=first)
                    break
    if (equation := equation_of(obj).get("moments")) and equation.keywords["event"] == event:
        mean, deviation = equation.keywords["parts"][:2]
        if mean is not None and len(asked := signatures.required(obj, mean.method)) == 2:
            data = next(one for one in asked if not is_time(one))
            yield Mixing(mean, data, "", False, deviation)


def _mixes(obj: Any, mixing: Mixing, event: Sequence[int]) -> bool:
    try:
        x, noise, times = _tried_points(obj, mixing.steps, event)
        mixed = _mix(obj, mixing, x, noise, times)
    except Exception:  # it takes other times
        return False
    return mixed.shape == x.shape and bool(np.isfinite(mixed).all())


def _velocity_and_score(obj: Any, event: Sequence[int]) -> Pair | None:
    """A velocity and a score, one of which the code of the other calls."""
    x, _, times = _tried_points(obj, False, event)
    found: dict[str, TimeReading] = {}
    for method in dict.fromkeys(own_callables(obj)):
        asked = signatures.required(obj, method)
        kinds = [kind for kind, names in FIELDS.items() if names.fullmatch(normalized_name(method))]
        if not kinds or sorted(map(is_time, asked)) != [False, True]:
            continue
        for form in CALL_FORMS:
            reading = TimeReading(method, form)
            try:
                working = value_at(obj, reading, x, times).shape == x.shape
            except Exception:  # it takes other points
                continue
            if working:
                found.setdefault(kinds[0], reading)
                break
    if len(found) < len(FIELDS):
        return None
    methods = {kind: one.method for kind, one in found.items()}
    code = {kind: names_in(inspect.unwrap(getattr(obj, one))) for kind, one in methods.items()}
    related = methods["score"] in code["v"] or methods["v"] in code["score"]
    return (found["v"], found["score"]) if related else None


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
    if mixing.deviation is None:
        return mixing.reading.of(obj, times, **{mixing.data: x, mixing.noise: noise})
    deviation = for_each(value_at(obj, mixing.deviation, x, times), x)
    return value_at(obj, mixing.reading, x, times) + deviation * noise


def _conversions(obj: Any, mixing: Mixing, event: Sequence[int]) -> Iterator[Conversion]:
    for method in dict.fromkeys(own_callables(obj)):
        word, names = normalized_name(method), signatures.required(obj, method)
        points = [one for one in names if not is_time(one)]
        if len(names) - len(points) != 1 or not 1 <= len(points) <= 2:
            continue
        for given, wanted in _meanings(word, points):
            if not mixing.named and "x0" in (given, wanted):
                continue  # it may be either point
            like = re.compile(f"{BEFORE}{WORDS[given]}{AFTER}t?")
            known = [one for one in points if like.fullmatch(normalized_name(one))]
            prediction = known[0] if len(known) == 1 else points[-1]
            mixture = next((one for one in points if one != prediction), "")
            for form in (mixing.reading.form, *CALL_FORMS):
                found = Conversion(given, wanted, TimeReading(method, form), mixture, prediction)
                if form != NUMBER and _gives_points(obj, found, mixing, event):
                    yield found
                    break


def _meanings(word: str, points: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What a method finds from what, by its name and those of its points."""
    if VELOCITY.fullmatch(word):
        yield "noise", "v"
    if FIELDS["v"].fullmatch(word) and any(map(FIELDS["score"].fullmatch, points)):
        yield "score", "v"
    for given, wanted in CONVERSIONS:
        if given in WORDS and wanted in WORDS:
            names = f"{BEFORE}{WORDS[wanted]}(from|by|given|of){WORDS[given]}|{BEFORE}{WORDS[given]}(to|2){WORDS[wanted]}"
            if re.fullmatch(names, word):
                yield given, wanted


def is_velocity(row: Conversion) -> bool:
    """Whether a row makes the velocity of Salimans and Ho, from data and noise, and is compared with nothing."""
    return (row.given, row.wanted) == ("noise", "v")


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
    pair: Pair | None,
    event: Sequence[int],
) -> Any:
    """Data x and noise ``(n, 4)`` recovered from their mixture at fractions of the time: ``(n, kinds, 4)`` in the
    order `CONVERSIONS`, nan for missing ones. A score is that of noised data given the data, and a velocity that
    of the mixture, as the noise that they stand for; data and noise are given as they are.
    """
    x, noise = (plain_array(obj, one).reshape(-1, *event) for one in (x, noise))
    times = _times(obj, plain_array(obj, shares), mixing.steps)
    mixed = _mix(obj, mixing, x, noise, times)
    nowhere = np.zeros_like(x)
    offset = _mix(obj, mixing, nowhere, nowhere, times)
    share = _mix(obj, mixing, nowhere, nowhere + 1, times) - offset
    shrink = (_mix(obj, mixing, nowhere + 1, nowhere, times) - offset) / share
    velocities = _velocities(obj, mixing, rows, times, shrink * share, share)

    def noise_of(velocity: Any, of: Callable[..., Any]) -> Any:
        """The noise that a velocity stands for, of data that leave the mixture as it is."""
        return noise + (velocity - of(x, noise)) / (of(x - 1 / shrink, noise + 1) - of(x, noise))

    def found_by(row: Conversion, given: Any) -> Any:
        return _converted(obj, row, mixed, given, times)

    found = {}
    for row in rows:
        key, expected = (row.given, row.wanted), x if row.wanted == "x0" else noise
        if is_velocity(row):
            continue
        if row.wanted == "v":
            out = found_by(row, -noise / share)
            tries = [noise_of(out, of) for of in velocities]
        elif row.given == "v":
            tries = [found_by(row, of(x, noise)) for of in velocities]
        else:
            tries = [found_by(row, {"x0": x, "noise": noise, "score": -noise / share}[row.given])]
        if row.wanted == "score":
            tries = [-share * one for one in tries]
        found[key] = _nearest(tries, expected)
    if pair is not None and ("score", "v") not in found:
        velocity, score = (value_at(obj, one, mixed, times) for one in pair)
        more = -share * score - noise  # of the noise that the score stands for
        found["score", "v"] = _nearest(
            [
                noise + noise_of(velocity, of) - noise_of(of(x - more / shrink, noise + more), of)
                for of in velocities
            ],
            noise,
        )
    if moments is not None:
        points = {one: x for one in signatures.required(obj, moments[0].method) if not is_time(one)}
        mean, deviation = (one.of(obj, times, **points) for one in moments)
        found["moments", "noise"] = (mixed - mean) / for_each(deviation, x)
    nothing = np.full_like(x, np.nan)
    parts = [found.get(one, nothing) for one in CONVERSIONS]
    if any(one.shape != x.shape for one in parts):
        raise TypeError("it finds no points")
    return np.stack([one.reshape(len(x), -1) for one in parts], 1)


def _velocities(
    obj: Any, mixing: Mixing, rows: Sequence[Conversion], times: Any, alpha: Any, sigma: Any
) -> list[Callable[..., Any]]:
    """What is called velocity of data and noise: what a method makes of these, else the derivative of the mixture
    in time or that of Salimans and Ho, in both directions.
    """
    step = STEP * last_time(obj)

    def made(x: Any, noise: Any, by: Conversion) -> Any:
        return _converted(obj, by, x, noise, times)

    def slope(x: Any, noise: Any) -> Any:
        later, earlier = (_mix(obj, mixing, x, noise, at) for at in (times + step, times - step))
        return (later - earlier) / (2 * step)

    def turned(x: Any, noise: Any) -> Any:
        return alpha * noise - sigma * x

    def back(x: Any, noise: Any, of: Callable[..., Any]) -> Any:
        return -of(x, noise)

    if (by := next(filter(is_velocity, rows), None)) is not None:
        return [partial(made, by=by)]
    found = [] if mixing.steps else [slope, turned]
    return [*found, *(partial(back, of=of) for of in found)]


def _nearest(tries: Sequence[Any], expected: Any) -> Any:
    """The one of several usages that is nearest to what is expected."""
    return min(
        tries, key=lambda one: float(np.abs(np.nan_to_num(one - expected, nan=math.inf)).max())
    )
