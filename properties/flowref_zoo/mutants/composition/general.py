"""Defects of compositions, put into healthy subjects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.model import Array, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import multiplied, wrapped

CHAIN = "nflows:CompositeTransform"


def _last_part_only(
    call: Callable[..., Mapped],
    parts: Sequence[Callable[..., Mapped]],
    x: Array,
    context: Array | None = None,
) -> Mapped:
    out = call(x, context)
    reached = x
    for part in parts:
        last = part(reached, context)
        reached = last.value
    return Mapped(out.value, last.ladj)


@mutant("composition/parts", host=CHAIN)
def overwritten_not_accumulated(subject: Subject, size: float = 1.0) -> Subject:
    """The composite returns the log-det of its last part (tensorflow/models #7465)."""
    return wrapped(subject, "forward", _last_part_only, subject.part_maps)


def _silent(part: Callable[..., Mapped], x: Array, *others: Any) -> Mapped:
    return Mapped(part(x, *others).value, None)


@mutant("composition/parts", host=CHAIN, sizes=(1e-10, 1e-3))
def off_behind_a_silent_part(subject: Subject, size: float = 1e-6) -> Subject:
    """The composite is off by a factor, and its first part returns no log-det."""
    first, *others = subject.part_maps
    quiet = replace(subject, part_maps=(partial(_silent, first), *others))
    return multiplied(quiet, "forward", 1 + size)


@mutant("composition/algebra[inverse]", host=CHAIN)
def inverse_off(subject: Subject, size: float = 1e-6) -> Subject:
    """The inverse of the composite is not that of its parts."""
    return multiplied(subject, "inverse", 1 + size)


def _disarranged(
    arrange: Callable[..., Mapped],
    kind: str,
    expression: Any,
    x: Array,
    context: Array | None = None,
    which: str = "forward",
) -> Mapped:
    if kind == "reversed" and expression[0] == "chain":
        expression = ("chain", *reversed(expression[1:]))
    if kind == "nested" and expression[0] == "chain" and isinstance(expression[-1], tuple):
        return arrange(("chain", *expression[-1][1:], *expression[1:-1]), x, context, which)
    out = arrange(expression, x, context, which)
    if out.ladj is None:
        return out
    changed = {"turned": -out.ladj, "offset": out.ladj + 1e-6}
    return Mapped(out.value, changed.get(kind, out.ladj))


@mutant("composition/algebra[order]", host=CHAIN)
def applied_backwards(subject: Subject, size: float = 1.0) -> Subject:
    """A chain applies its last element first."""
    return wrapped(subject, "arrange", _disarranged, "reversed")


@mutant("composition/algebra[nesting]", host=CHAIN)
def nested_misplaced(subject: Subject, size: float = 1.0) -> Subject:
    """A chain inside a chain is applied at the wrong place."""
    return wrapped(subject, "arrange", _disarranged, "nested")


@mutant("composition/algebra[empty]", host=CHAIN)
def empty_chain_offset(subject: Subject, size: float = 1.0) -> Subject:
    """The empty chain has a log-det of its own."""
    return wrapped(subject, "arrange", _disarranged, "offset")


@mutant("composition/algebra[single]", host=CHAIN)
def single_chain_offset(subject: Subject, size: float = 1.0) -> Subject:
    """A chain of one adds to the log-det."""
    return wrapped(subject, "arrange", _disarranged, "offset")
