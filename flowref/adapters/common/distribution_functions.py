"""Distribution functions, quantiles and moments that a distribution has under usual names."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

# Method -> conversion of its result to the distribution function.
FUNCTIONS: dict[str, str] = {
    "cdf": "itself",
    "distribution_function": "itself",
    "log_cdf": "exp",
    "logcdf": "exp",
    "survival_function": "upper",
    "survival": "upper",
    "sf": "upper",
    "ccdf": "upper",
    "log_survival_function": "exp-upper",
    "log_survival": "exp-upper",
    "log_sf": "exp-upper",
    "logsf": "exp-upper",
    "logccdf": "exp-upper",
}
# Method -> the tail or level whose quantile it is: the distribution function there is known.
INVERSES: dict[str, str] = {
    "isf": "upper",
    "iccdf": "upper",
    "ilogcdf": "log",
    "ilogccdf": "log-upper",
    "median": "half",
}
QUANTILES = ("icdf", "quantile", "ppf", "inverse_cdf")
# Names of moments, in the order of reporting.
MOMENTS = {
    "mean": ("mean",),
    "variance": ("variance", "var"),
    "entropy": ("entropy",),
    "stddev": ("stddev", "std"),
    "mode": ("mode",),
    "covariance_matrix": ("covariance_matrix", "covariance", "cov"),
}
# Flags of a moment: correct, of another shape, NaN, and different in a batch of copies.
FINE, MISSHAPEN, NO_NUMBER, NOT_OF_COPIES = 0.0, 1.0, 2.0, 3.0


def functions_of(obj: Any) -> tuple[str, ...]:
    """The distribution functions that an object has, the usual name first."""
    return tuple(name for name in FUNCTIONS if takes(obj, name, 1))


def inverses_of(obj: Any) -> tuple[str, ...]:
    """The inverses of distribution functions that an object has, besides the usual quantile function."""
    return tuple(
        name
        for name, level in INVERSES.items()
        if (takes(obj, name, 1) if level != "half" else statement(obj, name))
    )


def quantiles_of(obj: Any) -> str:
    """The quantile function that an object has; empty if none."""
    return next((name for name in QUANTILES if takes(obj, name, 1)), "")


def takes(obj: Any, name: str, count: int) -> bool:
    """Whether a method of an object's class takes ``count`` arguments, and requires no others."""
    if not callable(getattr(type(obj), name, None)):
        return False
    try:
        asked = inspect.signature(getattr(obj, name)).parameters.values()
    except (TypeError, ValueError):
        return False
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in asked if one.default is one.empty and one.kind in plain]
    return len(needed) == count and all(one.kind in plain for one in asked)


def function(obj: Any, x: Any, name: str) -> Any:
    """The distribution function at ``x (n,)`` by a method, converted."""
    value = _number(obj, name, x)
    form = FUNCTIONS[name]
    value = value.exp() if form.startswith("exp") else value
    return 1 - value if form.endswith("upper") else value


def implied_function(obj: Any, reached: Any, name: str, cdf: Callable[[Any], Any]) -> Any:
    """The distribution function that an inverse implies where it is ``reached (n, ...)``: it is reached again
    at the quantile of that level, and from a median m as F(x) - F(m) + 1/2.
    """
    level = INVERSES[name]
    if level == "half":
        median = _number(obj, name).to(reached).reshape(1, *reached.shape[1:])
        return reached - cdf(median).reshape(median.shape) + 0.5
    given = 1 - reached if level.endswith("upper") else reached
    given = given.log() if level.startswith("log") else given
    return cdf(_number(obj, name, given))


def cdf_columns(obj: Any, x: Any, names: Sequence[str], first: str = "cdf") -> Any:
    """The distribution function by several methods, ``(rows, methods)``. ``first``: the method that
    inverses are compared with.
    """
    import torch

    def cdf(points: Any) -> Any:
        return function(obj, points, first)

    reached = cdf(x).reshape(x.shape) if set(names) & set(INVERSES) else None
    columns = [
        function(obj, x, name) if name in FUNCTIONS else implied_function(obj, reached, name, cdf)
        for name in names
    ]
    return torch.stack([column.reshape(len(x)) for column in columns], 1)


