"""Finds functions of time of a noise process or of a path between two points: the shares of data and noise,
their derivatives, signal-to-noise ratios and rates, by the names of methods and of what they return.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from flowref import backends
from flowref.adapters.common.distribution_functions import names_in
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import normalized_name
from flowref.adapters.user.conventions.stated_returns import returned_tuples
from flowref.model.call import TIME_FUNCTIONS

# Parameters that are times; attributes that are the last of them.
TIME = re.compile(r"(time|timestep|step|t|tau|ts|tt|s)s?|t\d")
ENDS = ("T", "t_max", "tmax", "t_end", "end_time", "max_time", "horizon")
# Shares of time at which calls are tried: as many as no axis of what they give has.
TRIED = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
# How times and points are passed: times as (n,) or with the axes of points, as arrays of the object's framework or
# of numpy; or one row after the other, at a number, or at a time and an event without axes of rows.
TENSOR, COLUMN, ARRAY, ARRAY_COLUMN, NUMBER, EVENT = (
    "tensor", "column", "array", "array column", "number", "event",
)  # fmt: skip
CALL_FORMS = (TENSOR, COLUMN, ARRAY, ARRAY_COLUMN, NUMBER, EVENT)
TIME_FORMS = (TENSOR, ARRAY, NUMBER, EVENT)
# What may precede and follow the name of a quantity.
BEFORE, AFTER = r"(get|compute|calc|calculate|marginal|prob)*", r"(t|fn|func|function|schedule)*"
ALPHA = r"(alpha|(mean|signal|data)(coeff?|coefficient|scale|factor|rate|weight))"
STD = r"(std|stddev|standarddeviation)"
SIGMA = rf"({STD}|sigma|noise(rate|scale|coeff?|coefficient))"
# Functions that are derivatives of others whose names have no such mark: of which.
INTEGRANDS = (
    (r"beta", r"(int|integral|integrated|cumulative)(of)?beta|beta(int|integral)"),
    (r"ratenoise", r"totalnoise"),
)
DERIVATIVE = re.compile(
    rf"{BEFORE}(d(?P<of>.+?)(dt)?|(?P<function>.+?)(dot|prime|deriv|derivative)){AFTER}"
)
PAIRS = tuple(name for name in TIME_FUNCTIONS if name.isdigit())
LOG = r"(half)?(logsnr|lambda|lam)"
# Names of quantities, and what is done to reach a quantity: the first that an object has is read.
QUANTITIES = {
    "alpha": (
        (ALPHA, ""),
        (rf"log{ALPHA}", "exp"),
        (r"mean", ""),
        (r"(alphabar|alphas?cumprod|alpha(squared|sq|2))", "root"),
    ),
    "sigma": (
        (STD, ""),
        (SIGMA, ""),
        (rf"log{SIGMA}", "exp"),
        (r"(var|variance|sigma(squared|sq|2))", "root"),
    ),
    "(log alpha)'": ((rf"dlog{ALPHA}t*(dt)?", ""),),
    "snr": ((r"snr", ""),),
    "log snr": ((LOG, ""),),
    "drift": ((r"drift(coeff?|coefficient)?|f", ""),),
    "diffusion": (
        (r"(diffusion|dispersion)(coeff?|coefficient)?|g", ""),
        (r"((diffusion|dispersion)(coeff?|coefficient)?|g)(squared|sq|2)", "root"),
    ),
}  # fmt: skip
# Methods that return several quantities.
SEVERAL = re.compile(
    rf"{BEFORE}(call|forward|(alpha|signal|mean)(and)?(sigma|noise|std)|schedule|rates?|shares|coeffs?|coefficients|params?|scheduler?)s?{AFTER}"
)
# Names of a logarithm of a ratio that are also those of weights of a loss.
WEIGHT = re.compile(r"lam")
# A way back from a quantity to the time.
BACK = r"(inv|inverse)({0})|({0})(inv|inverse)|({0})tot|tfrom({0})"
# Mixtures of two points at a time, and velocities of a path between them.
MIXED = re.compile(
    r"(compute)?(mu|xt|mut)t?|(sample|q)?(sample|path|interpolate|interpolant|perturb|addnoise|noised|noise|marginalsample|diffuse|forwardprocess|corrupt)t?"
)
VELOCITY = re.compile(
    r"(compute|get|target|conditional|cond)*(ut|velocity|vectorfield|conditionalflow)t?"
)
NOISE = re.compile(r"noise|eps|epsilon|z|e", re.IGNORECASE)
BETWEEN = re.compile(r"x_?t|xt|x|z_?t", re.IGNORECASE)
# Quantities of which each set is related, one of which makes functions of time worth reading.
RELATED = (
    {"alpha", "(log alpha)'"},
    {"alpha", "sigma", "snr"},
    {"alpha", "sigma", "log snr"},
    {"snr", "log snr"},
    {"alpha", "sigma", "data"},
    {"first", "first'"},
    *({name} for name in PAIRS),
    *({name} for name in TIME_FUNCTIONS if name.startswith("time of")),
)  # fmt: skip


@dataclass(frozen=True)
class TimeReading:
    """A quantity by a ``method`` of an object, an ``entry`` of its result by position or name (None for all of
    it), called in a ``form``, after a ``change``: "root", "exp", or none.
    """

    method: str
    form: str
    entry: int | str | None = None
    change: str = ""

    def of(self, obj: Any, times: Any, **points: Any) -> Any:
        """The quantity at times ``(n,)``, and at points by the names of parameters: ``(n, ...)``."""
        return self.changed(self.raw(obj, times, **points))

    def raw(self, obj: Any, times: Any, **points: Any) -> Any:
        """What the method returns, before the change."""
        return _called(obj, self.method, self.form, self.entry, times, points)

    def changed(self, value: Any) -> Any:
        """The quantity by what a method returns."""
        if not self.change:
            return value
        with np.errstate(all="ignore"):
            return {"root": np.sqrt, "exp": np.exp}[self.change](value)


def _called(
    obj: Any,
    method: str,
    form: str,
    entry: int | str | None,
    times: Any,
    points: Mapping[str, Any],
) -> Any:
    to_framework = backends.of(obj).tensor

    def run(at: Any, some: Mapping[str, Any]) -> Any:
        if form not in (ARRAY, ARRAY_COLUMN):
            at = at if form == NUMBER else to_framework(at)
            some = {name: to_framework(one) for name, one in some.items()}
        asked = signatures.required(obj, method)
        more = {name: one for name, one in some.items() if name not in asked}
        out = getattr(obj, method)(*(some.get(one, at) for one in asked), **more)
        if isinstance(entry, int):
            out = out[entry]
        elif entry is not None:
            out = out[entry] if isinstance(out, Mapping) else getattr(out, entry)
        return plain_array(obj, out)

    if form in (NUMBER, EVENT):
        rows = [
            run(times[row].item(), {name: one[row : row + 1] for name, one in points.items()})
            if form == NUMBER
            else run(times[row], {name: one[row] for name, one in points.items()})
            for row in range(len(times))
        ]
        return np.stack([one.reshape(rows[0].shape) for one in rows])
    axes = max([one.ndim for one in points.values()], default=2)
    at = times.reshape(-1, *[1] * (axes - 1)) if form in (COLUMN, ARRAY_COLUMN) else times
    return run(at, points)


def plain_array(obj: Any, value: Any) -> Any:
    """An array or a number of an object's framework as an array of numpy, in double precision."""
    return np.asarray(backends.of(obj).array(value), np.float64)


