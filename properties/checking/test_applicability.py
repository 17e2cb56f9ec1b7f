"""What a law speaks about: why it says nothing is said in one sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checking.standins import Standin
from flowref.checking import Settings, not_applicable
from flowref.checking.settings import HEAVY, LEAST_SHARE, MOST
from flowref.model import CONTRACT, Requirement, Support, Target
from flowref.model.law import MANY_FEATURES

STANDIN = Standin(lambda batch: batch.x[:, 0])


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({}, None),
        ({"needs": frozenset({"inverse", "forward"})}, "it offers no forward, no inverse"),
        ({"force": CONTRACT, "promise": "monotone"}, "it does not promise monotone"),
        ({"force": CONTRACT, "promise": "elementwise"}, None),
        ({"thorough": True}, "measured in the thorough profile only"),
        ({"points": "beyond"}, "no bounded domain is declared"),
        ({"applies": Requirement(lambda subject: False, "not for this")}, "not for this"),
    ],
)
def test_a_law_says_why_it_says_nothing(details: dict[str, Any], reason: str | None) -> None:
    """Abilities, promises, the profile, the domain and conditions of the law's own are asked."""
    subject = STANDIN.subject.with_facts(promises={"elementwise": True})
    silence = not_applicable(replace(STANDIN.law, **details), subject, Settings())
    assert (silence and silence.reason) == reason


def test_the_thorough_profile_measures_everything() -> None:
    """What costs seconds is measured where it was asked for."""
    thorough = replace(STANDIN.law, thorough=True)
    assert not_applicable(thorough, STANDIN.subject, Settings("thorough")) is None


def test_a_bounded_domain_has_points_beyond_it() -> None:
    """A law of refusals speaks where a domain is declared and has an end."""
    law = replace(STANDIN.law, points="beyond")
    bounded = STANDIN.subject.with_facts(domain=Support.parse("unit"))
    assert not_applicable(law, bounded, Settings()) is None
    assert not_applicable(law, bounded.with_facts(declared=False), Settings()) is not None


@pytest.mark.parametrize(
    ("promised", "features", "options"),
    [
        (None, 0, None),
        (True, 0, (("features", str(MANY_FEATURES)),)),
        ("dim", 3, (("dim", "3"),)),
    ],
)
def test_a_target_is_built_larger_by_the_option_that_it_promises(
    promised: Any, features: int, options: Any
) -> None:
    """The promise names the option; without it the target cannot be built otherwise."""
    law = replace(STANDIN.law, rebuild="sized", features=features)
    target = law.measured_on(Target("user", "stand-in"), {"sized": promised})
    assert (target and target.options) == options


def test_effort_follows_the_profile_and_the_cost() -> None:
    """Quick is half, thorough is threefold, and costly subjects are measured on fewer batches,
    unless thoroughness was asked for.
    """
    law = replace(STANDIN.law, effort=10)
    efforts = {
        profile: Settings(profile).effort(law) for profile in ("quick", "standard", "thorough")
    }
    assert efforts == {"quick": 5, "standard": MOST, "thorough": 30}
    assert Settings().effort(law, 2 * HEAVY) == 5
    assert Settings().effort(law, 10**9) == 10 * LEAST_SHARE
    assert Settings("thorough").effort(law, 10**9) == 30
    assert Settings("quick").effort(replace(law, effort=1), 10**9) == 1
