"""Finds the score of a density, the gradient of its log-density in the data, by names and calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.common.distribution_functions import under_two_seeds
from flowref.adapters.common.signatures import code_of
from flowref.adapters.user import calls
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.arrays import through_arrays
from flowref.adapters.user.conventions.call_forms import Chosen
from flowref.adapters.user.conventions.names import (
    GRADIENTS,
    OTHER_SCORES,
    SCORE_METHODS,
    is_scale,
    normalized_name,
)
from flowref.model import Dialect

# Names the method, among the choices of a target; "none" says that no method is it.
SCORE, NOTHING = "score", "none"


def score_methods(obj: Any, density: str, chosen: Mapping[str, str]) -> list[str]:
    """The methods that may be the gradient of the method ``density``, unmistakable names first. Raises
    `SpecError` if the user names a method that does not exist.
    """
    declared = chosen.get(SCORE, "")
    if declared and declared != NOTHING:
        signatures.demand(obj, SCORE, declared, ", or none")
    if declared:
        return [] if declared == NOTHING else [declared]
    named = [name for name in _own_methods(obj) if _is_score_name(name)]
    found = [name for name in named if _has_same_signature(obj, name, density)]
    return sorted(found, key=lambda name: not GRADIENTS.fullmatch(normalized_name(name)))


def is_doubtful(obj: Any, name: str, entries: int) -> bool:
    """Whether the method may be another score: a number per point, if an event has one entry, or a
    Fisher score and the like by its docstring.
    """
    if GRADIENTS.fullmatch(normalized_name(name)):
        return False
    words = getattr(getattr(type(obj), name, None), "__doc__", None) or ""
    return entries == 1 or bool(OTHER_SCORES.search(words))


def doubt_hint(name: str) -> str:
    """The hint for a method that is not tested."""
    return f"{name}() is not tested: if it is the gradient of log_prob in x add ?{SCORE}={name}"


def settle_score(
    obj: Any, dialect: Dialect, x: Any, context: Any, chosen: Chosen
) -> tuple[Dialect, tuple[str, ...], tuple[str, ...]]:
    """The dialect with the score of its density, remarks on it, and hints. A score returns the shape of
    ``x`` ``(n, *event)``, for a batch and for one row, and is the same in every random state.
    """
    asked = list(calls_within(dialect.log_prob))
    density = next((str(one.keywords["method"]) for one in asked if one.keywords.get("method")), "")
    if not density:
        return dialect, (), ()
    for name in score_methods(obj, density, chosen):
        if not _gives_points(obj, name, dialect.log_prob, x, context):
            continue
        if SCORE not in chosen and is_doubtful(obj, name, x[0].numel()):
            return dialect, (), (doubt_hint(name),)
        call = called_as(dialect.log_prob, partial(score_named, method=name))
        return replace(dialect, score=call), (f"score: {name}()",), ()
    return dialect, (), ()


def called_as(density: Any, call: Any) -> Any:
    """The call of a score in the form of the log-density's: context first, or on numpy arrays."""
    functions = {one.func for one in calls_within(density)}
    if calls.context_first in functions:
        call = partial(calls.context_first, call=call)
    if through_arrays in functions:
        call = partial(through_arrays, ask=call)
    return call


def calls_within(call: Any) -> Iterator[partial[Any]]:
    """Yields a call and the calls that it wraps."""
    while isinstance(call, partial):
        yield call
        call = call.keywords.get("call") or call.keywords.get("ask")


def score_named(obj: Any, x: Any, context: Any, method: str) -> Any:
    """The score at each point by a method, ``(n, *event)``."""
    return calls.log_prob_named(obj, x, context, method).reshape(x.shape)


def _gives_points(obj: Any, name: str, density: Any, x: Any, context: Any) -> bool:
    """Whether a method returns the shape of points up to axes of length one, deterministically."""
    ask = called_as(density, partial(calls.log_prob_named, method=name))
    try:
        one, other = under_two_seeds(lambda: ask(obj, x.clone(), context).detach())
        single = ask(obj, x[:1].clone(), None if context is None else context[:1])
        alike = one.is_floating_point() and bool(((one == other) | one.isnan()).all())
    except Exception:  # it has another signature
        return False
    rows, first = ([size for size in tuple(some.shape) if size != 1] for some in (x, x[:1]))
    found, of_first = ([size for size in tuple(some.shape) if size != 1] for some in (one, single))
    return alike and (found, of_first) == (rows, first)


def _own_methods(obj: Any) -> Iterator[str]:
    names = dict.fromkeys(name for base in type(obj).__mro__ for name in vars(base))
    return (name for name in names if signatures.defines_method(obj, name))


def _is_score_name(name: str) -> bool:
    word = normalized_name(name)
    return bool(GRADIENTS.fullmatch(word) or SCORE_METHODS.fullmatch(word))


def _has_same_signature(obj: Any, name: str, density: str) -> bool:
    """Whether a method takes the arguments of the log-density, in that order, and no further time or
    scale. Methods that call the log-density twice are finite differences, which are inexact.
    """
    own, others = (signatures.method_parameters(obj, one) for one in (name, density))
    asked, given = (
        [one.name for one in some if one.kind in signatures.POSITIONAL] for some in (own, others)
    )
    known = {normalized_name(one.name) for one in others}
    more = [
        one for one in own if one.name not in asked[:1] and normalized_name(one.name) not in known
    ]
    if any(is_scale(one.name) or type(one.default) in (int, float) for one in more):
        return False
    turned = len(asked) > 1 < len(given) and asked[0] in given[1:]
    return not turned and _density_call_count(obj, name, density) < 2


def _density_call_count(obj: Any, name: str, density: str) -> int:
    tree = code_of(getattr(type(obj), name, None))
    return sum(
        isinstance(node, ast.Call) and getattr(node.func, "attr", "") == density
        for node in (ast.walk(tree) if tree else ())
    )
