"""Transforms of torch.distributions that users write as modules: nobody states how many entries they take."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import AffineTransform, Transform, constraints

from flowref.checking import Settings, pair_verdict
from flowref.loading import load, recipe_of
from flowref.model import Status, TargetError
from flowref.registry import parse_target


class Stretch(Transform, nn.Module):
    """x -> x exp(s), of as many entries as it has scales; ``total``: whether its log-det is one number."""

    domain = codomain = constraints.real_vector
    bijective = True

    def __init__(self, size: int = 5, total: bool = True) -> None:
        super().__init__()
        self.total = total
        self.shift = nn.Parameter(torch.ones(1))
        self.scales = nn.Parameter(torch.linspace(-0.5, 0.5, size))

    def __hash__(self) -> int:
        return id(self)

    def _call(self, x: Any) -> Any:
        return x * self.scales.exp() + self.shift

    def _inverse(self, y: Any) -> Any:
        return (y - self.shift) * (-self.scales).exp()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Of vectors, or wrongly of entries."""
        slopes = self.scales.expand(x.shape)
        return slopes.sum(-1) if self.total else slopes


def test_as_many_entries_as_its_tensors_have_are_tried() -> None:
    """The first number that comes back as many, with one log-det: none that is stretched."""
    assert recipe_of(parse_target(f"{__file__}:Stretch")).facts.event_shape == (5,)


def test_where_none_fits_it_is_asked_for() -> None:
    """A log-det of every entry is none of vectors."""
    with pytest.raises(TargetError, match="does not state the shape of its events"):
        recipe_of(parse_target(f"{__file__}:Stretch?total=false"))


class SideBySide(Stretch):
    """What it keeps as ``parts`` acts on an entry each, one beside the other."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = [AffineTransform(0.5, 2.0), AffineTransform(1.0, 3.0)]


def test_what_a_transform_calls_parts_is_no_composition() -> None:
    """Parts are those of a ComposeTransform."""
    target = parse_target(f"{__file__}:SideBySide")
    assert (
        pair_verdict(target, "composition/parts", Settings("quick")).status is not Status.VIOLATED
    )
    assert load(target).parts == ()
