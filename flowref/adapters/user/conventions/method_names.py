"""Methods whose names leave one role alone: a pair that goes there and back, a log-density, what draws its
samples. They are taken where an object has none by the usual name.
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
from flowref.adapters.user.conventions.roles import forward_way
from flowref.adapters.user.conventions.signatures import attribute, defines_method, required


def roles_of(obj: Any) -> dict[str, str]:
    """What the methods of an object are, as options say it: ``forward`` and ``inverse``, or ``log_prob``
    and ``sample``; nothing where names leave it open, or the usual ones are there.
    """
    if obj is None or isinstance(obj, type) or inspect.isroutine(obj):
        return {}
    pairs = [*_inverse_method_pairs(obj)] if forward_way(obj, {}) is None else []
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
    """What the way back of a method is called, without the signs that authors differ in.

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
    """The methods of which another one is the way back, as their names say."""
    methods = {
        normalized_name(name): name
        for name in _of_points(obj)
        if not LOSSY.match(normalized_name(name))
    }
    named = sorted(methods)
    found = [(one, other) for one in named for other in named if other in back_of(one)]
    there = {one for one, _ in found}
    for one, other in found:
        # Of x_to_z and z_to_x each is the way back of the other: data go in where latents come out.
        if one in {back for _, back in found} and other in there and not _of_data(one):
            continue
        yield methods[one], methods[other]


def _of_data(name: str) -> bool:
    """Whether a name such as xtoz or data2latent begins with data."""
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
    """The methods of an object's own that have one of these names, but for signs that authors differ in."""
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
    """Whether a method takes how many, or how many and a context."""
    asks = required(obj, name)
    return len(asks) < 2 or (len(asks) == 2 and normalized_name(asks[1]) in CONDITIONS)


def _log_density_method(obj: Any) -> str:
    """The log-density: what is called a density is one; the logarithm of a probability may leave its
    constant out, but where samples are drawn as well.
    """
    names = [name for name in _like(obj, DENSE) if _of_one(obj, name) or by_entries(obj, name)]
    draws = callable(getattr(obj, "sample", None)) or _sampler(obj)
    sure = {normalized_name(name) for name in NORMALIZED}
    return next((name for name in names if draws or normalized_name(name) in sure), "")
