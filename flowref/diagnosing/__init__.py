"""Diagnosis: the known bug that explains the numbers of a violation.

It is a hint and no part of the verdict. A bug is named only if it predicts every wrong number to a
thousandth of the error, at the recorded point, at fresh points and with other weights if there are
some. Otherwise the diagnosis is empty.
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
from flowref.model.budget import BudgetExceeded, limited_budget

__all__ = ["check", "diagnosis"]


def check(target: Target | Any, law: Law | str, settings: Settings | None = None) -> Verdict:
    """Return the verdict on one pair, with its proof if the law holds, or with diagnosis and
    repairs if it is violated. ``target`` may also be a spec or a live object. Errors of the target
    inside a law become part of the verdict.

    Raises: `TargetError` or `SpecError` if the target cannot be loaded at all.
    """
    chosen = registry.find_law(law) if isinstance(law, str) else law
    target, settings = as_target(target), settings or Settings()
    with loading.single_threaded(), loading.fitting_to(settings.data):
        verdict = checking.pair_verdict(target, chosen, settings)
        if verdict.status is Status.HOLDS:
            with contextlib.suppress(Exception):  # a verdict does not depend on its proof
                return replace(verdict, proof=proving.clause(target, chosen))
            return verdict
        if verdict.status is not Status.VIOLATED:
            return verdict
        verdict = replace(verdict, diagnosis=diagnosis(target, chosen, verdict, settings))
        with contextlib.suppress(Exception):
            return replace(verdict, repairs=proving.repairs_of(target, chosen))
    return verdict


def diagnosis(target: Target, law: Law, verdict: Verdict, settings: Settings) -> str:
    """Return the diagnosis as a sentence; empty if no known bug explains the violation."""
    case = verdict.counterexample
    if case is None or verdict.evidence is None:
        return ""
    if not any(law.base in known for known in (KINDS, PAIRS, normalizers.VIEWS)):
        return ""
    with (
        contextlib.suppress(BudgetExceeded),
        limited_budget(settings.means),
        np.errstate(all="ignore"),
    ):
        try:
            return _diagnosis_text(law, list(scenes_of(target, law, case))) or _of_part(
                target, law, verdict
            )
        except Exception:  # user code may raise anything here
            return ""
    return ""


def _of_part(target: Target, law: Law, verdict: Verdict) -> str:
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
    """The first nonempty diagnosis; one that raises is skipped."""
    for one in tries:
        try:
            if found := one():
                return found
        except Exception:  # there is no map or no integral
            continue
    return ""


# Law -> the number whose known bugs may explain a violation.
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
