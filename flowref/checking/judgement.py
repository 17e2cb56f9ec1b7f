"""A judgement: one outcome per point, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from flowref.checking.measurement import Measurement
from flowref.model import Array, Evidence

HELD, VIOLATED, UNDECIDED, DROPPED, TRIVIAL = "held", "violated", "undecided", "dropped", "trivial"


@dataclass(frozen=True)
class Judgement:
    """A measurement judged, with arrays of shape ``(batch,)``.

    ``outcome``; ``allowed``; ``explained``: the part of it due to measured rounding; ``replicas``:
    the randomly rounded runs that decided; ``acquitted``: whether a second oracle dismissed the
    worst point; ``isolated``: points that violate while their neighborhood holds; ``exempt``:
    number of points exempt by each fact.
    """

    measurement: Measurement
    outcome: Array
    allowed: Array
    explained: Array
    replicas: int = 0
    reason: str = ""
    acquitted: bool = False
    isolated: Array | None = None
    exempt: Mapping[str, int] = field(default_factory=dict)

    @property
    def violated(self) -> Array:
        """Mask of the violating points, ``(batch,)``."""
        return np.asarray(self.outcome == VIOLATED)

    @property
    def violates(self) -> bool:
        """Whether any point violates."""
        return bool(self.violated.any())

    @property
    def margin(self) -> Array:
        """Residual over allowed, ``(batch,)``; inf if nothing is allowed or the residual is not
        finite.
        """
        size = self.measurement.size
        with np.errstate(all="ignore"):
            ratio = size / self.allowed
        return np.where(np.isfinite(ratio), ratio, np.where(size == 0, 0.0, np.inf))

    def worst(self) -> int:
        """Index of the violating point with the largest finite margin, else of any violating point."""
        margin = np.where(self.violated, self.margin, -1.0)
        finite = np.where(np.isfinite(margin), margin, -1.0)
        return int(finite.argmax() if (finite > 0).any() else margin.argmax())

    def evidence(self, row: int) -> Evidence:
        """The numbers of one point."""
        return Evidence(
            residual=float(self.measurement.size[row]),
            allowed=float(self.allowed[row]),
            scale=float(self.measurement.scale[row]),
            unit=self.measurement.precision.unit,
            explained=float(self.explained[row]),
            replicas=self.replicas,
        )

    def with_outcome(self, outcome: Array, reason: str = "") -> Judgement:
        """The same numbers with other outcomes; an empty reason keeps the old one."""
        return replace(self, outcome=outcome.astype(object), reason=reason or self.reason)
