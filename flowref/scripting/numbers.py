"""Arrays as source: short if possible, with every digit if necessary."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from flowref.model import Array
from flowref.scripting.layout import WIDTH


@dataclass(frozen=True)
class Words:
    """The array functions of a framework: from numbers, zeros, filled; ``writable``: whether
    entries can be assigned.
    """

    array: str
    zeros: str
    full: str
    writable: bool


TORCH = Words("torch.tensor", "torch.zeros", "torch.full", True)
JAX = Words("jnp.array", "jnp.zeros", "jnp.full", False)


def tensor(name: str, values: Array, digits: int = 17, words: Words = TORCH) -> list[str]:
    """Return the lines that assign an array of the default dtype, with ``digits`` significant
    digits.
    """
    values = np.asarray(values, dtype=np.float64)
    shape = ", ".join(map(str, values.shape))
    if not np.signbit(values).any() and not values.any():
        return [f"{name} = {words.zeros}({shape if words.writable else values.shape})"]
    if values.size > 2 and np.all(values == values.flat[0]) and np.isfinite(values.flat[0]):
        return [f"{name} = {words.full}(({shape},), {number_literal(values.flat[0], digits)})"]
    places = np.flatnonzero(values)
    if (
        words.writable
        and values.size > 24
        and len(places) <= 4
        and not np.signbit(values[values == 0]).any()
    ):
        indices = [np.unravel_index(place, values.shape) for place in places]
        entries = [(", ".join(map(str, map(int, index))), values[index]) for index in indices]
        set_ones = [
            f"{name}[{index}] = {number_literal(value, digits)}" for index, value in entries
        ]
        return [f"{name} = {words.zeros}({shape})", *set_ones]
    nested = _nested(values, digits)
    line = f"{name} = {words.array}({nested})"
    if len(line) <= WIDTH:
        return [line]
    lines, flat = (
        [f"{name} = {words.array}(["],
        [number_literal(v, digits) for v in values.reshape(-1)],
    )
    row = "   "
    for text in flat:
        if len(row) + len(text) + 2 > WIDTH:
            lines.append(row)
            row = "   "
        row += f" {text},"
    return [*lines, row, f"]).reshape({shape})"]


def number_literal(value: float, digits: int = 17) -> str:
    """A number with ``digits`` significant digits, as Python source."""
    value = float(value)
    if not np.isfinite(value):
        return f'float("{value}")'
    text = repr(value if digits >= 17 else float(f"{value:.{digits}g}"))
    return re.sub(r"e([+-])0*(\d)", lambda found: f"e{found[1].strip('+')}{found[2]}", text)


def _nested(values: Array, digits: int) -> str:
    if values.ndim == 0:
        return number_literal(float(values), digits)
    return f"[{', '.join(_nested(row, digits) for row in values)}]"
