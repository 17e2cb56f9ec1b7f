"""Finds the lower bound of a log-density that has a method of its own beside it, by names and calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.user import calls
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import normalized_name
from flowref.adapters.user.conventions.scores import called_as, calls_within
from flowref.model import Dialect

BOUND = re.compile(
    r"(get|compute)?(elbo|iwae|(evidence|variational)lowerbound|lowerbound|(log(p|prob|likelihood|density))lowerbound)"
)
# Weights of divergences: a bound with another weight than one is none.
WEIGHT = re.compile(
    r"beta|(kl|kld)(weight|beta|coeff?|scale)|(weight|beta)(kl|kld)|freebits|anneal(ing)?"
)


def settle_bound(obj: Any, dialect: Dialect, x: Any) -> tuple[Dialect, tuple[str, ...]]:
    """The dialect with the lower bound of its log-density, and a remark. A bound takes points alone, as the
    log-density does, and returns a number for each, for a batch ``x`` ``(n, *event)`` and for one row.
    """
    methods = [
        one.keywords["method"]
        for one in calls_within(dialect.log_prob)
        if one.keywords.get("method")
    ]
    if not methods or _is_weighted(obj.__dict__ if hasattr(obj, "__dict__") else {}):
        return dialect, ()
    for name in _bound_methods(obj):
        call = called_as(dialect.log_prob, partial(calls.log_prob_named, method=name))
        if name not in methods and _gives_numbers(obj, call, x):
            return replace(dialect, bound=call), (f"lower bound: {name}()",)
    return dialect, ()


def _bound_methods(obj: Any) -> Iterator[str]:
    names = dict.fromkeys(name for base in type(obj).__mro__ for name in vars(base))
    for name in names:
        if BOUND.fullmatch(normalized_name(name)) and signatures.defines_method(obj, name):
            given = {one.name: one.default for one in signatures.method_parameters(obj, name)}
            if len(signatures.required(obj, name)) == 1 and not _is_weighted(given):
                yield name


def _is_weighted(values: Mapping[str, Any]) -> bool:
    """Whether a number that weights a divergence is another one than one."""
    return any(
        type(one) in (int, float) and one != 1 and WEIGHT.fullmatch(normalized_name(name))
        for name, one in values.items()
    )


def _gives_numbers(obj: Any, call: Any, x: Any) -> bool:
    try:
        shapes = [tuple(call(obj, some.clone(), None).shape) for some in (x, x[:1])]
    except Exception:  # it takes something else
        return False
    return shapes == [(len(x),), (1,)]
