"""Closed forms of the constants that bugs leave behind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import attrgetter

import numpy as np

from flowref.diagnosing.comparison import LEAST, LEFT, Comparison
from flowref.model import Array, Subject

# Relative accuracy to which a constant must agree with a closed form.
SAME = {"float64": 1e-8, "float32": 1e-5}
# Means over at most this many numbers are recognized by their factor.
MEANS = 16
LOG_2_PI = math.log(2 * math.pi)
LOGARITHMS = {"2": 2, "pi": math.pi, "256": 256, "255": 255}
# The description of a factor without a better one.
HALF = "half of the right one"


def sizes(subject: Subject) -> dict[str, int]:
    """Named numbers that log-dets are multiplied by: entries, and channels and positions of images."""
    shape = subject.event_shape
    named = {"D": math.prod(shape)}
    if len(shape) == 3:
        named |= {"C": shape[0], "H*W": shape[1] * shape[2]}
    if len(shape) == 2:
        named |= {"the first axis": shape[0], "the second axis": shape[1]}
    return {name: size for name, size in named.items() if size > 1}


def factors(subject: Subject) -> Iterator[tuple[str, float]]:
    """Yield descriptions and factors between the reported and the expected value."""
    yield "twice the right one (counted twice, or log|det| of J^T J?)", 2.0
    named_sizes = sizes(subject)
    for name, size in named_sizes.items():
        why = "a mean instead of a sum?" if name == "D" else f"{name} left out?"
        below = f"({name})" if "*" in name else name
        yield f"1/{below} of the right one, {name} = {size} ({why})", 1 / size
        yield f"{name} times the right one, {name} = {size}", float(size)
    for count in range(2, min(math.prod(subject.event_shape), MEANS) + 1):
        if count not in named_sizes.values():
            mean = f"a mean over {count} numbers instead of their sum?"
            yield f"1/{count} of the right one ({mean})", 1 / count
    yield from (
        (HALF, 0.5),
        ("log 2 times the right one (nats instead of bits?)", math.log(2)),
        ("the right one over log 2 (bits instead of nats)", 1 / math.log(2)),
        ("the right one over log 10 (a logarithm to base 10)", 1 / math.log(10)),
        ("half of the right one, with the opposite sign", -0.5),
        ("twice the right one, with the opposite sign", -2.0),
    )


def offsets(subject: Subject) -> Iterator[tuple[str, float]]:
    """Yield closed forms, as text and value, of constants that are wrongly added or missing."""
    entries, once = (
        math.prod(subject.event_shape),
        "counted once instead of D times, or the other way round",
    )
    if entries > 1:
        yield from (
            ("(D/2) log 2 pi", entries / 2 * LOG_2_PI),
            (f"((D-1)/2) log 2 pi ({once})", (entries - 1) / 2 * LOG_2_PI),
            ("D log 2 pi", entries * LOG_2_PI),
            ("D log 2", entries * math.log(2)),
            (f"(D-1) log 2 ({once})", (entries - 1) * math.log(2)),
            ("D log 256", entries * math.log(256)),
            ("D log 255", entries * math.log(255)),
            ("log D", math.log(entries)),
            ("log D!", math.lgamma(entries + 1)),
            ("D", float(entries)),
            ("D/2", entries / 2),
        )
    yield "(1/2) log 2 pi", 0.5 * LOG_2_PI
    yield "log 2 pi", LOG_2_PI
    yield "(1/2) log 2", 0.5 * math.log(2)
    yield from ((f"log {name}", math.log(x)) for name, x in LOGARITHMS.items())


def closed_form_names(value: float, forms: Iterator[tuple[str, float]], dtype: str) -> list[str]:
    """Descriptions of the closed forms equal to a number, to the accuracy of the dtype."""
    return [words for words, form in forms if abs(value - form) <= SAME[dtype] * abs(form)]


def common_factor(seen: Sequence[Comparison]) -> float | None:
    """Return the factor between reported and expected value that all wrong points share; None if
    there is none or the expected values do not vary.
    """
    got, want, scale = _wrong(seen)
    if len(got) < LEAST or not np.ptp(want) > 1e-3 * np.abs(want).max(initial=0.0):
        return None
    factor = float((got * want).sum() / (want * want).sum())
    return factor if _negligible_residual(seen, got - factor * want, got - want, scale) else None


def common_offset(seen: Sequence[Comparison]) -> float | None:
    """Return the difference between reported and expected value that all wrong points share; None
    if there is none.
    """
    got, want, scale = _wrong(seen)
    if len(got) < LEAST:
        return None
    offset = float(np.median(got - want))
    return offset if _negligible_residual(seen, got - want - offset, got - want, scale) else None


def _wrong(seen: Sequence[Comparison]) -> tuple[Array, Array, Array]:
    """``got``, ``want`` and ``scale`` of the wrong points, flat; empty if the recorded case has
    none.
    """
    if not seen[0].wrong[: seen[0].cases].any():
        return np.zeros(0), np.zeros(0), np.zeros(0)
    got, want, scale = (
        np.concatenate([np.broadcast_to(part(one), one.got.shape)[one.wrong] for one in seen])
        for part in (attrgetter("got"), attrgetter("want"), attrgetter("scale"))
    )
    return got.reshape(-1), want.reshape(-1), scale.reshape(-1)


def _negligible_residual(
    seen: Sequence[Comparison], gap: Array, error: Array, scale: Array
) -> bool:
    most = np.minimum(1e-3 * np.abs(error).max(), LEFT[seen[0].subject.dtype] * scale)
    return bool((np.abs(gap) <= most).all())
