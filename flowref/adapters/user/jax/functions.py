"""Functions of points in a tuple, as users of JAX return them with parameters: a map, its inverse, a
log-density and a sampler, identified by names and signatures.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from flowref.adapters.common.signatures import parameter_names
from flowref.adapters.user.conventions.names import DENSE, normalized_name
from flowref.adapters.user.jax.jax_abilities import (
    KEYS,
    SAMPLER_SIZES,
    CallForm,
    SamplerSignature,
    batch_log_prob,
    batch_map,
    batch_samples,
)
from flowref.model import Dialect

# Parts of names of samplers.
DRAWING = ("sample", "draw")
# Length of names that also occur inside other names.
SHORT = 4
NAMELESS = ("", "<lambda>")


def functions_convention(obj: tuple[Any, ...] | list[Any]) -> Dialect | None:
    """The dialect of a tuple of functions and, if present, their parameters: a map and perhaps its inverse,
    a log-density and perhaps a sampler, or all of these; None if it is none of these.
    """
    places = [place for place, one in enumerate(obj) if inspect.isroutine(one) or is_partial(one)]
    others = [place for place in range(len(obj)) if place not in places]
    if not places or len(others) > 1:
        if len(obj) != 2 or not all(map(callable, obj)):
            return None
        places, others = [0, 1], []
    first = f":{others[0]}" if others else ""
    draws = [place for place in places if is_sampler(obj[place])]
    densities = [place for place in places if place not in draws and is_density(obj[place])]
    maps = [place for place in places if place not in (*draws, *densities)]
    if draws and not densities and len(maps) == 1 and function_name(obj[maps[0]]) in NAMELESS:
        maps, densities = [], maps
    if not densities:  # without a density an unknown function is neither sampler nor inverse
        maps, draws = [place for place in places if not takes_key_and_number(obj[place])], []
    if not (maps or densities) or len(maps) > 2 or len(densities) > 1 or len(draws) > 1:
        return None
    found: dict[str, Any] = {
        name: partial(batch_map, way=CallForm(f"{place}{first}"))
        for name, place in zip(("forward", "inverse"), maps, strict=False)
    }
    if densities:
        found["log_prob"] = partial(batch_log_prob, way=CallForm(f"{densities[0]}{first}"))
    if draws:
        found["sample"] = partial(
            batch_samples, way=SamplerSignature(f"{draws[0]}{first}", ("key", "number"))
        )
    return Dialect(**found)


def is_partial(one: Any) -> bool:
    """Whether an object is a wrapped function, by jit or partial, and not a module."""
    return isinstance(one, partial) or (callable(one) and hasattr(one, "__wrapped__"))


def function_name(run: Any) -> str:
    while isinstance(run, partial):
        run = run.func
    return str(getattr(run, "__name__", "")).lower()


def is_density(run: Any) -> bool:
    """Whether a function has the name of a log-density, or one inside its own, unless that name is short."""
    name = normalized_name(function_name(run))
    return any(
        word == name or (word in name and len(word) > SHORT) for word in map(normalized_name, DENSE)
    )


def is_sampler(run: Any) -> bool:
    """Whether a function has the name of a sampler, or takes a key and a number of samples."""
    return any(word in function_name(run) for word in DRAWING) or takes_key_and_number(run)


def takes_key_and_number(run: Any) -> bool:
    """Whether a function has parameters for a key and for a number or shape of samples."""
    names = set(parameter_names(run))
    return bool(names & set(KEYS)) and bool(names & set(SAMPLER_SIZES))