def for_each(value: Any, points: Any) -> Any:
    """A number per point, or one for all, expanded to the shape of points ``(n, ...)``."""
    if value.shape != points.shape:
        value = value.reshape(len(points) if value.size > 1 else 1, *[1] * (points.ndim - 1))
    return np.broadcast_to(value, points.shape)


def _numbers(value: Any, times: Any) -> Any:
    """A number for each time, ``(n,)``. Raises if there is another number of them."""
    return for_each(value, times)


def tried_times(obj: Any) -> Any:
    """Times at which calls are tried, ``(n,)``."""
    return np.array(TRIED) * last_time(obj)


def last_time(obj: Any) -> float:
    """The final time of a process; 1 if it states none."""
    values = (signatures.attribute(obj, name) for name in ENDS)
    return next((float(one) for one in values if type(one) in (int, float) and one > 0), 1.0)


def is_time(name: str) -> bool:
    """Whether a parameter is a time by its name."""
    return bool(TIME.fullmatch(normalized_name(name)))


def own_callables(obj: Any) -> Iterator[str]:
    """Names of the methods of an object's own classes, static ones included, and of functions that it holds."""
    for base in type(obj).__mro__:
        if base.__module__.partition(".")[0] not in signatures.FRAMEWORKS:
            kinds = (staticmethod, classmethod)
            yield from (
                name
                for name, value in vars(base).items()
                if _is_function(value) or isinstance(value, kinds)
            )
    held = getattr(obj, "__dict__", {})
    yield from (name for name, value in held.items() if _is_function(value))


