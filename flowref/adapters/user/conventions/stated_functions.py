"""Functions that a user's density states besides its log-density: distribution functions, quantiles,
moments.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.common import distribution_functions
from flowref.adapters.user import calls
from flowref.model import Dialect


def settle_stated_functions(obj: Any, dialect: Dialect, x: Any) -> tuple[Dialect, tuple[str, ...]]:
    """The dialect of a density without a map with its stated functions, and a remark.

    In a map such names may belong to a part; so may names that the log-density itself reads, and attributes
    that are data.
    """
    if dialect.log_prob is None or dialect.forward is not None or not hasattr(x, "requires_grad"):
        return dialect, ()
    heard: list[str] = []
    density = calls.method_of(dialect.log_prob) or "log_prob"
    if math.prod(x.shape[1:]) == 1:
        names = [
            name
            for name in distribution_functions.functions_of(obj)
            if not distribution_functions.is_helper(obj, name, density) and _answers(obj, name, x)
        ]
        first = names[0] if names else ""
        names += [
            name
            for name in distribution_functions.inverses_of(obj)
            if first
            and not distribution_functions.is_helper(obj, name, density)
            and _answers(obj, name, x, first)
        ]
        if names and dialect.cdf is None:
            dialect = replace(dialect, cdf=partial(distribution_functions.function, name=first))
            heard.append(names.pop(0))
        names = [name for name in names if name != "cdf"]
        if names:
            columns = partial(distribution_functions.cdf_columns, names=tuple(names), first=first)
            dialect = replace(dialect, functions=columns)
            heard += names
        quantile = distribution_functions.quantiles_of(obj)
        if dialect.icdf is None and dialect.cdf is not None and quantile:
            dialect = replace(dialect, icdf=partial(distribution_functions.quantile, name=quantile))
            heard.append(quantile)
    asked = [
        one
        for one in distribution_functions.statements_of(obj)
        if _is_deterministic_moment(obj, one)
    ]
    if asked:
        shape = tuple(x.shape[1:])
        moments = partial(distribution_functions.stated_moments, asked=tuple(asked), shape=shape)
        dialect = replace(dialect, stated=moments)
        heard += [name for name, _ in asked]
    return dialect, (f"it states {', '.join(heard)}",) if heard else ()


def _answers(obj: Any, name: str, x: Any, first: str = "cdf") -> bool:
    try:
        value = distribution_functions.cdf_columns(obj, x, (name,), first)
        return int(value.numel()) == len(x) and bool(value.is_floating_point())
    except Exception:  # other arguments, or no such function
        return False


def _is_deterministic_moment(obj: Any, one: distribution_functions.Told) -> bool:
    """Whether a moment is stated, and equal in every random state, so that it is not estimated."""
    import torch

    with contextlib.suppress(Exception):
        first, second = distribution_functions.under_two_seeds(lambda: torch.as_tensor(one[1](obj)))
        if not first.is_floating_point():
            return False
        return bool(torch.equal(first.isnan(), second.isnan())) and bool(
            torch.allclose(first, second, equal_nan=True)
        )
    return False
