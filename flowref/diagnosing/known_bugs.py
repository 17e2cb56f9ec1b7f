"""Known bugs of any number, and the order in which they are tried."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap

import numpy as np

from flowref.diagnosing.comparison import (
    Comparison,
    Predict,
    array_comparison,
    everywhere,
    explains,
)
from flowref.diagnosing.constants import (
    HALF,
    closed_form_names,
    common_factor,
    common_offset,
    factors,
    offsets,
)
from flowref.model import Array

# The volume of levels.
LEVELS = re.compile(r"D log (25[56])")


@dataclass(frozen=True)
class KnownBug:
    """A known bug: ``words`` complete "the number is ...", ``predict`` computes the number that it
    returns.
    """

    words: str
    predict: Predict


def first_explaining_bug(seen: Sequence[Comparison], bugs: Iterator[KnownBug]) -> str:
    """Return the words of the first known bug that explains all wrong points; empty if none does."""
    for bug in bugs:
        if explains(seen, bug.predict):
            return bug.words + ("" if everywhere(seen, bug.predict) else ", where it is wrong")
    return ""


def term(words: str, name: str, sign: float = 1.0) -> KnownBug:
    """The bug that returns one of the comparison's ``terms``, times ``sign``."""
    return KnownBug(words, lambda comparison: sign * comparison.term(name))


def multiplied(factor: float) -> Predict:
    """Predict the expected number times a factor."""
    return lambda comparison: factor * comparison.want


def added_constant(offset: float) -> Predict:
    """Predict the expected number plus a constant."""
    return lambda comparison: comparison.want + offset


ZERO = KnownBug("zero: nothing was computed, or it was lost", multiplied(0.0))
SIGN = KnownBug("the right one with the opposite sign", multiplied(-1.0))


def named_factors(seen: Sequence[Comparison]) -> Iterator[KnownBug]:
    """Yield bugs that multiply by a factor with a closed form; equal factors are described
    together.
    """
    every = dict(factors(seen[0].subject))
    for value in dict.fromkeys(every.values()):
        words = closed_form_names(value, iter(every.items()), seen[0].subject.dtype)
        telling = [one for one in words if one != HALF] or words
        yield KnownBug(" = ".join(telling), multiplied(value))


def named_offsets(seen: Sequence[Comparison], *, declared: bool = False) -> Iterator[KnownBug]:
    """Yield bugs that add or subtract a constant with a closed form. ``declared``: the volume of
    levels that were scaled before may be declared.
    """
    every = dict(offsets(seen[0].subject))
    for value in dict.fromkeys(every.values()):
        words = " = ".join(closed_form_names(value, iter(every.items()), seen[0].subject.dtype))
        levels = LEVELS.fullmatch(words) if declared else None
        for sign, name in ((1, "plus"), (-1, "minus")):
            option = f"{'-' * (sign < 0)}D*log({levels[1]})" if levels else ""
            meant = f"; if data are scaled before, say ?offset={option}" if option else ""
            yield KnownBug(f"the right one {name} {words}{meant}", added_constant(sign * value))


def other_terms(seen: Sequence[Comparison]) -> Iterator[KnownBug]:
    """Yield a bug for each of the comparison's ``terms``, described by its name."""
    yield from (term(words, words) for words in seen[0].terms)


def whole_batch() -> Iterator[KnownBug]:
    """Yield bugs that mix the rows of a batch."""
    yield from starmap(
        KnownBug,
        (
            ("the mean over the batch, in every row", lambda one: one.want.mean(0)),
            ("the sum over the batch, in every row", lambda one: one.want.sum(0)),
            ("that of the row before", lambda one: np.roll(one.want, 1, axis=0)),
            ("that of the row after", lambda one: np.roll(one.want, -1, axis=0)),
            ("that of the first row, in every row", lambda one: one.want[:1]),
        ),
    )


def logarithms(meant: str = "") -> Iterator[KnownBug]:
    """Yield bugs with a missing logarithm or an absolute value. ``meant``: a hint for determinants
    returned on purpose.
    """
    yield KnownBug(
        f"its exponential: the logarithm was not taken{meant}", lambda one: np.exp(one.want)
    )
    yield KnownBug("its absolute value", lambda one: np.abs(one.want))


def found(seen: Sequence[Comparison], bugs: Iterator[KnownBug]) -> str:
    """Return the words of the first known bug that explains all wrong points, or of float32
    rounding or a constant; empty if nothing does.
    """
    return first_explaining_bug(seen, bugs) or narrowed(seen) or any_constant(seen)


def narrowed(seen: Sequence[Comparison]) -> str:
    """Return a diagnosis if every reported number is representable in float32 and right as such;
    else "".
    """
    if seen[0].subject.dtype != "float64":
        return ""

    def rounded(one: Comparison) -> Array:
        return one.want.astype(np.float32).astype(np.float64)

    wrong = [(one.got[one.wrong], rounded(one)[one.wrong]) for one in seen]
    got, single = (np.concatenate([row[at].reshape(-1) for row in wrong]) for at in range(2))
    ulp = 2.0**-23 * (1 + np.abs(single))
    exact = got.astype(np.float32).astype(np.float64) == got
    if len(got) >= 6 and exact.all() and (np.abs(got - single) <= 16 * ulp).all():
        return "a float32 number: it was cast to float32 on the way"
    return ""


def any_constant(seen: Sequence[Comparison]) -> str:
    """Return a diagnosis if all points share a factor or a difference without closed form; else ""."""
    factor = common_factor(seen)
    if factor is not None:
        return f"{factor:.10g} times the right one, at every point"
    offset = common_offset(seen)
    if offset is not None:
        alike = ", whatever the weights" if len(seen) > 1 else ""
        return f"off by the same {offset:.10g} at every point{alike}"
    if len(seen) > 1 and all(one.wrong.any() for one in seen):
        apart = [common_offset([_own(one)]) for one in seen]
        if None not in apart:
            return (
                "off by the same amount at every point, which depends on the weights: "
                "a term that does not depend on the input"
            )
    return ""


def _own(one: Comparison) -> Comparison:
    """A comparison in which every row counts as one of the recorded case."""
    return array_comparison(one.subject, one.got, one.want, one.usable, len(one.got))