def _is_function(value: Any) -> bool:
    """Whether a value is a function, also one that jit wraps."""
    return inspect.isfunction(value) or (
        not isinstance(value, type) and inspect.isfunction(inspect.unwrap(value))
    )


# Functions of time.


def time_readings(obj: Any) -> dict[str, TimeReading]:
    """Quantities that are functions of time alone, by name."""
    times = tried_times(obj)
    offered: dict[str, tuple[int, TimeReading]] = {}
    for name, reading in _functions_of_time(obj, times):
        for quantity, row, change in _quantities_of(name):
            if WEIGHT.search(normalized_name(name)) and not _takes_logarithm(obj, reading.method):
                continue
            if quantity not in offered or row < offered[quantity][0]:
                offered[quantity] = row, replace(reading, change=change)
    found = {
        quantity: reading
        for quantity, (_, reading) in offered.items()
        if np.isfinite(_numbers(reading.of(obj, times), times)).all()
    }
    if "alpha" in found and "sigma" in found and not found["alpha"].change:
        alpha, sigma = (_numbers(found[one].of(obj, times), times) for one in ("alpha", "sigma"))
        # Some call the squared share of data alpha, as the tables of discrete time do.
        if _is_one(alpha + sigma**2) and not _is_one(alpha**2 + sigma**2):
            found["alpha"] = replace(found["alpha"], change="root")
    return found


def _functions_of_time(obj: Any, times: Any) -> Iterator[tuple[str, TimeReading]]:
    """Names and readings of what methods of a time alone return, of those whose names mean a quantity, several
    of them, or one that stands beside its derivative: others may do anything when they are called.
    """
    methods = [
        method
        for method in dict.fromkeys(own_callables(obj))
        if len(asked := signatures.required(obj, method)) == 1 and is_time(asked[0])
    ]
    paired = {name for pair in _derivative_names(methods) for name in pair}
    for method in methods:
        known = any(_quantities_of(method)) or SEVERAL.fullmatch(normalized_name(method))
        if known or method in paired:
            yield from named_results(obj, method, times)


def _derivatives(obj: Any) -> Iterator[tuple[TimeReading, TimeReading]]:
    """Functions of time, each with one that is its derivative by its name."""
    found = dict(_functions_of_time(obj, tried_times(obj)))
    for function, derivative in _derivative_names([*found]):
        if found[function] != found[derivative]:
            yield found[function], found[derivative]


