"""Methods whose names imply their role: a map and its inverse, a log-density, a sampler. Used if an object
has none of the usual names.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from flowref.adapters.user.conventions.entries import by_entries
from flowref.adapters.user.conventions.names import (
    CONDITIONS,
    DENSE,
    DRAWING,
    LOSSY,
    NORMALIZED,
    TURNS,
    USUAL,
    normalized_name,
)
from flowref.adapters.user.conventions.roles import forward_call_form
from flowref.adapters.user.conventions.signatures import (
    attribute,
    defines_method,
    required,
    takes_time_alone,
)


def roles_of(obj: Any) -> dict[str, str]:
    """The roles of an object's methods, as options: ``forward`` and ``inverse``, or ``log_prob`` and
    ``sample``; empty if names are ambiguous or usual.
    """
    if obj is None or isinstance(obj, type) or inspect.isroutine(obj):
        return {}
    pairs = [*_inverse_method_pairs(obj)] if forward_call_form(obj, {}) is None else []
    taken: dict[str, str] = (
        dict(zip(("forward", "inverse"), pairs[0], strict=True)) if len(pairs) == 1 else {}
    )
    dense, draws = _log_density_method(obj), _sampler(obj)
    usual = any(callable(attribute(obj, name)) for name in USUAL)
    if dense and not usual:
        taken["log_prob"] = dense
    if (dense or usual) and draws and not callable(attribute(obj, "sample")):
        taken["sample"] = draws
    return taken


def back_of(name: str) -> tuple[str, ...]:
    """Normalized names of the inverse of a method.

    >>> "denormalize" in back_of("normalize"), "inversetransform" in back_of("transform")
    (True, True)
    """
    name = normalized_name(name)
    turned = [
        f"{start}{name}" for start in ("un", "de", "inverse", "inv", "reverse", "undo", "back")
    ]
    turned += [f"{name}{end}" for end in ("inverse", "inv", "reverse", "back", "backward")]
    for between in ("2", "to"):
        source, middle, goal = name.partition(between)
        if middle and source and goal:
            turned.append(f"{goal}{between}{source}")
        elif middle and goal:
            turned.append(f"from{goal}")
    return (*turned, *TURNS.get(name, ()))


def _inverse_method_pairs(obj: Any) -> Iterator[tuple[str, str]]:
    methods = {
        normalized_name(name): name
        for name in _of_points(obj)
        if not LOSSY.match(normalized_name(name))
    }
    named = sorted(methods)
    found = [
        (one, other)
        for one in named
        for other in named
        if other in back_of(one)
        and not any(takes_time_alone(obj, methods[name]) for name in (one, other))
    ]
    there = {one for one, _ in found}
    for one, other in found:
        # x_to_z and z_to_x invert each other: the map is the one that starts from data.
        if one in {back for _, back in found} and other in there and not _of_data(one):
            continue
        yield methods[one], methods[other]


def _of_data(name: str) -> bool:
    """Whether a name such as xtoz or data2latent starts from data."""
    return name.startswith(("x", "data", "a2", "ato", "image"))


def _of_points(obj: Any) -> list[str]:
    names = dict.fromkeys(name for base in type(obj).__mro__ for name in vars(base))
    return [
        name
        for name in names
        if not name.startswith("_") and defines_method(obj, name) and _of_one(obj, name)
    ]


def _of_one(obj: Any, name: str) -> bool:
    """Whether a method takes a point, or a point and a context."""
    asks = required(obj, name)
    return len(asks) == 1 or (len(asks) == 2 and normalized_name(asks[1]) in CONDITIONS)


def _like(obj: Any, names: tuple[str, ...]) -> list[str]:
    """The object's own methods with one of these names, up to case and underscores."""
    own_ones = [
        name for base in type(obj).__mro__ for name in vars(base) if defines_method(obj, name)
    ]
    spelled = {
        normalized_name(name): name for name in reversed(own_ones) if not name.startswith("_")
    }
    return [spelled[normalized_name(name)] for name in names if normalized_name(name) in spelled]


def _sampler(obj: Any) -> str:
    drawing = _like(obj, ("sample", *DRAWING))
    return next((name for name in drawing if _of_count(obj, name)), "")


def _of_count(obj: Any, name: str) -> bool:
    """Whether a method takes a number of samples, or that and a context."""
    asks = required(obj, name)
    return len(asks) < 2 or (len(asks) == 2 and normalized_name(asks[1]) in CONDITIONS)


def _log_density_method(obj: Any) -> str:
    """The log-density method: one named after a density, or after the log of a probability if there is a
    sampler, since the latter may omit its constant.
    """
    names = [name for name in _like(obj, DENSE) if _of_one(obj, name) or by_entries(obj, name)]
    draws = callable(getattr(obj, "sample", None)) or _sampler(obj)
    sure = {normalized_name(name) for name in NORMALIZED}
    return next((name for name in names if draws or normalized_name(name) in sure), "")
