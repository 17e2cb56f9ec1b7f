"""Whether two objects compute the same results with the same weights: a port, a refactoring, a
fused copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flowref.loading import Recipe, recipe_of
from flowref.model import Target, TargetError, one_line
from flowref.proving.certificates import Certificate
from flowref.proving.compositions import Calls, detached
from flowref.proving.prover import MOST_NUMBERS, MOST_OPERATIONS, Most, certificate_of
from flowref.proving.statements import Statement

# Relative differences up to this count as rounding.
NEAR = 1e-9


@dataclass(frozen=True)
class Difference:
    """Two results at a point where they differ, and the largest difference."""

    point: tuple[float, ...]
    one: float
    other: float

    def __str__(self) -> str:
        point = ", ".join(f"{x:.6g}" for x in self.point)
        return f"{self.one:.9g} and {self.other:.9g} at x = [{point}]"


@dataclass(frozen=True)
class EquivalenceClaim:
    """A claim that a ``result`` of two objects is equal; if it is not, with a drawn point as a
    counterexample.
    """

    result: str
    claim: Certificate
    difference: Difference | None


@dataclass(frozen=True)
class EquivalentObjects:
    """Two objects, where the second computes with the weights of the first. ``names``: weight of
    the second -> weight of the first.
    """

    targets: str
    one: Recipe
    two: Recipe
    beside: Any
    names: Mapping[str, str]

    @property
    def renamed(self) -> dict[str, str]:
        """The weights that have another name in the second."""
        return {theirs: ours for theirs, ours in self.names.items() if theirs != ours}

    def comparisons(self) -> Iterator[EquivalenceClaim]:
        """Yields a claim for each result that both offer."""
        for name, words, read in RESULTS:
            if all(getattr(each.dialect, name) is not None for each in (self.one, self.two)):
                yield from self._compared(name, words, read)

    def _compared(
        self, name: str, words: str, read: Callable[[Any], Any]
    ) -> Iterator[EquivalenceClaim]:
        recipe, call = self.one, getattr(self.two.dialect, name)

        def both(obj: Any, x: Any, context: Any) -> Any:
            own = read(getattr(recipe.dialect, name)(obj, x, context))
            with recipe.backend.lent(obj, self.beside, self.names):
                return own, read(call(self.beside, x, context))

        calls = Calls(recipe, more={"both": both})
        statement = Statement(
            f"both return the same {words}",
            "equal",
            (name,),
            lambda of: of.call("both"),
            "latents" if name == "inverse" else "points",
        )
        with recipe.backend.sandbox(0, recipe.dtype):
            obj, _, context = calls.prepared
            points = getattr(calls, statement.points)
            try:
                results = [both(obj, x, context) for x in points]
            except Exception as error:
                text = one_line(error, 300)
                raise TargetError(
                    f"{self.targets}: {name} raised {text}; expected calls of one kind"
                ) from error
        if all(one is not None and two is not None for one, two in results):
            pairs = zip(points, results, strict=True)
            different = next(
                filter(None, (_largest_difference(x, *pair) for x, pair in pairs)), None
            )
            claim = certificate_of(
                calls, self.targets, f"same {words}", statement, Most(MOST_OPERATIONS, MOST_NUMBERS)
            )
            yield EquivalenceClaim(words, claim, different)


def compare_targets(target: Target, other: Target) -> EquivalentObjects:
    """Prepares two targets for comparison. Raises `TargetError` of either, and if their weights or
    events do not correspond.
    """
    one, two = recipe_of(target), recipe_of(other)
    if one.facts.event_shape != two.facts.event_shape:
        raise TargetError(
            f"{target} takes events of shape {one.facts.event_shape}, and {other} of {two.facts.event_shape}; expected the same"
        )
    if one.backend is not two.backend:
        raise TargetError(f"{target} and {other} are of two frameworks; expected one")
    with one.backend.sandbox(0, one.dtype):
        beside = one.backend.cast(two.build(), one.dtype)
        one.backend.set_mode(beside, False)
        names = one.backend.correspondence(Calls(one).prepared[0], beside)
    return EquivalentObjects(f"{target} and {other}", one, two, beside, names)


def _largest_difference(x: Any, one: Any, other: Any) -> Difference | None:
    """The point at which two results differ most, or None if that is rounding."""
    values = [np.asarray(detached(each), float).reshape(len(x), -1) for each in (one, other)]
    off = np.abs(values[0] - values[1])
    nan = np.isnan(values[0]).astype(int) + np.isnan(values[1])
    off = np.where(nan == 0, off, np.where(nan == 1, np.inf, 0.0))
    if off.max() <= NEAR * max(1.0, np.abs(np.nan_to_num(values[0])).max()):
        return None
    row, column = np.unravel_index(off.argmax(), off.shape)
    point = np.asarray(detached(x), float)[row].ravel()
    return Difference(
        tuple(point.tolist()), float(values[0][row, column]), float(values[1][row, column])
    )


def _value_of_pair(out: Any) -> Any:
    return out[0]


def _log_det_of_pair(out: Any) -> Any:
    return out[1]


def _whole_result(out: Any) -> Any:
    return out


# Calls, the results taken from them, and their descriptions.
RESULTS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("forward", "values of forward", _value_of_pair),
    ("forward", "log-dets of forward", _log_det_of_pair),
    ("inverse", "values of the inverse", _value_of_pair),
    ("inverse", "log-dets of the inverse", _log_det_of_pair),
    ("log_prob", "log-densities", _whole_result),
)
