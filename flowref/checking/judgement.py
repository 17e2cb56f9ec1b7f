"""What was judged: one outcome per point, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from flowref.checking.measurement import Measurement
from flowref.model import Array, Evidence

HELD, VIOLATED, UNDECIDED, DROPPED, TRIVIAL = "held", "violated", "undecided", "dropped", "trivial"


@dataclass(frozen=True)
class Judgement:
    """A measurement judged.

    ``outcome``, ``allowed`` and ``explained`` (the part of it that measured rounding accounts for)
    are ``(batch,)``; ``replicas``: how many randomly rounded runs decided; ``acquitted``: by a
    second oracle, for the point that violated most; ``isolated``: which points violate alone; ``excused``:
    how many by which facts.
    """

    measurement: Measurement
    outcome: Array
    allowed: Array
    explained: Array
    replicas: int = 0
    reason: str = ""
    acquitted: bool = False
    isolated: Array | None = None
    excused: Mapping[str, int] = field(default_factory=dict)

    @property
    def violated(self) -> Array:
        """Which points violate, ``(batch,)``."""
        return np.asarray(self.outcome == VIOLATED)

    @property
    def accuses(self) -> bool:
        """Whether any point violates."""
        return bool(self.violated.any())

    @property
    def margin(self) -> Array:
        """Residual over allowed; inf where nothing is allowed or the residual is not finite."""
        size = self.measurement.size
        with np.errstate(all="ignore"):
            ratio = size / self.allowed
        return np.where(np.isfinite(ratio), ratio, np.where(size == 0, 0.0, np.inf))

    def worst(self) -> int:
        """The violated point with the largest finite margin, else any violated point."""
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
        """The same numbers with other outcomes, and the reason for them if there is a new one."""
        return replace(self, outcome=outcome.astype(object), reason=reason or self.reason)
