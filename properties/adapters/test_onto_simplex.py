"""Maps of users onto a simplex."""

from __future__ import annotations

import pytest
import torch

from flowref import registry
from flowref.adapters.common.onto_simplex import without_last
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


def test_a_point_beside_the_simplex_is_not_taken_for_one_of_it() -> None:
    """The first entries of a point of the simplex are as they are, those of another are moved."""
    y = torch.tensor([[0.2, 0.3, 0.5], [0.2, 0.3, 0.8]], dtype=torch.float64)
    first, second = without_last(y)
    assert torch.equal(first, y[0, :2])
    assert not torch.isclose(second, y[1, :2]).any()
