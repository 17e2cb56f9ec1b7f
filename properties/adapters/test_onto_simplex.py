"""Maps of users onto a simplex."""

from __future__ import annotations

import pytest

from flowref import registry
from flowref.loading.recipe import recipe_of

ZOO = "flowref.zoo.specimens.simplex_maps"


@pytest.mark.parametrize(("name", "volume"), [("log_ratio", False), ("log_ratio_surface", True)])
@pytest.mark.parametrize("option", ["", "?latent=4&codomain=simplex"])
def test_the_last_coordinate_is_left_out(name: str, volume: bool, option: str) -> None:
    """A map to a simplex is one to all coordinates but the last, and of which volume it tells is said."""
    recipe = recipe_of(registry.parse_target(f"{ZOO}:{name}{option}"))
    said = " ".join(recipe.probed.conventions)
    assert recipe.facts.latent_shape == (3,)
    assert "onto a simplex" in said and ("volume of the simplex" in said) is volume
