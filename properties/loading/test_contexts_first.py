"""Densities that take what they are conditioned on first: what a sampler or a network takes alone is no point."""

from __future__ import annotations

import pytest

from flowref.loading import recipe_of
from flowref.registry import parse_target

HOME = "flowref_zoo.specimens.regressions"


@pytest.mark.parametrize(
    ("spec", "event"),
    [("regression", (2,)), ("trained?log_prob=nll", (2,)), ("scalar", ())],
)
@pytest.mark.parametrize("given", ["", "context=3"])
def test_a_context_is_what_a_sampler_takes_first(
    spec: str, event: tuple[int, ...], given: str
) -> None:
    """However an event is shaped, and whether the shape of contexts is said or not."""
    sign = "&" if "?" in spec else "?"
    recipe = recipe_of(parse_target(f"{HOME}:{spec}{sign * bool(given)}{given}"))
    assert (recipe.facts.event_shape, recipe.facts.context_shape) == (event, (3,))
    assert any("takes its context first" in one for one in recipe.recognized.conventions)
    assert recipe.dialect.sample is not None
