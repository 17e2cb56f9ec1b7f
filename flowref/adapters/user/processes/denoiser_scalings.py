"""Finds the scalings of a preconditioned denoiser, those of its skip connection, its output and its input, and
the weight of its loss.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import normalized_name
from flowref.adapters.user.processes.time_functions import (
    TRIED,
    TimeReading,
    for_each,
    named_results,
    own_callables,
    plain_array,
)

# Attributes that are the deviation of the data, and parameters that are noise levels.
DEVIATION, LEVEL = (
    ("sigma_data", "sigma_d", "data_std"),
    re.compile(r"(sigma|sig|noiselevel|t|s)s?"),
)
# What is read, the first three of which a denoiser needs, and methods that return several of them.
SCALES = {
    "c_skip": "cskip",
    "c_out": "cout",
    "c_in": "cin",
    "weight": r"(get|compute)?(loss)?(weight|weighting)s?(fn)?",
}
NEEDED = 3
SEVERAL = r"(get|compute)?(scalings|preconditioning|scales|coefficients|coeffs)"
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
        known = any(re.fullmatch(one, word) for one in (*SCALES.values(), SEVERAL))
        if known and len(asked) == 1 and LEVEL.fullmatch(normalized_name(asked[0])):
            for name, reading in named_results(obj, method, levels):
                for scale, names in SCALES.items():
                    if re.fullmatch(names, normalized_name(name)):
                        found.setdefault(scale, reading)
    scales = tuple(found.get(one) for one in SCALES)
    return {} if None in scales[:NEEDED] else {"scalings": partial(scalings, scales=scales)}


def data_deviation(obj: Any) -> float:
    """The deviation of the data that an object states; 0 if it states none."""
    values = (signatures.attribute(obj, name) for name in DEVIATION)
    return next((float(one) for one in values if type(one) in (int, float) and one > 0), 0.0)


def scalings(obj: Any, shares: Any, scales: Sequence[TimeReading | None]) -> Any:
    """Noise levels at fractions of the largest one ``(n,)``, in units of the deviation of the data, the scalings
    of skip connection, output and input in these units, and the weight of the loss times the squared scaling of
    the output, nan for a missing one: ``(n, 5)``.
    """
    spread = data_deviation(obj)
    levels = plain_array(obj, shares) * LARGEST * spread
    skip, out, into, weight = (
        np.full_like(levels, np.nan) if one is None else for_each(one.of(obj, levels), levels)
        for one in scales
    )
    return np.stack([levels / spread, skip, out / spread, into * spread, weight * out**2], 1)
