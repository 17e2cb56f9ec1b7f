"""Finds the prior of a process: the log-density and the draws of the noise from which data are made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from flowref import backends
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import normalized_name
from flowref.adapters.user.processes.equations import EVENTS, PARTS, equation_of, value_at
from flowref.adapters.user.processes.time_functions import (
    TRIED,
    TimeReading,
    for_each,
    last_time,
    own_callables,
    plain_array,
)

LOG_DENSITY = re.compile(r"(get|compute)?(prior(logp|logprob|logpdf|logdensity)|logprior)")
DRAWS = re.compile(r"prior(sampling|samples?)|(sample|draw)(from)?prior")
SHAPE, KEY = re.compile(r"shape|sizes?|sampleshape"), re.compile(r"(prng|rng)?key|rng")


def prior_of(obj: Any) -> dict[str, Any]:
    """The prior of an object as a call of a dialect; empty unless it has its log-density."""
    methods = {name: normalized_name(name) for name in dict.fromkeys(own_callables(obj))}
    density = next(
        (
            name
            for name, word in methods.items()
            if LOG_DENSITY.fullmatch(word) and len(_needed(obj, name)) == 1
        ),
        "",
    )
    draws = next((one for one, word in methods.items() if DRAWS.fullmatch(word)), "")
    equation = equation_of(obj).get("moments")
    deviation = equation and equation.keywords["parts"][PARTS.index("deviation")]
    for event in EVENTS if density else ():
        points = np.ones((len(TRIED), *event))
        try:
            _log_density(obj, density, points)
        except Exception:  # it takes other points
            continue
        names = (density, draws if draws and _draws_points(obj, draws, points) else "")
        return {"prior": partial(prior, names=names, deviation=deviation, event=event)}
    return {}


def _needed(obj: Any, method: str) -> Sequence[str]:
    return signatures.required(obj, method)


def _draws_points(obj: Any, method: str, points: Any) -> bool:
    names = [normalized_name(one) for one in _needed(obj, method)]
    others = [one for one in names if not KEY.fullmatch(one)]
    if len(others) != 1 or not SHAPE.fullmatch(others[0]):
        return False
    try:  # one with a key is tried where there is a key
        return len(names) > 1 or bool(_drawn(obj, method, points, None).shape == points.shape)
    except Exception:  # it takes another shape
        return False


def _log_density(obj: Any, method: str, points: Any) -> Any:
    given = backends.of(obj).tensor(points)
    return plain_array(obj, getattr(obj, method)(given)).reshape(len(points))


def _drawn(obj: Any, method: str, points: Any, key: Any) -> Any:
    keyed = [KEY.fullmatch(normalized_name(one)) for one in _needed(obj, method)]
    return plain_array(obj, getattr(obj, method)(*(key if one else points.shape for one in keyed)))


def prior(
    obj: Any,
    x: Any,
    key: Any = None,
    *,
    names: tuple[str, str],
    deviation: TimeReading | None,
    event: Sequence[int],
) -> Any:
    """The log-density of a prior at x ``(n, 4)``, as many draws of it, and the deviation of the noise at the
    end, the first or the last time, whichever has more: ``(n, 3, 4)``, nan for missing ones. ``key``: of the
    draws, in a framework that has random keys.
    """
    x = plain_array(obj, x)
    points, (density, draws) = x.reshape(-1, *event), names
    nothing = np.full_like(points, np.nan)
    ends = [
        nothing if deviation is None else for_each(value_at(obj, deviation, points, at), points)
        for at in (np.zeros(len(x)), np.full(len(x), last_time(obj)))
    ]
    found = [
        for_each(_log_density(obj, density, points), points),
        _drawn(obj, draws, points, key) if draws else nothing,
        np.fmax(*ends),
    ]
    return np.stack([one.reshape(x.shape) for one in found], 1)
