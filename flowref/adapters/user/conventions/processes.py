"""Finds noise processes: rate and transition matrices of tokens, noise schedules, stochastic differential
equations with their marginals, and conversions of predictions. Methods have unmistakable names, and are
read only if calls return what the names promise.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from flowref.adapters.common.distribution_functions import names_in
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.equations import EVENTS, equation_of
from flowref.adapters.user.conventions.names import normalized_name
from flowref.adapters.user.conventions.time_functions import (
    TRIED,
    is_time,
    last_time,
    time_functions_of,
    tried_times,
)
from flowref.model import Dialect
from flowref.model.call import PROCESS

# Names of matrices of rates, of probabilities of jumps, and of either: those with a negative entry are rates.
RATES = re.compile(r"(get|compute)?(rate|generator)(mat|matrix|mats|matrices)|rates?")
TRANSITIONS = re.compile(
    r"(get|compute)?(forward)?transitions?(mat|matrix|mats|matrices|probs?|probability|probabilities)?"
)
EITHER = re.compile(r"(get)?q(t|bar|tbar)?(onestep)?(bar)?(mats?|matrix|matrices)?")
# Attributes that count tokens, without which such a matrix may be one of a system of vectors.
TOKENS = re.compile(r"(num|n)?(classes|categories|tokens|states|symbols)|vocab(ulary)?(size)?|k")
# Attributes that tell how many steps there are.
STEPS = (
    "num_timesteps",
    "n_timesteps",
    "timesteps",
    "num_steps",
    "n_steps",
    "num_train_timesteps",
    "n_T",
    "N",
    "T",
)
# How times are asked for, in the order in which it is tried: a tensor of several, or one after the other.
SEVERAL, SCALAR, NUMBER, COUNTS, COUNT = "several", "scalar", "number", "counts", "count"
# Arrays of a schedule in discrete time, in the order in which they are given.
ARRAYS = {
    "beta": ("betas", "beta"),
    "alpha_bar": ("alphascumprod", "alphabars", "alphabar", "alphacumprod", "alphahat"),
    "alpha": ("alphas", "alpha"),
    "root": ("sqrtalphascumprod", "sqrtalphacumprod", "sqrtalphabar", "sqrtalphabars"),
    "deviation": ("sqrtoneminusalphascumprod", "sqrtoneminusalphacumprod", "sqrtoneminusalphabar"),
    "before": ("alphascumprodprev", "alphacumprodprev"),
}
# Those that are of one step.
STEPWISE = ("beta", "alpha")
# Methods that noise data, and that find them, the noise and the velocity again; each takes points, steps and another point.
NOISED = ("q_sample", "add_noise_at", "noise_images_at")
CONVERTED = {
    "x0": (
        "predict_start_from_noise",
        "predict_xstart_from_eps",
        "_predict_xstart_from_eps",
        "predict_x0_from_eps",
    ),
    "noise": (
        "predict_noise_from_start",
        "predict_eps_from_xstart",
        "_predict_eps_from_xstart",
        "predict_eps_from_x0",
    ),
    "v": ("predict_v", "get_v"),
    "x0 of v": ("predict_start_from_v", "predict_x0_from_v", "predict_xstart_from_v"),
}


def processes_of(obj: Any) -> dict[str, Any]:
    """The methods of a noise process as calls of a dialect."""
    found: dict[str, Any] = {}
    for read in (_matrices_of, equation_of, _schedule_of, time_functions_of, _conversions_of):
        try:
            found |= read(obj)
        except Exception:  # it is asked otherwise, or is something else
            continue
    return found


def methods_read(process: Mapping[str, Any]) -> set[str]:
    """The methods and arrays that the calls of a process read."""
    return {name for call in process.values() for name in _names_read(call)}


def process_words(dialect: Dialect) -> tuple[str, ...]:
    """The methods and arrays that are read, for the summary line of the target."""
    words = {
        "rates": "rates",
        "transitions": "transition matrices",
        "moments": "moments and equation",
        "schedule": "schedule",
        "time_functions": "functions of time",
        "conversions": "conversions",
    }
    read = {name: getattr(dialect, name) for name in PROCESS}
    names = {
        name: dict.fromkeys(_names_read(call)) for name, call in read.items() if call is not None
    }
    return tuple(f"{words[name]}: {', '.join(some)}" for name, some in names.items())


def _names_read(call: Any) -> Iterator[str]:
    """The methods and arrays that a call of a process reads."""
    given = call.keywords
    yield from (name for name, _ in given.get("asked", ()))
    for part in ("parts", "readings", "mixtures", "backs"):
        for one in given.get(part, ()):
            reading = one[1] if isinstance(one, tuple) else one
            if reading is not None:
                yield reading.method
    yield from filter(None, (given.get("noised", ""), *given.get("names", ())))


# Matrices.


def _matrices_of(obj: Any) -> dict[str, Any]:
    sizes = {value for name, value in _attributes(obj).items() if _counts_tokens(name, value)}
    found: dict[str, list[tuple[str, str]]] = {"rates": [], "transitions": []}
    for name in _own_names(obj) if sizes else ():
        word = normalized_name(name)
        kinds = {"rates": RATES, "transitions": TRANSITIONS, "": EITHER}
        kind = next((kind for kind, names in kinds.items() if names.fullmatch(word)), None)
        how = None if kind is None else _time_form(obj, name, sizes)
        if how is None:
            continue
        negative = bool((matrices(obj, _shares(obj), ((name, how),)) < 0).any())
        found[kind or ("rates" if negative else "transitions")].append((name, how))
    return {kind: partial(matrices, asked=tuple(asked)) for kind, asked in found.items() if asked}


def _counts_tokens(name: str, value: Any) -> bool:
    return type(value) is int and value > 1 and bool(TOKENS.fullmatch(normalized_name(name)))


def _time_form(obj: Any, name: str, sizes: set[int]) -> str | None:
    """How a method returns matrices of a size for times; empty for a stored array, None if it returns
    none.
    """
    value = getattr(obj, name)
    if callable(value):
        needed = signatures.required(obj, name)
        if not 1 <= len(needed) <= 2 or not all(is_time(one) for one in needed):
            return None
    for how in (SEVERAL, SCALAR, NUMBER, COUNTS, COUNT) if callable(value) else ("",):
        try:
            shape = matrices(obj, _shares(obj), ((name, how),)).shape
        except Exception:  # it takes other times
            continue
        whole = shape[0] == len(TRIED) or not how
        if whole and shape[1] == shape[2] and int(shape[1]) in sizes:
            return how
    return None


def matrices(obj: Any, shares: Any, asked: Sequence[tuple[str, str]]) -> Any:
    """Matrices of several methods at fractions of the time, or all stored ones, concatenated
    ``(times, k, k)``.
    """
    import torch

    found = []
    for name, how in asked:
        value = getattr(obj, name)
        for part in _at_times(value, obj, shares, how) if how else (value,):
            part = torch.as_tensor(part).detach()
            if not part.is_floating_point() or part.dim() < 2:
                raise TypeError(f"{name} gives no matrices")
            found.append(part.reshape(-1, *part.shape[-2:]).to(shares.dtype))
    return torch.cat(found)


def _at_times(run: Callable[..., Any], obj: Any, shares: Any, how: str) -> Iterator[Any]:
    """The result of a method at times; between half the time and the time, if it takes two."""
    times = _steps(obj, shares) if how in (COUNTS, COUNT) else shares * last_time(obj)
    needed = len(
        [one for one in inspect.signature(run).parameters.values() if one.default is one.empty]
    )
    ends = [times // 2 if how in (COUNTS, COUNT) else times / 2, times][-needed:]
    if how in (SEVERAL, COUNTS):
        out = run(*ends)
        if len(out) != len(shares):
            raise TypeError("it gives no matrix for each time")
        yield out
        return
    for index in range(len(shares)):
        given = [end[index] for end in ends]
        yield run(*given) if how == SCALAR else run(*(one.item() for one in given))


def _shares(obj: Any) -> Any:
    return tried_times(obj) / last_time(obj)


def _steps(obj: Any, shares: Any) -> Any:
    """Step indices at fractions of the number of steps, from 1 on."""
    values = (signatures.attribute(obj, name) for name in STEPS)
    count = next((one for one in values if type(one) is int and one > 1), 4)
    return (shares * count).long().clamp(1, count - 1)


# Schedules in discrete time.


def _schedule_of(obj: Any) -> dict[str, Any]:
    held = {normalized_name(name): name for name in _own_names(obj)}
    names = {
        part: next((held[one] for one in words if one in held), "")
        for part, words in ARRAYS.items()
    }
    if not names["beta"] or not names["alpha_bar"]:
        return {}
    beta, bar = schedule(obj, tuple(names.values()))[:2]
    inside = ((beta > 0) & (beta <= 1)).all() and ((bar >= 0) & (bar <= 1)).all()
    kept = {
        part: name for part, name in names.items() if part not in STEPWISE or _is_used(obj, name)
    }
    call = partial(schedule, names=tuple(kept.get(part, "") for part in ARRAYS))
    return {"schedule": call} if bool(inside) else {}


def _is_used(obj: Any, name: str) -> bool:
    """Whether a method besides the constructor reads an array, or the object has no such method. Some
    schedules rescale the cumulative products on purpose, and no longer use the variances of steps.
    """
    methods = [
        getattr(base, "__dict__", {})[one]
        for base in type(obj).__mro__
        for one in vars(base)
        if signatures.defines_method(obj, one) and one != "__init__"
    ]
    return not methods or any(name in names_in(inspect.unwrap(one)) for one in methods)


def schedule(obj: Any, names: Sequence[str]) -> Any:
    """The arrays of a schedule, ``(6, steps)``, nan for missing ones: betas, cumulative products of alphas,
    alphas, the roots of the products and of their complements, and the previous products.
    """
    import torch

    arrays = [
        torch.as_tensor(getattr(obj, name) if name else torch.nan).detach().double()
        for name in names
    ]
    bars = arrays[1]
    if bars.dim() != 1 or (names[0] and arrays[0].shape != bars.shape):
        raise TypeError("it keeps no number for each step")
    nothing = bars.new_full(bars.shape, torch.nan)
    return torch.stack([one if one.shape == bars.shape else nothing for one in arrays])


# Predictions.


def _conversions_of(obj: Any) -> dict[str, Any]:
    noised = _first(obj, NOISED, 2, 3)
    names = {part: _first(obj, words, 3) for part, words in CONVERTED.items()}
    if not noised or not (names["x0"] or names["noise"] or (names["v"] and names["x0 of v"])):
        return {}
    for event in EVENTS:
        call = partial(conversions, noised=noised, names=tuple(names.values()), event=event)
        try:
            shares = _shares(obj)
            points = shares.new_ones(len(shares), 4)
            call(obj, points, points / 2, shares)
            return {"conversions": call}
        except Exception:  # it takes other points
            continue
    return {}


def conversions(
    obj: Any,
    x: Any,
    noise: Any,
    shares: Any,
    noised: str,
    names: Sequence[str],
    event: Sequence[int],
) -> Any:
    """Data x and noise ``(n, 4)`` recovered from their mixture at fractions of the steps: data from noise,
    noise from data, data from the velocity, ``(n, 3, 4)``; nan for missing conversions.
    """
    import torch

    points, other, times = x.reshape(-1, *event), noise.reshape(-1, *event), _steps(obj, shares)
    mixed = getattr(obj, noised)(points, times, other)
    of_noise, of_data, velocity, of_velocity = names
    found = [
        getattr(obj, of_noise)(mixed, times, other) if of_noise else None,
        getattr(obj, of_data)(mixed, times, points) if of_data else None,
        getattr(obj, of_velocity)(mixed, times, getattr(obj, velocity)(points, times, other))
        if velocity and of_velocity
        else None,
    ]
    nothing = torch.full_like(points, torch.nan)
    parts = [nothing if one is None else one for one in found]
    if mixed.shape != points.shape or any(one.shape != points.shape for one in parts):
        raise TypeError("it finds no points")
    return torch.stack([one.detach().reshape(x.shape) for one in parts], 1)


def _first(obj: Any, names: Sequence[str], *needed: int) -> str:
    """The first of some methods with this number of arguments; empty if there is none."""
    return next(
        (
            name
            for name in names
            if callable(signatures.attribute(obj, name))
            and len(signatures.required(obj, name)) in needed
        ),
        "",
    )


def _attributes(obj: Any) -> Mapping[str, Any]:
    return getattr(obj, "__dict__", {})


def _own_names(obj: Any) -> list[str]:
    """Names of an object's attributes, buffers included, and of the methods of its classes."""
    methods = (name for base in type(obj).__mro__ for name in vars(base))
    own = (name for name in methods if signatures.defines_method(obj, name))
    return list(dict.fromkeys([*_attributes(obj), *getattr(obj, "_buffers", {}), *own]))
