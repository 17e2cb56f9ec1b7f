"""Causes before symptoms: which violations of a target an earlier one explains.

Verdicts are facts and stay as they are; this is how a report lists and counts them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flowref.model import Status, Verdict, base_of, named_by
from flowref.reporting.severity import KINDS, kind

FAMILIES = (
    "batch-norm/*", "bijection/*", "composition/*", "coupling/*", "density/*", "multi-scale/*", "preprocessing/*",
    "sampling/*", "squeeze/*",
)  # fmt: skip
DERIVATIVES = ("conduct/*gradient*", "conduct/score", "conduct/double-backward")
BATCHES = ("conduct/batch-one", "conduct/nan-containment", "conduct/vmap-compatible")
# Laws by which two calls of one object, or of two that are equal, agree.
REPEATS = (
    "conduct/cache-coherent", "conduct/compile-equal", "conduct/float32-agrees", "conduct/functional-call",
    "conduct/strides-agree", "mode/batch-content", "mode/grad-modes-agree", "mode/rows-independent", "mode/train-inverse",
    "mode/train-log-det", "state/copies-equal", "state/copies-independent", "state/reload-equals",
    "state/resume-equals-continue",
)  # fmt: skip


# How much larger than its cause a symptom may be, and what is allowed at most where rounding alone is.
BEYOND, OF_ROUNDING = 1e6, 1e-3
COUPLED = "because rows depend on each other"
OF_ROWS = (*FAMILIES, *BATCHES, *DERIVATIVES, "conduct/strides-agree")


@dataclass(frozen=True)
class Cause:
    """A law whose violation explains those of others. ``because``: the clause that says so;
    ``symptoms``: globs of the laws that it explains.
    """

    law: str
    because: str
    symptoms: tuple[str, ...]

    def explains(self, law: str) -> bool:
        """Whether the violation of another law may be a symptom."""
        law = base_of(law)
        return law != self.law and any(named_by(glob, law) for glob in self.symptoms)


# The deepest first: what is random, then what couples rows or writes to the process, then values,
# then their derivatives.
CAUSES = (
    Cause(
        "conduct/deterministic",
        "because its results are random",
        (*FAMILIES, *REPEATS, *BATCHES, *DERIVATIVES, "mode/eval-is-pure"),
    ),
    Cause("mode/rows-independent", COUPLED, (*OF_ROWS, "mode/batch-content")),
    Cause("mode/batch-content", COUPLED, OF_ROWS),
    Cause(
        "conduct/no-global-settings",
        "because a call changes global settings",
        ("conduct/dtype-follow", "mode/grad-modes-agree", *DERIVATIVES),
    ),
    Cause(
        "conduct/input-not-mutated",
        "because a call writes to its input",
        ("conduct/same-tensor",),
    ),
    Cause(
        "mode/eval-is-pure",
        "because calls in eval mode change its state",
        ("conduct/cache-coherent", "state/reload-equals", "state/resume-equals-continue"),
    ),
    Cause(
        "batch-norm/matches-reference",
        "because its output is not that of the formula",
        (
            "batch-norm/backward-closed-form", "batch-norm/deviation", "batch-norm/gradient-along-output",
            "batch-norm/measured-gradient", "batch-norm/moments", "batch-norm/two-values", "batch-norm/weight-before-*",
            "batch-norm/without-affine",
        ),
    ),
    Cause(
        "bijection/inverse-roundtrip",
        "because its inverse does not undo forward",
        (
            "bijection/forward-roundtrip", "bijection/jacobian-inverse-product", "bijection/log-det-antisymmetry",
            "composition/inverse-reverses", "coupling/any-conditioner", "density/beside-samples",
            "density/samples-consistent", "multi-scale/recombines", "sampling/pit-uniform", "sampling/sample-then-inverse",
        ),
    ),
    Cause(
        "bijection/log-det",
        "because its log-det is wrong",
        (
            "bijection/constant-jacobian", "bijection/honest-zero", "bijection/injective", "bijection/log-det-antisymmetry",
            "bijection/log-det-by-differences", "coupling/closed-form", "coupling/log-det-sum", "density/affine-oracle",
            "density/integrates-to-one", "density/samples-consistent", "preprocessing/log*", "sampling/detailed-balance",
            "sampling/overlap",
        ),
    ),
    Cause(
        "bijection/inverse-log-det",
        "because the log-det of its inverse is wrong",
        ("bijection/log-det-antisymmetry", "bijection/log-det-by-differences"),
    ),
)  # fmt: skip

# Where the log-dets of the two directions cancel, one that is wrong makes the other wrong.
OPPOSITE = "bijection/log-det-antisymmetry"
ONE_LOG_DET = Cause(
    "bijection/log-det",
    "because it is minus the log-det of forward",
    ("bijection/inverse-log-det",),
)


def explained(verdicts: Iterable[Verdict]) -> dict[str, Cause]:
    """Law -> the deepest cause of its violation, for those violations of one target that another
    one explains.
    """
    verdicts = list(verdicts)
    violated = {verdict.law: verdict for verdict in verdicts if verdict.status is Status.VIOLATED}
    holding = {verdict.law for verdict in verdicts if verdict.status is Status.HOLDS}
    found: dict[str, Cause] = {}
    for cause in CAUSES:
        if cause.law in violated:
            for law, verdict in violated.items():
                if cause.explains(law) and not _outgrows(verdict, violated[cause.law]):
                    found.setdefault(law, cause)
    for law, verdict in violated.items():
        base = violated.get(base_of(law))
        if base not in (None, verdict) and not _outgrows(verdict, base):
            found[law] = Cause(base.law, "because it fails otherwise, too", (law,))
    if ONE_LOG_DET.law in violated and OPPOSITE in holding:
        found |= {
            law: ONE_LOG_DET for law in violated if law in ONE_LOG_DET.symptoms and law not in found
        }
    return found


def _outgrows(symptom: Verdict, cause: Verdict) -> bool:
    """Whether a violation is too large to come of another: it is not minor and the other is, or both
    are sizes, held to rounding, and it is a million times larger.
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
    """The laws whose violations explain that of a law, the deepest last."""
    found = []
    while law in causes:
        law = causes[law].law
        found.append(law)
    return found


def deepest(verdict: Verdict, causes: Mapping[str, Cause]) -> str:
    """The law that explains a verdict and is not explained itself; empty if none explains it."""
    return next(reversed(chain(verdict.law, causes)), "")


def by_size(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Verdicts with the gravest first: those that are not minor, by nats per point, then by what they
    make wrong, then by margin, where those without numbers, or with nan, come first.
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
    """Verdicts in groups, in their order."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.target, []).append(verdict)
    return groups
