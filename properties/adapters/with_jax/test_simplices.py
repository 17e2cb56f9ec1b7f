"""Maps onto a simplex in JAX: without the last coordinate they are judged as all maps are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("equinox", reason="the modules are equinox's")

from flowref import checking, registry
from flowref.loading import recipe_of
from flowref.model import Status

HERE = Path(__file__).parent
FORMS = ("single", "batched", "beside")
STICKS = "numpyro:StickBreakingTransform"
LOG_DETS = ("map/log-det", "map/log-det[inverse]")


def spec_of(name: str) -> str:
    """A target of the file of maps onto a simplex."""
    return f"{os.path.relpath(HERE / 'simplices.py')}:{name}"


def status(spec: str, law: str) -> Status:
    """What a law says of a target."""
    settings = checking.Settings("quick")
    target = registry.parse_target(spec)
    return checking.pair_verdict(target, registry.find_law(law), settings, written=False).status


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("surface", [False, True])
@pytest.mark.parametrize("option", ["", "&latent=4&codomain=simplex"])
def test_the_last_coordinate_is_left_out(name: str, surface: bool, option: str) -> None:
    """A map to a simplex is one to all coordinates but the last, and of which volume it tells is said."""
    spec = spec_of(f"{name}?event=3&surface={surface}".lower() + option)
    recipe = recipe_of(registry.parse_target(spec))
    said = " ".join(recipe.recognized.conventions)
    assert recipe.facts.latent_shape == (3,)
    assert "onto a simplex" in said and ("volume of the simplex" in said) is surface


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("event", [1, 3])
@pytest.mark.parametrize("law", [*LOG_DETS, "map/inverse"])
def test_a_correct_one_is_not_accused(name: str, event: int, law: str) -> None:
    """A correct map onto a simplex holds, of one number, too."""
    assert status(spec_of(f"{name}?event={event}"), law) is Status.HOLDS


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    ("bug", "option", "law"),
    [
        ("term", "", "map/log-det"),
        ("term", "&surface=true", "map/log-det"),
        ("last", "&codomain=simplex", "map/inverse"),
    ],
)
def test_a_bug_is_caught(name: str, bug: str, option: str, law: str) -> None:
    """A log-det that lacks a term, and a last coordinate that is wrong, are seen."""
    assert status(spec_of(f"{name}?event=3&bug={bug}{option}"), law) is Status.VIOLATED


@pytest.mark.parametrize("law", [*LOG_DETS, "map/inverse[latents]"])
def test_breaking_a_stick_is_judged(law: str) -> None:
    """The log-det of the transform of NumPyro is judged, and right."""
    pytest.importorskip("numpyro", reason="the transform is of NumPyro")
    assert status(STICKS, law) is Status.HOLDS
