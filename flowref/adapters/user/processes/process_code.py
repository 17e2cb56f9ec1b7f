"""The calls of a noise process in a program, as text: at times, at data, and of stored arrays."""

from __future__ import annotations

import re
from typing import Any

from flowref.adapters.user.conventions.signatures import required
from flowref.adapters.user.processes import noise_processes
from flowref.adapters.user.processes.conversions import Conversion, Mixing, step_indices
from flowref.adapters.user.processes.time_functions import (
    ARRAY,
    ARRAY_COLUMN,
    COLUMN,
    EVENT,
    NUMBER,
    TRIED,
    TimeReading,
    is_time,
    last_time,
    tried_times,
)
from flowref.model import Dialect
from flowref.model.call import PROCESS, SCHEDULE

# What arrays of a schedule are by the others, by the words in which a law names them.
ARRAYS = {
    "share of all steps so far": ("alpha_bar", "last * (1 - beta)"),
    "share of one step": ("alpha", "1 - beta"),
    "share whose root is kept": ("root", "bar.sqrt()"),
    "share whose deviation is kept": ("deviation", "(1 - bar).sqrt()"),
    "share of the steps before": ("before", "last"),
    "inverse root of the share": ("1/root", "1 / bar.sqrt()"),
    "deviation in units of the data": ("deviation/root", "(1 / bar - 1).sqrt()"),
    "logarithm of the variance": ("log complement", "(1 - bar).log()"),
    "inverse root of the share of one step": ("1/root of alpha", "1 / (1 - beta).sqrt()"),
    "variance of one step back": ("posterior variance", "beta * (1 - last) / (1 - bar)"),
    "coefficient of the data one step back": (
        "posterior of data",
        "beta * last.sqrt() / (1 - bar)",
    ),
    "coefficient of the mixture one step back": (
        "posterior of mixture",
        "(1 - last) * (1 - beta).sqrt() / (1 - bar)",
    ),
}
PREDICTED = {"data": "x0", "noise": "noise", "velocity": "v", "score": "score"}


class _OfOneRow(Exception):  # no error: its program has no short form
    """A method that takes one row after the other."""


def process_code(obj: Any, dialect: Dialect, reason: str) -> dict[str, str]:
    """Placeholder of a program -> text, for the calls of a process that an object ``flow`` offers; those
    of arrays and conversions are the ones that the ``reason`` of a verdict names. Empty for other objects.
    """
    if not any(getattr(dialect, name) is not None for name in PROCESS):
        return {}
    numbers = [f"{one:.4g}" for one in tried_times(obj).tolist()]
    values = {
        "times": f"torch.tensor([{', '.join(numbers)}])",
        "final": repr(last_time(obj)),
        "steps": f"torch.tensor({step_indices(obj, tried_times(obj) / last_time(obj)).tolist()})",
    }
    for write in (_matrices, _moments, _arrays, _conversions):
        values |= write(obj, dialect, reason)
    if "at" in values:
        values["at"] = values[values["at"]]
    asked = values.get("rates", "") + values.get("transitions", "")
    clock = {"t": "times", "steps": "steps"}
    lines = [
        f"{one} = {values[of]}" for one, of in clock.items() if re.search(rf"\b{one}\b", asked)
    ]
    return values | {"clock": "\n".join(lines)}


def _matrices(obj: Any, dialect: Dialect, reason: str) -> dict[str, str]:
    found = {}
    for name in ("rates", "transitions"):
        if (call := getattr(dialect, name)) is not None:
            some = [_matrix_text(obj, *one) for one in call.keywords["asked"]]
            found[name] = f"torch.cat([{', '.join(some)}])"
    return found


def _matrix_text(obj: Any, name: str, how: str) -> str:
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
        raise _OfOneRow
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


def _moments(obj: Any, dialect: Dialect, reason: str) -> dict[str, str]:
    call: Any = dialect.moments
    if call is None:
        return {}
    given = call.keywords
    event = given["event"]
    try:
        parts = [
            "data" if one is None else _part_text(obj, one, name, len(event) + 1)
            for name, one in zip(
                ("mean", "deviation", "drift", "diffusion"), given["parts"], strict=True
            )
        ]
    except _OfOneRow:
        return {}
    shape = ", ".join(map(str, (len(TRIED), *event)))
    return {"moments": ", ".join(parts), "points": f"torch.linspace(-1, 1, {4 * len(TRIED)}).reshape({shape})",
            "ones": ", ".join(["-1", *["1"] * len(event)])}  # fmt: skip


def _part_text(obj: Any, reading: TimeReading, part: str, axes: int) -> str:
    text = reading_text(obj, reading, "t", axes)
    of_time = len(required(obj, reading.method)) == 1
    if of_time and part in ("mean", "drift"):
        return f"{text}.reshape({', '.join(['-1', *['1'] * (axes - 1)])}) * data"
    return text


def _arrays(obj: Any, dialect: Dialect, reason: str) -> dict[str, str]:
    call: Any = dialect.schedule
    if call is None:
        return {}
    names = dict(zip(SCHEDULE, call.keywords["names"], strict=True))
    # The longest words first: some begin like others.
    for words in sorted(ARRAYS, key=len, reverse=True):
        kept, expected = ARRAYS[words]
        if f"the {words} is" in reason and names[kept]:
            stored = {part: f"torch.as_tensor(flow.{names[part]}).double()" for part in names}
            return {
                "bar": stored["alpha_bar"],
                "beta": stored["beta"] if names["beta"] else "1 - bar / last",
                "kept": f"flow.{names[kept]}",
                "kept_name": names[kept],
                "expected": expected,
            }
    return {}


def _conversions(obj: Any, dialect: Dialect, reason: str) -> dict[str, str]:
    call: Any = dialect.conversions
    if call is None:
        return {}
    given = call.keywords
    mixing: Mixing = given["mixing"]
    found = re.search(r"(\w+) from the (\w+)", reason)
    asked = tuple(PREDICTED.get(one, "") for one in (found[2], found[1])) if found else ()
    axes = len(given["event"]) + 1
    row = next((one for one in given["rows"] if (one.given, one.wanted) == asked), None)
    if row is None:
        return {}
    shape = ", ".join(map(str, (len(TRIED), *given["event"])))
    try:
        values = {
            "mixed": _mixture_text(obj, mixing, axes, "data", "noise"),
            "share": " - ".join(
                _mixture_text(obj, mixing, axes, "0 * data", some)
                for some in ("0 * noise + 1", "0 * noise")
            ),
            "given": {"x0": "data", "noise": "noise", "score": "-noise / share"}.get(row.given, ""),
            "found": _conversion_text(obj, row, axes),
            "wanted": {"x0": "data", "noise": "noise"}.get(row.wanted, "-noise / share"),
            "shape": shape,
            "at": "steps" if mixing.steps else "times",
            "method": row.reading.method,
        }
        if row.given == "v":
            velocity = next(one for one in given["rows"] if one.wanted == "v")
            made = {velocity.prediction: "noise", velocity.mixture: "data"}
            values["given"] = reading_text(obj, velocity.reading, "at", axes, **made)
    except _OfOneRow:
        return {}
    return values


def _mixture_text(obj: Any, mixing: Mixing, axes: int, data: str, noise: str) -> str:
    return reading_text(obj, mixing.reading, "at", axes, **{mixing.data: data, mixing.noise: noise})


def _conversion_text(obj: Any, row: Conversion, axes: int) -> str:
    points = {row.prediction: "given"} | ({row.mixture: "mixed"} if row.mixture else {})
    return reading_text(obj, row.reading, "at", axes, **points)
