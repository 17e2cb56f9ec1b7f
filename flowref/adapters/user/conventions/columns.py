"""Calls that return one tensor in whose columns value, log-det and more stand side by side: as
declared by ?columns=, and never guessed.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import answers
from flowref.adapters.user.conventions.readings import Reading, is_tensor
from flowref.model import SpecError, TargetError

# What columns may be said to be.
VALUES, LOG_DETS = ("z", "x"), ("ladj", "log-det", "log_det")
PLACE = re.compile(r"(\d+)(?:-(\d+))?")


def packed(out: Any, rows: int, entries: int, text: str, name: str) -> Reading:
    """How ?columns= says that what a call on so many rows returned is read. ``name``: of the call.

    Raises: `SpecError` where the option cannot be read, `TargetError` where what came back has no
    such columns.
    """
    places = parsed(text)
    value = next((places[one] for one in VALUES if one in places), None)
    ladj = next((places[one] for one in LOG_DETS if one in places), None)
    if value is None or (ladj is not None and ladj[0] != ladj[1]):
        raise SpecError(
            f"columns was given as {text!r}; expected the columns of the value and the one of the "
            "log-det, as in z:0-1,ladj:2"
        )
    shape = tuple(out.shape) if is_tensor(out) else ()
    last = max(value[1], -1 if ladj is None else ladj[1])
    if len(shape) != 2 or shape[0] != rows or last >= shape[1]:
        got = f"shape {shape}" if shape else f"a {type(out).__name__}"
        raise TargetError(f"{name} returned {got}, which has no columns {text}")
    if value[1] - value[0] + 1 != entries:
        raise TargetError(
            f"columns says that the value has {value[1] - value[0] + 1} columns; an event has "
            f"{entries} entries"
        )
    found = answers.none if ladj is None else partial(answers.column, index=ladj[0])
    return Reading(
        partial(answers.columns, first=value[0], last=value[1]),
        found,
        words=("columns as declared",) if name == "forward" else (),
    )


def parsed(text: str) -> dict[str, tuple[int, int]]:
    """The first and the last column of each name."""
    places = {}
    for part in text.split(","):
        name, _, place = part.strip().partition(":")
        match = PLACE.fullmatch(place)
        if match is None or name not in (*VALUES, *LOG_DETS, "_"):
            raise SpecError(
                f"columns was given as {text!r}; expected names among z, x, ladj and _ with their "
                "columns, as in z:0-1,ladj:2"
            )
        first = int(match[1])
        places[name] = (first, int(match[2] or first))
    return places