def _derivative_names(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names of functions, each with that of its derivative."""
    functions = {core_of(name): name for name in names}
    for name in names:
        marked = DERIVATIVE.fullmatch(normalized_name(name))
        of = core_of(marked["of"] or marked["function"]) if marked else ""
        integrals = (whole for part, whole in INTEGRANDS if re.fullmatch(part, core_of(name)))
        wholes = [one for whole in integrals for one in functions if re.fullmatch(whole, one)]
        yield from ((functions[one], name) for one in (of, *wholes) if one in functions)


def core_of(name: str) -> str:
    """A name without the words that may precede and follow that of a quantity."""
    word = normalized_name(name)
    core = re.fullmatch(f"{BEFORE}(?P<core>.+?){AFTER}", word)
    return core["core"] if core else word


def _takes_logarithm(obj: Any, method: str) -> bool:
    """Whether the code of a method names a logarithm, as that of a signal-to-noise ratio does."""
    names = names_in(inspect.unwrap(getattr(obj, method)))
    return any("log" in name for name in names)


def _is_one(value: Any) -> bool:
    return bool((np.abs(value - 1) < 1e-5).all())


def _quantities_of(name: str) -> Iterator[tuple[str, int, str]]:
    """Quantities that a name means, with the place of its row, and what is done to reach them."""
    word = normalized_name(name)
    for quantity, rows in QUANTITIES.items():
        for place, (core, change) in enumerate(rows):
            if re.fullmatch(f"{BEFORE}({core}){AFTER}", word):
                yield quantity, place, change


def named_results(obj: Any, method: str, times: Any) -> Iterator[tuple[str, TimeReading]]:
    """Names and readings of the numbers that a method gives for each time, or each number of another kind."""
    for form in TIME_FORMS:
        try:
            entries = _entries_of(obj, method, form, times)
            readings = [(name, TimeReading(method, form, entry)) for name, entry in entries]
            for _, one in readings:
                _numbers(one.of(obj, times), times)
        except Exception:  # it takes other times
            continue
        yield from readings
        return


def _entries_of(obj: Any, method: str, form: str, times: Any) -> list[tuple[str, int | str | None]]:
    """Names of what a method returns, and where these are in its result."""
    to_framework = backends.of(obj).tensor
    given = {
        NUMBER: lambda: times[0].item(),
        EVENT: lambda: to_framework(times[0]),
        ARRAY: lambda: times,
        TENSOR: lambda: to_framework(times),
    }
    out = getattr(obj, method)(given[form]())
    if isinstance(out, Mapping):
        return [(str(name), str(name)) for name in out]
    if is_dataclass(out):
        return [(one.name, one.name) for one in fields(out)]
    if hasattr(out, "_fields"):
        return [(name, name) for name in out._fields]
    if isinstance(out, tuple):
        return list(zip(returned_names(obj, method), range(len(out)), strict=True))
    return [(method, None)]


def returned_texts(obj: Any, method: str) -> list[str]:
    """The entries of the tuple that a method returns, as text; empty if it returns none, or several."""
    code = inspect.unwrap(getattr(obj, method))
    found = [[ast.unparse(one) for one in entries] for entries in returned_tuples(code)]
    return found[0] if len(found) == 1 else []


def returned_names(obj: Any, method: str) -> list[str]:
    """The last name of each entry that a method returns: of a variable, an attribute or a method."""
    texts = (re.sub(r"\(.*", "", text) for text in returned_texts(obj, method))
    return [re.split(r"\W+", text)[-1] for text in texts]


# Mixtures and velocities.


def _mixture_readings(obj: Any) -> dict[str, tuple[TimeReading, tuple[str, str]]]:
    """The mixture of two points at a time, and the velocity of a path between them, with the names of the points."""
    found: dict[str, tuple[TimeReading, tuple[str, str]]] = {}
    for method in dict.fromkeys(own_callables(obj)):
        names = signatures.required(obj, method)
        points = [one for one in names if not is_time(one)]
        word = normalized_name(method)
        if len(names) - len(points) != 1:
            continue
        if len(points) == 2 and MIXED.fullmatch(word) and "first" not in found:
            found.update(("first", one) for one in _reading_of(obj, method, points))
        if VELOCITY.fullmatch(word) and "first'" not in found:
            points = [one for one in points if not BETWEEN.fullmatch(one)]
            if len(points) == 2:
                found.update(("first'", one) for one in _reading_of(obj, method, points))
    if "first'" in found and ("first" not in found or found["first"][1] != found["first'"][1]):
        del found["first'"]
    return found


def _reading_of(
    obj: Any, method: str, points: Sequence[str]
) -> Iterator[tuple[TimeReading, tuple[str, str]]]:
    times = tried_times(obj)
    for form in CALL_FORMS:
        reading = TimeReading(method, form)
        try:
            given = {
                name: np.ones((len(times), 1))
                for name in signatures.required(obj, method)
                if not is_time(name)
            }
            out = [reading.of(obj, times, **given) for _ in range(2)]
        except Exception:  # it takes times otherwise
            continue
        if out[0].size == len(times) and bool((out[0] == out[1]).all()):
            yield reading, (points[0], points[1])
            return


# The call of a dialect.


def time_functions_of(obj: Any) -> dict[str, Any]:
    """The functions of time of an object as a call of a dialect; empty if none of them are related."""
    readings = time_readings(obj)
    mixtures = _mixture_readings(obj)
    backs = dict(_ways_back(obj, readings))
    for place, (function, derivative) in zip(PAIRS, _derivatives(obj), strict=False):
        readings |= {place: function, f"{place}'": derivative}
    named = {*readings, *mixtures, *backs}
    if "first" in mixtures and any(map(NOISE.fullmatch, mixtures["first"][1])):
        named.add("data")
    if not any(related <= named for related in RELATED):
        return {}
    related = set().union(*(one for one in RELATED if one <= named))
    kept = {
        name: one
        for name, one in readings.items()
        if name in related or name in ("alpha", "sigma") or name.rstrip("'") in PAIRS
    }
    call = partial(
        time_functions,
        readings=tuple(kept.items()),
        mixtures=tuple((one, *two) for one, two in mixtures.items()),
        backs=tuple((one, *two) for one, two in backs.items()),
    )
    return {"time_functions": call}


def _ways_back(
    obj: Any, readings: Mapping[str, TimeReading]
) -> Iterator[tuple[str, tuple[TimeReading, str]]]:
    """Methods that find the time of a quantity: with the quantity."""
    cores = {"snr": "snr", "log snr": LOG, "sigma": SIGMA}
    for method in dict.fromkeys(own_callables(obj)):
        word = normalized_name(method)
        if len(signatures.required(obj, method)) != 1:
            continue
        for quantity, core in cores.items():
            known = quantity in readings or (
                quantity == "snr" and {"alpha", "sigma"} <= {*readings}
            )
            if not known or not re.fullmatch(BEFORE + f"({BACK.format(core)})" + AFTER, word):
                continue
            for form in TIME_FORMS:
                reading = TimeReading(method, form)
                try:
                    _numbers(reading.of(obj, tried_times(obj)), tried_times(obj))
                except Exception:  # it takes other numbers
                    continue
                yield f"time of {quantity}", (reading, quantity)
                break


def time_functions(
    obj: Any,
    shares: Any,
    readings: Sequence[tuple[str, TimeReading]],
    mixtures: Sequence[tuple[str, TimeReading, tuple[str, str]]],
    backs: Sequence[tuple[str, TimeReading, str]],
) -> Any:
    """The quantities `TIME_FUNCTIONS` at fractions of the time ``(n,)``: ``(n, columns)``, nan for missing ones.
    "first" and "second" are the shares of two points in their mixture.
    """
    times = plain_array(obj, shares) * last_time(obj)
    found = {"time": times}
    found |= {name: _numbers(one.of(obj, times), times) for name, one in readings}
    known = dict(readings)
    one, none = np.ones((len(times), 1)), np.zeros((len(times), 1))
    mixed: dict[str, Any] = {}
    for name, reading, (first, second) in mixtures:
        for part, given in (
            ("offset", {first: none, second: none}),
            ("first", {first: one, second: none}),
            ("second", {first: none, second: one}),
        ):
            needed = signatures.required(obj, reading.method)
            between = {
                asked: mixed[part] for asked in needed if not is_time(asked) and asked not in given
            }
            value = reading.of(obj, times, **given, **between).reshape(-1, 1)
            if name == "first":
                mixed[part] = value
            if part == "offset":
                offset = value  # of an equation that has a mean of its own
                continue
            found[name.replace("first", part)] = (value - offset).reshape(len(times))
        for part, point in (("first", first), ("second", second)):
            if name == "first" and NOISE.fullmatch(point):
                found |= {
                    "noise": found[part],
                    "data": found[{"first": "second", "second": "first"}[part]],
                }
    for name, reading, quantity in backs:
        if quantity in known:
            found[name] = _numbers(reading.of(obj, known[quantity].raw(obj, times)), times)
        else:
            ratio = found["alpha"] / found["sigma"]
            found["time of snr"] = _numbers(reading.of(obj, ratio), times)
            found["time of squared snr"] = _numbers(reading.of(obj, ratio**2), times)
    nothing = np.full_like(times, np.nan)
    return np.stack([found.get(name, nothing) for name in TIME_FUNCTIONS], 1)
