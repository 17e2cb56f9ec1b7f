"""The derivative of the output of a call along a direction in parameter space: by autograd and by
differences.
"""

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

# Difference estimates with a larger relative error decide nothing.
SHARP = 1e-3
# The relative error of backward passes that integrate or solve anew, as adjoints and quadratures
# do; a detached branch has a larger one.
APPROXIMATE = 1e-4
# The step of the one difference whose response to rounding represents that of all.
ECHOED = 2.0**-14


@dataclass(frozen=True)
class Compared:
    """A derivative by autograd and by differences, the allowed difference, and whether the
    estimate is accurate enough to decide.
    """

    slope: float
    estimate: float
    scale: float
    allowed: float
    decides: bool

    @property
    def excess(self) -> float:
        """The difference in units of the allowed one."""
        return abs(self.slope - self.estimate) / self.allowed

    def residual(self, judged: Array, note: str = "", *, trivial: bool = False) -> Residual:
        """The residual over all points together, in the rows ``judged``."""
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
    """The derivative of a weighted sum of one output of a call, in a random direction of the
    parameters.

    ``inputs``: of the call, points first; ``read``: takes the output from the result;
    ``of_values``: it is the value of a map; ``only``: the name of the one parameter to move.
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
        """The summands with the parameters moved by ``t``, ``(n, ...)``."""
        out = self.flow.along(self.call, *self.inputs, self.seed, t, self.only)
        return np.where(self.weights != 0, self.read(out) * self.weights, 0.0)

    def total_at(self, t: float) -> float:
        """The sum with the parameters moved by ``t``."""
        return float(self.entries_at(t).sum())

    def recorded(self) -> float:
        """The derivative by autograd."""
        weights = (None, self.weights) if self.of_values else (self.weights, None)
        return self.flow.slope(self.call, *self.inputs, self.seed, *weights, self.only)

    def compared(self, approximate: float = APPROXIMATE) -> Compared:
        """Compared by autograd and by differences; ``approximate``: allowed relative error of
        autograd. Finer steps are used if kinks lie close together, as with spline knots, before a
        disagreement is reported.

        Raises `Unsupported` if autograd cannot differentiate the call.
        """
        slope, refused = attempt(self.recorded)
        if refused:
            raise Unsupported(f"it cannot be differentiated here ({refused})")
        claimed = float(np.nan_to_num(slope, posinf=0.0, neginf=0.0))
        size = float(np.abs(self.entries_at(0.0)).sum())
        scale = 1 + abs(claimed) + size
        for exponents in planned(self.flow, (EXPONENTS, FINE), (FINE,)):
            estimate, error = derivative(self.total_at, claimed, DOUBT, exponents)
            # A map with many kinks has large slopes between them, so the claimed slope sets the
            # scale too.
            decides = error < SHARP * (1 + min(abs(claimed), abs(estimate)) + size)
            allowed = DOUBT * error + approximate * scale
            if decides and abs(claimed - estimate) <= allowed:
                break
        decided = decides and np.isfinite(allowed) and np.isfinite(slope)
        return Compared(slope, estimate, scale, allowed, bool(decided))

    def echo(self, rows: int) -> Callable[[], Array]:
        """The response of the comparison to rounding: of autograd's derivative minus one
        difference, relative to the unrounded value. Raises `Unsupported` in single precision, in
        which the step is too short.
        """
        if self.flow.dtype != "float64":
            raise Unsupported("its differences are judged as they are")
        steady = self._apart()
        return lambda: np.full(rows, self._apart() - steady)

    def _apart(self) -> float:
        ahead, behind = self.total_at(ECHOED), self.total_at(-ECHOED)
        return self.recorded() - (ahead - behind) / (2 * ECHOED)
