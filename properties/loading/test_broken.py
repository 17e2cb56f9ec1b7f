"""Broken abilities: what raises whatever it is given is told once, and the rest is judged."""

from __future__ import annotations

import pytest

import flowref
from flowref.model import Status

FLOW = "flowref.zoo.specimens.misspelt:scaled_normal"
ABILITIES = {"inverse": "inverse", "log-prob": "log_prob", "sample": "sample"}
LAWS = "bijection/*,conduct/abilities-work,conduct/deterministic,state/reload-equals"


@pytest.mark.parametrize("ability", ABILITIES)
def test_a_broken_ability_is_told_once(ability: str) -> None:
    """One law names what the ability raises; no other errs, or is undecided, for it."""
    report = flowref.audit(f"{FLOW}?defect={ability}", laws=LAWS, profile="quick", jobs=0)
    accusing = {v.law: v for v in report.verdicts if v.status not in QUIET}
    assert set(accusing) == {"conduct/abilities-work"}
    reason = accusing["conduct/abilities-work"].reason
    assert reason.startswith(f"{ABILITIES[ability]} raises AttributeError")


def test_what_needs_a_broken_ability_says_so() -> None:
    """A law that needs it waits, for the reason that the ability gives."""
    verdict = flowref.check(f"{FLOW}?defect=inverse", "bijection/inverse-roundtrip")
    assert verdict.status is Status.NOT_APPLICABLE
    assert verdict.waits and "its inverse raises AttributeError" in verdict.reason


def test_the_rest_is_judged_without_it() -> None:
    """A wrong log-det is accused though the inverse raises."""
    assert (
        flowref.check(f"{FLOW}?defect=inverse-and-log-det", "bijection/log-det").status
        is Status.VIOLATED
    )


QUIET = (Status.HOLDS, Status.NOT_APPLICABLE)
