"""Finds noise processes: rate and transition matrices of tokens, noise schedules, stochastic differential
equations with their marginals, and conversions of predictions. Methods have unmistakable names, and are
read only if calls return what the names promise.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from flowref import backends
from flowref.adapters.common.distribution_functions import names_in
from flowref.adapters.common.signatures import code_of
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import normalized_name
from flowref.adapters.user.processes.conversions import conversions_of, step_indices
from flowref.adapters.user.processes.denoiser_scalings import scalings_of
from flowref.adapters.user.processes.equations import equation_of
from flowref.adapters.user.processes.priors import prior_of
from flowref.adapters.user.processes.time_functions import (
    TRIED,
    TimeReading,
    is_time,
    last_time,
    plain_array,
    time_functions_of,
    tried_times,
)
from flowref.model import Dialect
from flowref.model.call import PROCESS, SCHEDULE

# Names of matrices of rates, of probabilities of jumps, and of either: those with a negative entry are rates.
RATES = re.compile(r"(get|compute)?(rate|generator)(mat|matrix|mats|matrices)|rates?")
TRANSITIONS = re.compile(
    r"(get|compute)?(forward)?transitions?(mat|matrix|mats|matrices|probs?|probability|probabilities)?"
)
EITHER = re.compile(r"(get)?q(t|bar|tbar)?(onestep)?(bar)?(mats?|matrix|matrices)?")
# Those of single steps, and of all steps so far; a share of time so early that nothing has moved yet.
ONE_STEP, ALL_STEPS, EARLY = (
    re.compile(r"onestep|single|perstep"),
    re.compile(r"bar|cum|prod"),
    1e-4,
)
# Attributes that count tokens, without which such a matrix may be one of a system of vectors.
TOKENS = re.compile(r"(num|n)?(classes|categories|tokens|states|symbols)|vocab(ulary)?(size)?|k|s")
# How times are asked for, in the order in which it is tried: a tensor of several, or one after the other.
SEVERAL, SCALAR, NUMBER, COUNTS, COUNT = "several", "scalar", "number", "counts", "count"
# Arrays of a schedule in discrete time, in the order in which they are given.
ARRAYS = {
    "beta": ("betas", "beta"),
    "alpha_bar": ("alphascumprod", "alphabars", "alphabar", "alphacumprod", "alphahat"),
    "alpha": ("alphas", "alpha"),
    "root": ("sqrtalphascumprod", "sqrtalphacumprod", "sqrtalphabar", "sqrtalphabars"),
    "deviation": ("sqrtoneminusalphascumprod", "sqrtoneminusalphacumprod", "sqrtoneminusalphabar"),
    "before": ("alphascumprodprev", "alphacumprodprev", "alphabarprev", "alphabarsprev"),
    "1/root": ("sqrtrecipalphascumprod", "sqrtrecipalphacumprod", "sqrtrecipalphabar"),
    "deviation/root": (
        "sqrtrecipm1alphascumprod",
        "sqrtrecipm1alphacumprod",
        "sqrtrecipm1alphabar",
    ),
    "log complement": (
        "logoneminusalphascumprod",
        "logoneminusalphacumprod",
        "logoneminusalphabar",
    ),
    "1/root of alpha": ("sqrtrecipalphas", "sqrtrecipalpha"),
    "posterior variance": ("posteriorvariance", "posteriorvar"),
    "log posterior variance": ("posteriorlogvarianceclipped", "posteriorlogvariance"),
    "posterior of data": ("posteriormeancoef1", "posteriormeancoeff1"),
    "posterior of mixture": ("posteriormeancoef2", "posteriormeancoeff2"),
}
# Functions by which code makes cumulative products and no more.
PRODUCTS = {"cumprod", "flip", "to", "float", "double", "tensor", "asarray", "as_tensor"}
# Those that are of one step.
STEPWISE = ("beta", "alpha", "1/root of alpha")


def processes_of(obj: Any) -> dict[str, Any]:
    """The methods of a noise process as calls of a dialect."""
    found: dict[str, Any] = {}
    for read in (
        _matrices_of,
        equation_of,
        _schedule_of,
        time_functions_of,
        scalings_of,
        conversions_of,
        prior_of,
    ):
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
        "evolution": "transition matrices beside rates or steps",
        "moments": "moments and equation",
        "schedule": "schedule",
        "time_functions": "functions of time",
        "scalings": "preconditioning",
        "conversions": "conversions",
        "prior": "prior",
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
    for part in (
        "parts", "readings", "mixtures", "backs", "mixing", "rows", "moments", "pair", "scales", "deviation",
    ):  # fmt: skip
        yield from _methods_in(given.get(part))
    yield from filter(None, given.get("names", ()))


def _methods_in(value: Any) -> Iterator[str]:
    if isinstance(value, TimeReading):
        yield value.method
    elif isinstance(value, tuple):
        for one in value:
            yield from _methods_in(one)


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
    calls: dict[str, Any] = {
        kind: partial(matrices, asked=tuple(asked)) for kind, asked in found.items() if asked
    }
    return calls | _evolution_of(obj, found)


def _evolution_of(obj: Any, found: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, Any]:
    """The call that compares transition matrices with rates, or those of single steps with those of all steps."""
    shares = _shares(obj)
    single = [one for one in found["transitions"] if ONE_STEP.search(normalized_name(one[0]))]
    rest = [one for one in found["transitions"] if one not in single]
    every = [one for one in rest if ALL_STEPS.search(normalized_name(one[0]))] or rest[:1]
    single = single or [one for one in rest if one not in every]
    rates = [
        one for one in found["rates"] if one[1]
    ]  # a matrix that is kept may be multiplied by a rate
    if len(single) == len(every) == 1 and not single[0][1] and not every[0][1]:
        call = partial(evolution, asked=(every[0], single[0]), stored=True)
    elif len(rates) == len(rest) == 1 and _is_continuous(obj, rest[0], rates[0]):
        call = partial(evolution, asked=(rest[0], rates[0]), stored=False)
    else:
        return {}
    try:
        return {"evolution": call} if call(obj, shares).shape[0] == len(shares) else {}
    except Exception:  # its tables are of other steps
        return {}


def _is_continuous(obj: Any, transition: tuple[str, str], rate: tuple[str, str]) -> bool:
    """Whether transition matrices begin with the identity, as those of a time and unlike those of a step."""
    name, how = transition
    if how not in (SEVERAL, SCALAR, NUMBER) or len(signatures.required(obj, name)) != 1:
        return False
    early = EARLY * _shares(obj)
    first, rates = (matrices(obj, early, (one,)) for one in (transition, rate))
    moved = np.abs(first - np.eye(first.shape[1])).max((1, 2))
    most = 10 * EARLY * last_time(obj) * np.abs(rates).max((1, 2))
    return bool((moved <= most + 1e-6).all())


def evolution(obj: Any, shares: Any, asked: Sequence[tuple[str, str]], stored: bool) -> Any:
    """Transition matrices at fractions of the time ``(n,)``, beside their rates, or, of ``stored`` ones, the
    products of those one step before with that of the step, in both orders; and the times: ``(n, 5, k, k)``,
    nan for missing ones.
    """
    shares = plain_array(obj, shares)
    every, one = (matrices(obj, shares, (two,)) for two in asked)
    if not stored:
        times = np.broadcast_to((shares * last_time(obj)).reshape(-1, 1, 1), every.shape)
        nothing = np.full_like(every, np.nan)
        return np.stack([every, one, nothing, nothing, times], 1)
    at = (shares * (len(one) - 1)).astype(int).clip(1, len(one) - 1)
    if len(every) == len(one):
        begins = bool(np.abs(every[0] - np.eye(len(every[0]))).max() < 1e-6)
        before, step, after = every[at - 1], one[at - 1] if begins else one[at], every[at]
    elif len(every) == len(one) + 1:
        before, step, after = every[at], one[at], every[at + 1]
    else:
        raise TypeError("its tables are of other steps")
    nothing = np.full_like(after, np.nan)
    return np.stack([after, nothing, before @ step, step @ before, nothing], 1)


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
    to_array, found = backends.of(obj).array, []
    for name, how in asked:
        value = getattr(obj, name)
        for part in _at_times(value, obj, plain_array(obj, shares), how) if how else (value,):
            part = np.asarray(to_array(part))
            if not np.issubdtype(part.dtype, np.floating) or part.ndim < 2:
                raise TypeError(f"{name} gives no matrices")
            found.append(part.reshape(-1, *part.shape[-2:]).astype(np.float64))
    return np.concatenate(found)


def _at_times(run: Callable[..., Any], obj: Any, shares: Any, how: str) -> Iterator[Any]:
    """The result of a method at times; between half the time and the time, if it takes two."""
    times = step_indices(obj, shares) if how in (COUNTS, COUNT) else shares * last_time(obj)
    needed = len(
        [one for one in inspect.signature(run).parameters.values() if one.default is one.empty]
    )
    ends = [times // 2 if how in (COUNTS, COUNT) else times / 2, times][-needed:]
    given = backends.of(obj).tensor
    if how in (SEVERAL, COUNTS):
        out = run(*map(given, ends))
        if len(out) != len(shares):
            raise TypeError("it gives no matrix for each time")
        yield out
        return
    for index in range(len(shares)):
        one = [end[index] for end in ends]
        yield run(*map(given, one)) if how == SCALAR else run(*(end.item() for end in one))


def _shares(obj: Any) -> Any:
    return tried_times(obj) / last_time(obj)


# Schedules in discrete time.


def _schedule_of(obj: Any) -> dict[str, Any]:
    held = {normalized_name(name): name for name in _own_names(obj)}
    names = {
        part: next((held[one] for one in words if one in held), "")
        for part, words in ARRAYS.items()
    }
    if not names["beta"] or not names["alpha_bar"]:
        return {}
    beta, bar = schedule(obj, tuple(names[part] for part in SCHEDULE))[:2]
    inside = ((beta > 0) & (beta <= 1)).all() and ((bar >= 0) & (bar <= 1)).all()
    kept = {
        part: name
        for part, name in names.items()
        if part not in STEPWISE or _is_used(obj, name) or _is_product(obj, names["alpha_bar"])
    }
    call = partial(schedule, names=tuple(kept.get(part, "") for part in SCHEDULE))
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


def _is_product(obj: Any, name: str) -> bool:
    """Whether the code sets the cumulative products once, and to a cumulative product: these are not moved."""
    word = normalized_name(name)
    trees = (code_of(base) for base in type(obj).__mro__ if base is not object)
    set_to = [
        node.value
        for tree in trees
        for node in (ast.walk(tree) if tree else ())
        if isinstance(node, ast.Assign)
        and word
        in {normalized_name(getattr(one, "attr", getattr(one, "id", ""))) for one in node.targets}
        and not isinstance(node.value, ast.Name)
    ]
    called = [
        getattr(node.func, "attr", getattr(node.func, "id", ""))
        for value in set_to
        for node in ast.walk(value)
        if isinstance(node, ast.Call)
    ]
    return len(set_to) == 1 and "cumprod" in called and {*called} <= PRODUCTS


def schedule(obj: Any, names: Sequence[str]) -> Any:
    """The arrays of a schedule, ``(arrays, steps)`` in the order `SCHEDULE`, nan for missing ones."""
    arrays = [plain_array(obj, getattr(obj, name) if name else np.nan) for name in names]
    bars = arrays[1]
    if bars.ndim != 1 or (names[0] and arrays[0].shape != bars.shape):
        raise TypeError("it keeps no number for each step")
    nothing = np.full_like(bars, np.nan)
    return np.stack([one if one.shape == bars.shape else nothing for one in arrays])


def _attributes(obj: Any) -> Mapping[str, Any]:
    return getattr(obj, "__dict__", {})


def _own_names(obj: Any) -> list[str]:
    """Names of an object's attributes, buffers included, and of the methods of its classes."""
    methods = (name for base in type(obj).__mro__ for name in vars(base))
    own = (name for name in methods if signatures.defines_method(obj, name))
    return list(dict.fromkeys([*_attributes(obj), *getattr(obj, "_buffers", {}), *own]))
