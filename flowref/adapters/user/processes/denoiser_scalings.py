"""Finds the scalings of a preconditioned denoiser: those of its skip connection, its output and its input."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import normalized_name
from flowref.adapters.user.processes.time_functions import (
    TIME_FORMS,
    TRIED,
    TimeReading,
    for_each,
    own_callables,
    plain_array,
    returned_names,
)

# Attributes that are the deviation of the data, and parameters that are noise levels.
DEVIATION, LEVEL = (
    ("sigma_data", "sigma_d", "data_std"),
    re.compile(r"(sigma|sig|noiselevel|t|s)s?"),
)
SCALES = ("cskip", "cout", "cin")
SEVERAL = re.compile(r"(get|compute)?(scalings|preconditioning|scales|coefficients|coeffs)")
# The largest noise level that is tried, in units of the deviation of the data.
LARGEST = 8.0


def scalings_of(obj: Any) -> dict[str, Any]:
    """The scalings of an object as a call of a dialect; empty unless it has all of them, and the deviation
    of its data.
    """
    spread = data_deviation(obj)
    if not spread:
        return {}
    levels = np.array(TRIED) * LARGEST * spread
    found: dict[str, TimeReading] = {}
    for method in dict.fromkeys(own_callables(obj)):
        asked, word = signatures.required(obj, method), normalized_name(method)
        if len(asked) == 1 and LEVEL.fullmatch(normalized_name(asked[0])):
            for name, reading in _named_scalings(obj, method, word, levels):
                found.setdefault(name, reading)
    if len(found) < len(SCALES):
        return {}
    return {"scalings": partial(scalings, scales=tuple(found[one] for one in SCALES))}


def data_deviation(obj: Any) -> float:
    """The deviation of the data that an object states; 0 if it states none."""
    values = (signatures.attribute(obj, name) for name in DEVIATION)
    return next((float(one) for one in values if type(one) in (int, float) and one > 0), 0.0)


def _named_scalings(
    obj: Any, method: str, word: str, levels: Any
) -> Iterator[tuple[str, TimeReading]]:
    names = [word] if word in SCALES else []
    if SEVERAL.fullmatch(word):
        names = [normalized_name(one) for one in returned_names(obj, method)]
    single = names == [word]
    for form in TIME_FORMS:
        read = [
            (name, TimeReading(method, form, None if single else place))
            for place, name in enumerate(names)
            if name in SCALES
        ]
        try:
            for _, one in read:
                for_each(one.of(obj, levels), levels)
        except Exception:  # it takes other levels
            continue
        yield from read
        return


def scalings(obj: Any, shares: Any, scales: Sequence[TimeReading]) -> Any:
    """Noise levels at fractions of the largest one ``(n,)``, in units of the deviation of the data, and the
    scalings of skip connection, output and input in these units: ``(n, 4)``.
    """
    spread = data_deviation(obj)
    levels = plain_array(obj, shares) * LARGEST * spread
    skip, out, into = (for_each(one.of(obj, levels), levels) for one in scales)
    return np.stack([levels / spread, skip, out / spread, into * spread], 1)
