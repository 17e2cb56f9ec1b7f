"""The diagnosis: which known slip explains the numbers of a violation, and a fresh set of points.

It says what to look for, and is no part of the verdict: a slip is named only where it gives every
wrong number to a thousandth of the error, at the recorded point and at fresh ones, with other weights
too where there are some; where nothing fits, nothing is said.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flowref import checking, loading, proving, registry
from flowref.checking import Settings, as_target
from flowref.diagnosing import densities, log_dets, normalizers, round_trips
from flowref.diagnosing.generic import PAIRS, of_pair
from flowref.diagnosing.scenes import Scene, scenes_of, scenes_of_part
from flowref.model import Law, Status, Target, Verdict
from flowref.model.budget import Beyond, limited_budget

__all__ = ["check", "diagnosis"]


def check(target: Target | Any, law: Law | str, settings: Settings | None = None) -> Verdict:
    """The verdict on one pair, with its proof, or the slip that explains a violation. ``target`` may also be a
    spec or a live object. Raises `TargetError` or `SpecError` where the target cannot be loaded at
    all; whatever the target does inside a law becomes part of the verdict.
    """
    chosen = registry.find_law(law) if isinstance(law, str) else law
    target = as_target(target)
    with loading.single_threaded():
        verdict = checking.pair_verdict(target, chosen, settings)
        if verdict.status is Status.HOLDS:
            with contextlib.suppress(Exception):  # a verdict does not depend on its proof
                return replace(verdict, proof=proving.clause(target, chosen))
            return verdict
        if verdict.status is not Status.VIOLATED:
            return verdict
        told = diagnosis(target, chosen, verdict, settings or Settings())
        verdict = replace(verdict, diagnosis=told)
        with contextlib.suppress(Exception):
            return replace(verdict, repairs=proving.repairs_of(target, chosen))
    return verdict


def diagnosis(target: Target, law: Law, verdict: Verdict, settings: Settings) -> str:
    """The sentence; empty where no slip explains the violation, or where that cannot be told."""
    case = verdict.counterexample
    if case is None or verdict.evidence is None:
        return ""
    if not any(law.base in known for known in (KINDS, PAIRS, normalizers.VIEWS)):
        return ""
    with contextlib.suppress(Beyond), limited_budget(settings.means), np.errstate(all="ignore"):
        try:
            return _diagnosis_text(law, list(scenes_of(target, law, case))) or _of_part(
                target, law, verdict
            )
        except Exception:  # foreign code, in circumstances that no law needs
            return ""
    return ""


def _of_part(target: Target, law: Law, verdict: Verdict) -> str:
    """The sentence about the part of a composite in which the violation begins."""
    if not verdict.part or verdict.counterexample is None:
        return ""
    found = _diagnosis_text(
        law, list(scenes_of_part(target, law, verdict.counterexample, verdict.part))
    )
    return f"in {verdict.part} {found}" if found else ""


def _diagnosis_text(law: Law, looked: Sequence[Scene]) -> str:
    found = _diagnose_law(law, looked) if looked else ""
    return f"{found} ({_tried(law, looked)} tried)" if found else ""


def _tried(law: Law, looked: Sequence[Scene]) -> str:
    """How much a slip has explained."""
    points = f"{sum(len(one.batch.x) for one in looked)} points"
    if law.base in normalizers.VIEWS:
        points = "batches of several sizes"
    return points if len(looked) == 1 else f"{points}, {len(looked)} sets of weights"


def _diagnose_law(law: Law, looked: Sequence[Scene]) -> str:
    if law.base in normalizers.VIEWS:
        return normalizers.diagnose_normalizer(law, looked)
    if law.base in PAIRS:
        return of_pair(law, looked)
    kind = KINDS[law.base]
    if kind == "log-det":
        return log_dets.diagnose_log_det(looked, "forward")
    if kind == "inverse log-det":
        return log_dets.diagnose_log_det(looked, "inverse")
    if kind == "both log-dets":
        return _either(
            lambda: log_dets.diagnose_log_det(looked, "forward"),
            lambda: log_dets.diagnose_log_det(looked, "inverse"),
        )
    if kind == "density":
        return densities.diagnose_density(looked)
    if kind == "mass":
        return _either(
            lambda: densities.diagnose_density(looked), lambda: densities.mass(law, looked)
        )
    return round_trips.diagnose_round_trip(looked, law.base)


def _either(*tries: Callable[[], str]) -> str:
    """The first that says something; one that cannot be tried says nothing."""
    for one in tries:
        try:
            if found := one():
                return found
        except Exception:  # no map beside the density, or no integral
            continue
    return ""


# What a law is about, where a slip may explain its violation.
KINDS = {
    "map/log-det": "log-det",
    "map/log-det[inverse]": "inverse log-det",
    "map/log-det[antisymmetry]": "both log-dets",
    "density/change-of-variables": "density",
    "sampling/follows-density[ratios]": "density",
    "density/mass[importance]": "density",
    "density/mass": "mass",
    "map/inverse": "round trip",
    "map/inverse[latents]": "round trip",
}
