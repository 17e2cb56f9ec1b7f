"""Known bugs of inverses, by the points that come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from flowref.diagnosing.comparison import Comparison, array_comparison, explains, numbers_per_point
from flowref.diagnosing.known_bugs import (
    SIGN,
    ZERO,
    KnownBug,
    any_constant,
    first_explaining_bug,
    multiplied,
    named_offsets,
    narrowed,
    other_terms,
    whole_batch,
)
from flowref.diagnosing.scenes import LARGEST, Scene
from flowref.laws.common.arithmetic import finite_rows, inverse_inputs
from flowref.model import Array, Subject

CALLS = {
    "map/inverse": ("forward", "inverse"),
    "map/inverse[latents]": ("inverse", "forward"),
}
# Relative accuracy to which two coordinates count as the same.
SAME = 1e-8


def round_trip_of(scene: Scene, law: str) -> Comparison:
    """Compare the points that come back with the original ones."""
    subject: Any = scene.subject
    there, back = CALLS[law]
    x, context, _ = scene.batch
    if there == "inverse":
        x = inverse_inputs(subject, x, context)
    image = np.asarray(subject.calls[there](x + 0.0, context).value)
    again = np.asarray(subject.calls[back](image + 0.0, context).value)
    usable = finite_rows(image) & finite_rows(again)
    comparison = array_comparison(scene.subject, again, x, usable, scene.cases)
    terms = {
        f"its input: {back} changes nothing": lambda: image,
        f"{there} applied twice: {back} maps in the same direction": lambda: (
            subject.calls[there](image + 0.0, context).value
        ),
    }
    if 1 < comparison.entries <= LARGEST:
        terms[f"the transpose of {there}'s matrix applied, not its inverse"] = partial(
            _transposed, subject, there, x, image, context
        )
    return replace(comparison, terms=terms)


def diagnose_round_trip(scenes: Sequence[Scene], law: str) -> str:
    """Return the known bug of an inverse as text; empty if none explains the violation."""
    seen = [round_trip_of(scene, law) for scene in scenes]
    there, back = CALLS[law]
    point = "x" if there == "forward" else "z"
    found = (
        first_explaining_bug(seen, round_trip_bugs(seen))
        or permuted(seen)
        or narrowed(seen)
        or some_coordinates(seen)
        or any_constant(seen)
        or shifted(seen)
    )
    return f"{back}({there}({point})) is {found}" if found else ""


def round_trip_bugs(seen: Sequence[Comparison]) -> Iterator[KnownBug]:
    """Yield the known bugs of an inverse."""
    flipped = replace(SIGN, words="the point with the opposite sign")
    twice, half = (
        KnownBug("twice the point", multiplied(2.0)),
        KnownBug("half the point", multiplied(0.5)),
    )
    yield from chain([ZERO], other_terms(seen), [flipped, twice, half])
    yield from chain(named_offsets(seen), whole_batch())


def permuted(seen: Sequence[Comparison]) -> str:
    """Return a diagnosis if the coordinates come back in one other order at all points; else ""."""
    order = _column_permutation(seen[0])
    if order is None or not explains(seen, lambda one: one.want[:, order]):
        return ""
    if order == list(reversed(range(len(order)))):
        return "the point with its coordinates in reversed order"
    listed = ", ".join(map(str, order)) if len(order) <= 12 else "a fixed permutation"
    return f"the point with its coordinates in another order: {listed}"


def _column_permutation(one: Comparison) -> list[int] | None:
    got, want = one.got[one.usable], one.want[one.usable]
    if not len(got) or got.shape[1] != want.shape[1] or got.shape[1] > LARGEST:
        return None
    order = []
    for column in got.T:
        gaps = np.abs(want - column[:, None]).max(0)
        at = int(gaps.argmin())
        if gaps[at] > SAME * (1 + np.abs(column).max()):
            return None
        order.append(at)
    return order if len(set(order)) == len(order) else None


def some_coordinates(seen: Sequence[Comparison]) -> str:
    """Return a diagnosis if only some coordinates come back wrong, the same ones at all wrong
    points; else "".
    """
    size = seen[0].got.shape[1]
    if size < 2:
        return ""
    off = [np.abs(one.got - one.want)[one.wrong] > 1e-12 * one.scale[one.wrong] for one in seen]
    rows = np.concatenate(off)
    every = np.flatnonzero(rows.any(0))
    if len(rows) < 6 or len(every) == size or not rows[:, every].mean() > 0.9:
        return ""
    listed = ", ".join(map(str, every[:8])) + (", ..." if len(every) > 8 else "")
    noun = "coordinate" if len(every) == 1 else "coordinates"
    return f"right but for {noun} {listed} of {size}"


def shifted(seen: Sequence[Comparison]) -> str:
    """Return a diagnosis if the points are off by the same vector at the case's weights; else ""."""
    one = seen[0]
    apart = (one.got - one.want)[one.usable]
    if len(apart) < 6 or not one.wrong[: one.cases].any() or not np.abs(apart).max() > 0:
        return ""
    if np.ptp(apart, axis=0).max() <= 1e-9 * (1 + np.abs(one.want[one.usable]).max()):
        return "off by the same vector at every point: a shift that is not undone"
    return ""


def _transposed(
    subject: Subject, there: str, x: Array, image: Array, context: Array | None
) -> Array:
    """The images mapped by the transpose of an affine map's matrix, ``(n, d)``. Raises:
    `LookupError` or `ValueError` if the map is not affine.
    """
    if subject.jacobian is None:
        raise LookupError("no Jacobian")
    matrices = np.asarray(subject.jacobian(there, x, context), dtype=np.float64)
    if np.abs(matrices - matrices[:1]).max() > SAME * (1 + np.abs(matrices).max()):
        raise ValueError("not affine")
    shift = numbers_per_point(image)[0] - matrices[0] @ numbers_per_point(x)[0]
    return np.asarray((numbers_per_point(image) - shift) @ matrices[0])
