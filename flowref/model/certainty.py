"""How certain the numbers are that a subject returns: exact, estimates or bounds, and to which accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["exact", "estimate", "bound"]


@dataclass(frozen=True)
class Certainty:
    """What is promised of values, log-dets and log-densities.

    ``estimate``: they are random or truncated, or those of ``coupled`` rows, which meet by definition: in the
    statistics of a batch, or as members of a set; ``drawn``: of these the log-dets alone are, as random states show;
    ``held``: one random state returns one number, and no rows meet; ``unbiased``: the mean of log-dets is the
    log-det. ``bound``: the log-density is a lower bound, and of which kind ("" where it is none). ``inverse``,
    ``log_det``: what the way back and the log-det may be off where they are computed step by step, 0 elsewhere.
    """

    coupled: bool
    estimate: bool
    drawn: bool
    held: bool
    unbiased: bool
    bound: str
    inverse: float
    log_det: float

    @classmethod
    def of(cls, promises: Mapping[str, Any]) -> Certainty:
        """As promises state it."""
        coupled = bool(promises.get("batch-statistics") or promises.get("set"))
        return cls(
            coupled=coupled,
            estimate=bool(promises.get("estimator") or promises.get("set")),
            drawn=bool(promises.get("estimator")) and bool(promises.get("drawn")),
            held=bool(promises.get("held")) and not coupled,
            unbiased=bool(promises.get("unbiased-log-det")),
            bound=str(promises.get("lower-bound") or ""),
            inverse=float(promises.get("inverse-tolerance") or 0.0),
            log_det=float(promises.get("log-det-tolerance") or 0.0),
        )

    @property
    def values(self) -> Kind:
        """What the value of a call is."""
        return "estimate" if self.estimate and not self.drawn else "exact"

    @property
    def log_dets(self) -> Kind:
        """What a log-det is."""
        return "estimate" if self.estimate else "exact"

    @property
    def densities(self) -> Kind:
        """What a log-density is."""
        return "bound" if self.bound else self.log_dets

    @property
    def repeats(self) -> bool:
        """Whether the same call of the same batch in one random state returns the same."""
        return self.held or not self.estimate
