"""Points that are dictionaries of arrays in JAX: how they are read, what laws say, and which are not read."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jax", reason="what is JAX's is checked where JAX is installed")
pytest.importorskip("equinox", reason="the modules are equinox's")

from flowref import checking, registry
from flowref.loading.recipe import Recipe, recipe_of
from flowref.model import Status, TargetError

NAMED = Path(__file__).with_name("named.py")
LOG_DET, BACK, SAMPLES = "map/log-det", "map/inverse", "sampling/follows-density"
UNREAD = r"\(named.py:\d+\): points are one array in JAX, .* event_shapes .*ravel_pytree"


def recipe(name: str) -> Recipe:
    """The recipe of an object of the file."""
    return recipe_of(registry.parse_target(f"{NAMED}:{name}"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("LocationScale", "named arrays in, and out: mu, sigma -> mu, z"),
        ("Centered", "named arrays in, and out: mu, tau, theta -> eta, mu, tau"),
        ("Centered", "one event at a time"),
        ("Blocks", "named arrays in, and out: theta, data -> theta, data"),
        ("Separate", "named arrays in, and out: a, b -> a, b"),
        ("Hierarchy", "log_prob of named arrays: location, value"),
        ("Hierarchy", "sample: sample(), named arrays"),
        ("OneDraw", "log_prob of named arrays: loc, w"),
        ("OneDraw", "sample: sample(), named arrays"),
    ],
)
def test_named_arrays_are_read(name: str, words: str) -> None:
    """The target's line names the arrays."""
    assert words in recipe(name).recognized.conventions


@pytest.mark.parametrize(
    ("name", "law", "status"),
    [
        ("LocationScale", LOG_DET, Status.HOLDS),
        ("LocationScale", BACK, Status.HOLDS),
        ("LocationScale", "map/log-det[inverse]", Status.HOLDS),
        ("LocationScale?bug=0.9", LOG_DET, Status.VIOLATED),
        ("Centered", LOG_DET, Status.HOLDS),
        ("Centered", BACK, Status.HOLDS),
        ("Centered?bug=0.9", LOG_DET, Status.VIOLATED),
        ("Blocks", LOG_DET, Status.HOLDS),
        ("Blocks", BACK, Status.HOLDS),
        ("Blocks?bug=0.9", LOG_DET, Status.VIOLATED),
        ("Separate", LOG_DET, Status.HOLDS),
        ("Separate", BACK, Status.HOLDS),
        ("Separate?bug=0.9", LOG_DET, Status.VIOLATED),
        ("Hierarchy", SAMPLES, Status.HOLDS),
        ("Hierarchy?bug=1.5", SAMPLES, Status.VIOLATED),
        ("OneDraw", SAMPLES, Status.HOLDS),
        ("OneDraw?bug=1.3", SAMPLES, Status.VIOLATED),
        ("Leaves", LOG_DET, Status.HOLDS),
        ("Leaves", "same/rows", Status.HOLDS),
        ("Leaves?bug=0.9", LOG_DET, Status.VIOLATED),
        ("Traced", LOG_DET, Status.HOLDS),
        ("Traced?bug=0.9", LOG_DET, Status.VIOLATED),
    ],
)
def test_named_arrays_are_judged(name: str, law: str, status: Status) -> None:
    """What is right holds, and a bug is found."""
    assert checking.pair_verdict(registry.parse_target(f"{NAMED}:{name}"), law).status is status


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Images", r"reads '\w+', '\w+' of it; .* event_shapes"),
        ("Tuples", f"attribute mu {UNREAD}"),
        ("Items", f"attribute values {UNREAD}"),
    ],
)
def test_points_that_are_not_read_are_refused_by_what_they_are(name: str, words: str) -> None:
    """The refusal says that a point is no array, and what to do; an event shape would not help."""
    with pytest.raises(TargetError, match=words) as refused:
        recipe(name)
    assert "?event=" not in str(refused.value)
