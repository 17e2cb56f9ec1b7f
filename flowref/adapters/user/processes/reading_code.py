"""Calls of readings and of matrices in a program, as text."""

from __future__ import annotations

from typing import Any

from flowref.adapters.user.conventions.signatures import required
from flowref.adapters.user.processes import noise_processes
from flowref.adapters.user.processes.time_functions import (
    ARRAY,
    ARRAY_COLUMN,
    COLUMN,
    EVENT,
    NUMBER,
    TimeReading,
    is_time,
)


class OfOneRow(Exception):  # no error: its program has no short form
    """A method that takes one row after the other."""


def matrix_text(obj: Any, name: str, how: str) -> str:
    """The matrices of a method at times ``t`` or ``steps``, or stored ones, as text."""
    if not how:
        return f"torch.as_tensor(flow.{name}).reshape(-1, *flow.{name}.shape[-2:])"
    counts = how in (noise_processes.COUNTS, noise_processes.COUNT)
    half = "{0} // 2" if counts else "{0} / 2"
    both = len(required(obj, name)) == 2
    one = "steps" if counts else "t"
    if how in (noise_processes.SEVERAL, noise_processes.COUNTS):
        given = [half.format(one), one] if both else [one]
        return f"flow.{name}({', '.join(given)})"
    item = "one" if how == noise_processes.SCALAR else "one.item()"
    given = [half.format(item), item] if both else [item]
    return f"torch.stack([torch.as_tensor(flow.{name}({', '.join(given)})) for one in {one}])"


def reading_text(obj: Any, reading: TimeReading, times: str, axes: int, **points: str) -> str:
    """The call of a reading at ``times``, with the variables of its ``points`` of that many axes, as text."""
    if reading.form in (NUMBER, EVENT):
        raise OfOneRow
    columns = reading.form in (COLUMN, ARRAY_COLUMN)
    at = f"{times}.reshape({', '.join(['-1', *['1'] * (axes - 1)])})" if columns else times
    arrays = reading.form in (ARRAY, ARRAY_COLUMN)
    end = ".numpy()" if arrays else ""
    points = {name: f"({one})" if arrays and " " in one else one for name, one in points.items()}
    given = [
        f"{points.get(one, at if is_time(one) else 'data')}{end}"
        for one in required(obj, reading.method)
    ]
    named = [
        f"{name}={one}{end}"
        for name, one in points.items()
        if name not in required(obj, reading.method)
    ]
    text = f"flow.{reading.method}({', '.join([*given, *named])})"
    if isinstance(reading.entry, int):
        text += f"[{reading.entry}]"
    elif reading.entry is not None:
        text += f".{reading.entry}"
    text = f"torch.as_tensor({text})" if arrays else text
    return text + {"root": ".sqrt()", "exp": ".exp()", "": ""}[reading.change]
