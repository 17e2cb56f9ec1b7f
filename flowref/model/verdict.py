"""Evidence, counterexamples and verdicts: plain values, no live objects."""

from __future__ import annotations

import enum
import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import Any

from flowref.model.figure import Figure
from flowref.model.target import Condition

# The proof of a law that holds unconditionally.
PROVED_WHOLE = "for all inputs and all weights"


class Status(enum.StrEnum):
    """The outcome of one (target, law) pair."""

    HOLDS = "HOLDS"
    VIOLATED = "VIOLATED"
    ADVICE = "ADVICE"  # a recommendation that is not followed; never affects the exit code
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_APPLICABLE = "NOT_APPLICABLE"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"
    CRASHED = "CRASHED"
    NOT_RUN = "NOT_RUN"


@dataclass(frozen=True)
class Evidence:
    """Numbers behind a verdict: margin = residual / allowed; above 1, or NaN, violates.

    ``explained``: the part of ``allowed`` due to measured rounding; ``unit``: the unit roundoff of the
    test; ``replicas``: number of randomly rounded runs (0 if the screen, or an exact law, decided).
    """

    residual: float
    allowed: float
    scale: float = 1.0
    unit: float = 2.0**-53
    explained: float = 0.0
    replicas: int = 0

    @property
    def margin(self) -> float:
        """Residual over allowed."""
        if self.residual == 0:
            return 0.0
        return self.residual / self.allowed if self.allowed else float("inf")


@dataclass(frozen=True)
class Size:
    """The size of an error of a log-det or log-density, in nats.

    ``nats``: the mean of |error| over the ``points`` measured, ``largest`` the largest one; ``dimensions``:
    entries of an event.
    """

    nats: float
    largest: float
    points: int
    dimensions: int

    @property
    def bits_per_dim(self) -> float:
        """The mean error in bits per dimension.

        >>> Size(math.log(2), 1.0, 48, 1).bits_per_dim
        1.0
        """
        return self.nats / (self.dimensions * math.log(2))


@dataclass(frozen=True)
class Counterexample:
    """All that is needed to measure a violation again without a search. Arrays are nested lists of floats."""

    x: Any
    context: Any
    seed: int
    condition: Condition
    observed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Counts:
    """What was measured.

    ``batches``: their number; ``held``, ``undecided``: points that hold, and that rounding or a missing fact
        leaves open;
    ``dropped``: points exempted by the law, or that raise outside a declared domain;
    ``trivial``: points at which the law holds for any subject;
    ``scales``: the parameter perturbations visited.
    """

    batches: int = 0
    held: int = 0
    undecided: int = 0
    dropped: int = 0
    trivial: int = 0
    scales: tuple[float, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The outcome of one pair.

    ``counts``: the points measured; ``part``: the part of a composite that violates the law, empty for the
        whole; ``force``: that of the law (`Law.force`);
    ``blocked`` and ``remedy``: for a law that was not applied, as in `NotJudged`;
    ``diagnosis``: the known bug that explains the numbers of a violation;
    ``figure``: numbers for a plot of a violation; ``size``: the error of a violation of volume or density;
    ``minor``: the violation is below single-precision rounding at every point measured;
    ``proof``: scope of a proof that the law holds (`PROVED_WHOLE`, or a clause with conditions);
    ``repairs``: edits of the code with which the law is proved, smallest first.
    """

    target: str
    law: str
    status: Status
    reason: str = ""
    counts: Counts = Counts()
    evidence: Evidence | None = None
    counterexample: Counterexample | None = None
    part: str = ""
    seconds: float = 0.0
    law_version: int = 1
    force: str = "claim"
    blocked: bool = False
    remedy: str = ""
    diagnosis: str = ""
    figure: Figure | None = None
    size: Size | None = None
    minor: bool = False
    proof: str = ""
    repairs: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """A short name for a violation: four letters of a hash of target and law."""
        return pair_id(self.target, self.law)

    def __str__(self) -> str:
        lines = [f"{self.status}  {self.law}  in {self.target}"]
        if self.evidence is not None and self.evidence.allowed:
            lines.append(
                f"off by {self.evidence.residual:.4g}, allowed {self.evidence.allowed:.4g}"
            )
        elif self.counts.held:
            lines.append(f"at {self.counts.held} points")
        remarks = [
            self.reason,
            self.remedy,
            f"diagnosis: {self.diagnosis}" if self.diagnosis else "",
        ]
        remarks += [f"proved {self.proof}"] if self.proof else []
        remarks += [f"repair: {one}" for one in self.repairs]
        return "\n    ".join(_printable(line) for line in (*lines, *remarks) if line)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def without_time(self) -> Verdict:
        """The verdict without its duration: equal in any two runs."""
        return replace(self, seconds=0.0)


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def pair_id(target: str, law: str) -> str:
    """Four characters (base 32, no look-alikes) naming a pair.

    >>> len(pair_id("zuko:NSF", "map/log-det"))
    4
    """
    alphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
    number = int.from_bytes(hashlib.sha256(f"{target}\0{law}".encode()).digest()[:8], "big")
    return "".join(alphabet[(number >> (5 * index)) % 32] for index in range(4))
