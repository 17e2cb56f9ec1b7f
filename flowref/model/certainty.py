"""Whether the numbers that a subject returns are exact, estimates or bounds, and their accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["exact", "estimate", "bound"]


@dataclass(frozen=True)
class Certainty:
    """The promised certainty of values, log-dets and log-densities.

    ``estimate``: random or truncated, or computed from ``coupled`` rows, by batch statistics or as members
        of a set;
    ``random_log_det``: only the log-dets vary between random states;
    ``repeatable``: one random state returns one number, and rows are independent;
    ``unbiased``: the mean of log-dets is the log-det;
    ``bound``: kind of lower bound of the log-density ("" if none);
    ``inverse``, ``log_det``: tolerances of an iterative inverse and an integrated log-det, else 0.
    """

    coupled: bool
    estimate: bool
    random_log_det: bool
    repeatable: bool
    unbiased: bool
    bound: str
    inverse: float
    log_det: float

    @classmethod
    def of(cls, promises: Mapping[str, Any]) -> Certainty:
        """Read from promises."""
        coupled = bool(promises.get("batch-statistics") or promises.get("set"))
        return cls(
            coupled=coupled,
            estimate=bool(promises.get("estimator") or promises.get("set")),
            random_log_det=bool(promises.get("estimator")) and bool(promises.get("drawn")),
            repeatable=bool(promises.get("held")) and not coupled,
            unbiased=bool(promises.get("unbiased-log-det")),
            bound=str(promises.get("lower-bound") or ""),
            inverse=float(promises.get("inverse-tolerance") or 0.0),
            log_det=float(promises.get("log-det-tolerance") or 0.0),
        )

    @property
    def values(self) -> Kind:
        """The kind of returned values."""
        return "estimate" if self.estimate and not self.random_log_det else "exact"

    @property
    def log_dets(self) -> Kind:
        """The kind of returned log-dets."""
        return "estimate" if self.estimate else "exact"

    @property
    def densities(self) -> Kind:
        """The kind of returned log-densities."""
        return "bound" if self.bound else self.log_dets

    @property
    def repeats(self) -> bool:
        """Whether repeating a call on a batch in one random state returns the same numbers."""
        return self.repeatable or not self.estimate