def quantile(obj: Any, u: Any, name: str) -> Any:
    return _number(obj, name, u)


def _number(obj: Any, name: str, *given: Any) -> Any:
    """What a method returns, as a tensor; that of numpy code may take arrays alone."""
    import numpy as np
    import torch

    told = getattr(obj, name)
    out = told(*given) if callable(told) else told
    if isinstance(out, torch.Tensor):
        return out
    if isinstance(out, np.ndarray | np.generic) and given:
        out = told(*(one.detach().cpu().numpy() for one in given))
    return torch.as_tensor(out, dtype=given[0].dtype if given else torch.float64)


def is_helper(obj: Any, name: str, density: str = "log_prob") -> bool:
    """Whether an object's log-density reads an attribute, which may then be a part's, such as the location
    of a base.
    """
    return name in names_in(getattr(type(obj), density, None))


def names_in(function: Any) -> set[str]:
    """The names in the code of a function, including nested functions."""
    found, codes = set[str](), [getattr(function, "__code__", None)]
    while codes:
        code = codes.pop()
        if code is not None:
            found |= set(code.co_names)
            codes += [one for one in code.co_consts if hasattr(one, "co_names")]
    return found


def statement(obj: Any, name: str) -> Callable[[Any], Any] | None:
    """The call of a property, or of a method without arguments, of an object's class; None for data
    attributes.
    """
    kind = inspect.getattr_static(type(obj), name, None)
    if isinstance(kind, property):
        return partial(_property, name=name)
    return partial(_call_method, name=name) if takes(obj, name, 0) else None


def _property(obj: Any, name: str) -> Any:
    return getattr(obj, name)


def _call_method(obj: Any, name: str) -> Any:
    return getattr(obj, name)()


Told = tuple[str, Callable[[Any], Any]]


def statements_of(obj: Any) -> tuple[Told, ...]:
    """The moments that the class of an object states, with their calls."""
    found: list[Told] = []
    for moment, names in MOMENTS.items():
        for name in names:
            ask = statement(obj, name)
            if ask is not None and not is_helper(obj, name):
                found.append((moment, ask))
                break
    return tuple(found)


def stated_moments(obj: Any, asked: Sequence[Told], shape: Sequence[int]) -> Any:
    """Concatenated moments of an event shape, NaN where not stated, followed by a flag for each."""
    import torch

    size, asking, parts, flags = math.prod(shape), dict(asked), [], []
    for moment in MOMENTS:
        wanted = {"entropy": 1, "covariance_matrix": size * size}.get(moment, size)
        value = None
        if moment in asking:
            try:
                value = torch.as_tensor(asking[moment](obj))
            except (NotImplementedError, AttributeError):
                value = None
        part, flag = moment_values(moment, value, wanted)
        parts.append(part)
        flags.append(flag)
    return torch.cat([*parts, torch.tensor(flags, dtype=torch.float64)])


def moment_values(moment: str, value: Any, wanted: int) -> tuple[Any, float]:
    """A moment as ``wanted`` numbers, NaN if it has another size, and its flag."""
    import torch

    nothing = torch.full((wanted,), math.nan, dtype=torch.float64)
    if value is None or not value.numel():
        return nothing, FINE
    if value.numel() == wanted:
        numbers = value.detach().reshape(-1).to(torch.float64)
        return numbers, NO_NUMBER if bool(numbers.isnan().all()) else FINE
    return nothing, FINE if value.numel() == 1 or moment == "covariance_matrix" else MISSHAPEN


def under_two_seeds(call: Callable[[], Any]) -> Iterator[Any]:
    """The results under two random states."""
    import torch

    for seed in (1, 2):
        torch.manual_seed(seed)
        yield call()
