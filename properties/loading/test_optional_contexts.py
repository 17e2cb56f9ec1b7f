"""Contexts that are None by default under any name: calls tell which arguments are some."""

from __future__ import annotations

import pytest

from flowref.loading import recipe_of
from flowref.registry import parse_target

HOME = "flowref_zoo.specimens.optional_contexts"


@pytest.mark.parametrize(
    ("name", "option", "said"),
    [
        ("Coupling", "3", "judged without volume"),
        ("Turned", "3", "judged without pressure"),
        ("Density", "3", "judged without volume"),
        ("Scattered", "", "judged without jitter"),
        ("Energy", "", "judged without volume"),
        ("Timed", "", "judged without t"),
        ("Chosen", "", "judged without inds"),
        ("Folding", "", "judged without volume"),
    ],
)
def test_what_is_none_by_default_is_given_or_said(name: str, option: str, said: str) -> None:
    """It is a context where one shape of any numbers is taken, and changes what comes back."""
    recipe = recipe_of(parse_target(f"{HOME}:{name}"))
    assert recipe.facts.optional_context == option
    assert any(said in hint for hint in recipe.recognized.hints)
