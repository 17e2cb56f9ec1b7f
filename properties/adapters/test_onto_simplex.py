"""Maps of users onto a simplex."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flowref import registry
from flowref.adapters.common.onto_simplex import without_last
from flowref.loading.recipe import recipe_of
from flowref.model import CORNER, draw_points

ZOO = "flowref_zoo.specimens.simplex_maps"


@pytest.mark.parametrize(("name", "volume"), [("log_ratio", False), ("log_ratio_surface", True)])
@pytest.mark.parametrize("option", ["", "?latent=4&codomain=simplex"])
def test_the_last_coordinate_is_left_out(name: str, volume: bool, option: str) -> None:
    """A map to a simplex is one to all coordinates but the last, and of which volume it tells is said."""
    recipe = recipe_of(registry.parse_target(f"{ZOO}:{name}{option}"))
    said = " ".join(recipe.probed.conventions)
    assert recipe.facts.latent_shape == (3,)
    assert "onto a simplex" in said and ("volume of the simplex" in said) is volume


@pytest.mark.parametrize(
    ("name", "volume"), [("log_ratio_of", False), ("log_ratio_of_surface", True)]
)
def test_the_last_coordinate_of_data_is_left_out(name: str, volume: bool) -> None:
    """A map of a simplex is one of all coordinates but the last; of which volume it tells is said."""
    recipe = recipe_of(registry.parse_target(f"{ZOO}:{name}"))
    said = " ".join(recipe.probed.conventions)
    assert recipe.facts.event_shape == recipe.facts.latent_shape == (3,)
    assert "of a simplex" in said and ("volume of the simplex" in said) is volume


def test_that_of_data_and_of_latents_is_left_out() -> None:
    """Of a map from a simplex to itself."""
    recipe = recipe_of(registry.parse_target(f"{ZOO}:powers"))
    assert recipe.facts.event_shape == recipe.facts.latent_shape == (3,)
    assert recipe.facts.domain == CORNER


def test_what_is_drawn_lies_in_the_corner() -> None:
    """Points of a simplex without their last coordinate, which the others tell; no others do."""
    points = draw_points(CORNER, (50, 3), np.random.default_rng(0))
    assert CORNER.holds(points).all()
    assert not CORNER.holds(points / points.sum(1, keepdims=True) + 1e-9).any()


def test_a_point_beside_the_simplex_is_not_taken_for_one_of_it() -> None:
    """The first entries of a point of the simplex are as they are, those of another are moved."""
    y = torch.tensor([[0.2, 0.3, 0.5], [0.2, 0.3, 0.8]], dtype=torch.float64)
    first, second = without_last(y)
    assert torch.equal(first, y[0, :2])
    assert not torch.isclose(second, y[1, :2]).any()
