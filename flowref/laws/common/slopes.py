"""The derivative of what a call returns along a direction in the parameters: by autograd, and by differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flowref.laws.common.amounts import planned
from flowref.laws.common.differences import EXPONENTS, FINE, derivative
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.quotients import DOUBT
from flowref.model import Array, Mapped, Residual, Unsupported
from flowref.model.abilities import Parametric

# Estimates that are not this sharp decide nothing.
SHARP = 1e-3
# What a backward pass may leave out that integrates or solves anew, as adjoints and quadratures do;
# a branch that is detached leaves out more.
APPROXIMATE = 1e-4
# The step of the single difference whose answer to rounding stands for that of all of them.
ECHOED = 2.0**-14


@dataclass(frozen=True)
class Compared:
    """A derivative by autograd and by differences, how far these may be apart, and whether they
    decide.
    """

    slope: float
    estimate: float
    scale: float
    allowed: float
    decides: bool

    @property
    def excess(self) -> float:
        """How far they are apart, in units of how far they may be."""
        return abs(self.slope - self.estimate) / self.allowed

    def residual(self, judged: Array, note: str = "", *, trivial: bool = False) -> Residual:
        """The one less the other, of all points together, where ``judged``."""
        rows = len(judged)
        return Residual(
            np.full(rows, self.slope - self.estimate),
            scale=self.scale,
            allowed=self.allowed,
            decidable=judged & self.decides,
            trivial=np.full(rows, trivial and not (self.slope or self.estimate)),
            observed={
                "autograd": np.full(rows, self.slope),
                "differences": np.full(rows, self.estimate),
            },
            note=note,
        )


@dataclass(frozen=True)
class Slope:
    """The derivative of a weighted sum of one of the outputs of a call, in the direction that a seed gives.

    ``inputs``: of the call, from the points on. ``read``: that output, of what the call returns; ``of_values``:
    whether it is the values of a map. ``only``: the one parameter that is moved.
    """

    flow: Parametric
    call: str
    inputs: tuple[Any, ...]
    seed: int
    read: Callable[[Mapped], Array]
    weights: Array
    of_values: bool = False
    only: str = ""

    def entries_at(self, t: float) -> Array:
        """What is summed, with the parameters moved."""
        out = self.flow.along(self.call, *self.inputs, self.seed, t, self.only)
        return np.where(self.weights != 0, self.read(out) * self.weights, 0.0)

    def total_at(self, t: float) -> float:
        """The sum with the parameters moved."""
        return float(self.entries_at(t).sum())

    def recorded(self) -> float:
        """By autograd."""
        weights = (None, self.weights) if self.of_values else (self.weights, None)
        return self.flow.slope(self.call, *self.inputs, self.seed, *weights, self.only)

    def compared(self, approximate: float = APPROXIMATE) -> Compared:
        """By autograd and by differences, ``approximate``: what the one may be off, relatively. Where kinks
        lie close together, as the knots of splines do, and before they disagree, finer differences are taken.

        Raises: `Unsupported` where it cannot be differentiated.
        """
        slope, refused = attempt(self.recorded)
        if refused:
            raise Unsupported(f"it cannot be differentiated here ({refused})")
        told = float(np.nan_to_num(slope, posinf=0.0, neginf=0.0))
        size = float(np.abs(self.entries_at(0.0)).sum())
        scale = 1 + abs(told) + size
        for exponents in planned(self.flow, (EXPONENTS, FINE), (FINE,)):
            estimate, error = derivative(self.total_at, told, DOUBT, exponents)
            # Beside what is claimed: a map of so many kinks that none is passed alone has large slopes.
            decides = error < SHARP * (1 + min(abs(told), abs(estimate)) + size)
            allowed = DOUBT * error + approximate * scale
            if decides and abs(told - estimate) <= allowed:
                break
        told_apart = decides and np.isfinite(allowed) and np.isfinite(slope)
        return Compared(slope, estimate, scale, allowed, bool(told_apart))

    def echo(self, rows: int) -> Callable[[], Array]:
        """How the comparison answers to rounding: as the derivative does, and one difference beside it, less
        what these are without. Raises `Unsupported` in single precision, where a step this short tells nothing.
        """
        if self.flow.dtype != "float64":
            raise Unsupported("its differences are judged as they are")
        steady = self._apart()
        return lambda: np.full(rows, self._apart() - steady)

    def _apart(self) -> float:
        """Autograd's derivative less one difference."""
        ahead, behind = self.total_at(ECHOED), self.total_at(-ECHOED)
        return self.recorded() - (ahead - behind) / (2 * ECHOED)
