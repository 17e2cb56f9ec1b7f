"""Causes and symptoms: which violations of a target another one explains. Verdicts do not change;
reports list and count them accordingly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flowref.model import Status, Verdict, base_of, named_by
from flowref.reporting.severity import KINDS, kind

# Laws that depend on values, on derivatives, and on single rows.
FAMILIES = (
    "batch-norm/*", "composition/algebra", "composition/parts", "coupling/*", "density/*", "dequantize/*", "map/*",
    "multi-scale/*", "sampling/*", "squeeze/*",
)  # fmt: skip
DERIVATIVES = (
    "gradient/context[]", "gradient/finite", "gradient/input", "gradient/of-samples[]", "gradient/parameters",
    "same/manner[traced-gradient]",
)  # fmt: skip
BATCHES = ("same/manner[vmap]", "shape/any-batch[one-row]")


# The largest ratio of a symptom to its cause, and the largest allowance of a law judged by rounding.
BEYOND, OF_ROUNDING = 1e6, 1e-3
COUPLED = "because rows depend on each other"
OF_ROWS = (
    *FAMILIES, *BATCHES, *DERIVATIVES, "same/manner[strides]", "same/rows", "same/rows-in-train[conditioner]",
)  # fmt: skip


@dataclass(frozen=True)
class Cause:
    """A law whose violation explains others. ``because``: the clause for reports; ``symptoms``:
    globs of the explained laws; ``in_nats``: only errors of a log-det or density are explained.
    """

    law: str
    because: str
    symptoms: tuple[str, ...]
    in_nats: bool = False

    def explains(self, verdict: Verdict) -> bool:
        """Whether the violation of another law may be a symptom."""
        law = base_of(verdict.law)
        if law == self.law or (self.in_nats and verdict.size is None):
            return False
        return any(named_by(glob, law) for glob in self.symptoms)


# The deepest first: randomness, coupled rows, side effects, values, derivatives.
CAUSES = (
    Cause(
        "same/history[repeat]",
        "because its results are random",
        (*FAMILIES, *BATCHES, *DERIVATIVES, "dtype/accurate", "effects/state[eval]", "same/*"),
    ),
    Cause("same/rows", COUPLED, OF_ROWS),
    Cause("same/rows[large-batch]", COUPLED, OF_ROWS),
    Cause(
        "effects/process[settings]",
        "because a call changes global settings",
        ("dtype/follows", "same/manner[grad-modes]", *DERIVATIVES),
    ),
    Cause(
        "effects/process[input]",
        "because a call writes to its input",
        ("same/history[same-tensor]",),
    ),
    Cause(
        "effects/state[eval]",
        "because calls in eval mode change its state",
        ("same/history[optimizer-step]", "same/saved[reload]", "same/saved[resume]"),
    ),
    Cause(
        "state/registered",
        "because its parameters are not registered, and are not moved",
        ("dtype/follows[device]", "dtype/follows[device-after-use]", "dtype/follows[unmentioned-device]"),
    ),
    Cause(
        "batch-norm/train-map[reference]",
        "because its output is not that of the formula",
        (
            "batch-norm/gradient[]", "batch-norm/gradient[closed-form]", "batch-norm/gradient[weight-*]",
            "batch-norm/train-map[deviation]",
        ),
    ),
    Cause(
        "map/inverse",
        "because its inverse does not undo forward",
        (
            "composition/algebra[inverse]", "density/change-of-variables[samples]", "map/inverse-jacobian[]",
            "map/inverse[conditioner]", "map/inverse[latents]", "map/log-det[antisymmetry]", "multi-scale/split[inverse]",
            "sampling/base-through-inverse", "sampling/follows-density[pit]", "sampling/follows-density[ratios]",
        ),
    ),
    Cause(
        "map/log-det",
        "because its log-det is wrong",
        (
            "coupling/closed-form[]", "density/mass[]", "map/log-det[antisymmetry]", "map/log-det[differences]",
            "map/one-to-one[]", "map/promised-jacobian[constant]", "map/singular-jacobian",
            "sampling/follows-density[]", "sampling/follows-density[balance]", "sampling/follows-density[ratios]",
        ),
    ),
    Cause("map/log-det", "because its log-det is wrong", ("composition/parts",), in_nats=True),
    Cause(
        "map/log-det[inverse]",
        "because the log-det of its inverse is wrong",
        ("map/log-det[antisymmetry]", "map/log-det[differences]"),
    ),
)  # fmt: skip

# If the log-dets of the two directions cancel, one error makes both wrong.
OPPOSITE = "map/log-det[antisymmetry]"
ONE_LOG_DET = Cause(
    "map/log-det",
    "because it is minus the log-det of forward",
    ("map/log-det[inverse]",),
)


def explained(verdicts: Iterable[Verdict]) -> dict[str, Cause]:
    """Return law -> deepest cause, for the violations of one target that another one explains."""
    verdicts = list(verdicts)
    violated = {verdict.law: verdict for verdict in verdicts if verdict.status is Status.VIOLATED}
    holding = {verdict.law for verdict in verdicts if verdict.status is Status.HOLDS}
    found: dict[str, Cause] = {}
    for depth, cause in enumerate(CAUSES):
        deeper = {one.law for one in CAUSES[:depth]}
        if cause.law in violated:
            for law, verdict in violated.items():
                explains = base_of(law) not in deeper and cause.explains(verdict)
                if explains and not _outgrows(verdict, violated[cause.law]):
                    found.setdefault(law, cause)
    heads: dict[str, Verdict] = {}
    for verdict in sorted(by_size(violated.values()), key=lambda one: one.law != base_of(one.law)):
        law, head = verdict.law, heads.setdefault(base_of(verdict.law), verdict)
        if head is not verdict and not _outgrows(verdict, head):
            found[law] = Cause(head.law, "because it fails otherwise, too", (law,))
    if ONE_LOG_DET.law in violated and OPPOSITE in holding:
        found |= {
            law: ONE_LOG_DET for law in violated if law in ONE_LOG_DET.symptoms and law not in found
        }
    return found


def _outgrows(symptom: Verdict, cause: Verdict) -> bool:
    """Whether a violation is too large to be a symptom: it is not minor and the cause is, or both
    are measured against rounding and it is a million times larger.
    """
    if cause.minor and not symptom.minor:
        return True
    if symptom.evidence is None or cause.evidence is None:
        return False
    sizes = []
    for evidence in (symptom.evidence, cause.evidence):
        if evidence.allowed > OF_ROUNDING or not math.isfinite(evidence.residual):
            return False
        sizes.append(evidence.residual / max(evidence.scale, 1.0))
    return sizes[0] > BEYOND * sizes[1] > 0


def chain(law: str, causes: Mapping[str, Cause]) -> list[str]:
    """Return the laws whose violations explain that of a law, the deepest last."""
    found = []
    while law in causes:
        law = causes[law].law
        found.append(law)
    return found


def deepest(verdict: Verdict, causes: Mapping[str, Cause]) -> str:
    """Return the unexplained law that explains a verdict; empty if there is none."""
    return next(reversed(chain(verdict.law, causes)), "")


def by_size(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Sort verdicts, the gravest first: minor ones last, then by nats per point, by what they make
    wrong, and by margin; those without numbers or with nan precede others of their kind.
    """
    return sorted(verdicts, key=_smallness)


def _smallness(verdict: Verdict) -> tuple[bool, float, int, float, float]:
    nats = 0.0 if verdict.size is None else verdict.size.nats
    gravity = verdict.minor, -nats, KINDS.index(kind(verdict.law))
    evidence = verdict.evidence
    if evidence is None or math.isnan(evidence.margin) or math.isnan(evidence.residual):
        return *gravity, -math.inf, -math.inf
    return *gravity, -evidence.margin, -evidence.residual


def by_target(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    """Group verdicts by target, in their order."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.target, []).append(verdict)
    return groups
