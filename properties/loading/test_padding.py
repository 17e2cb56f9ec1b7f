"""Sequences with padding: what a mask leaves out is no part of an event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flowref.loading import recipe_of
from flowref.model import TargetError
from flowref.registry import listing, parse_target

HOME = "flowref_zoo.specimens.padded_sequences"
FILE = Path(__file__).parents[1] / "flowref_zoo" / "specimens" / "padded_sequences.py"


class Halves(nn.Module):
    """What a mask keeps moves what it leaves out: no mask of padding."""

    def forward(self, x: Any, mask: Any = None) -> tuple[Any, Any]:
        """Data to latents."""
        mask = torch.ones_like(x[..., :1]) if mask is None else mask
        return x * mask + (1 - mask) * (2 * x + (x * mask).sum()), x.new_zeros(len(x))


@pytest.mark.parametrize("spec", ["coupling?padded=x_mask", "masked_norm?padded=mask"])
def test_a_position_is_added_and_taken_off(spec: str) -> None:
    """An event is what is kept, and the line says what masks out the rest."""
    recipe = recipe_of(parse_target(f"{HOME}:{spec}"))
    assert len(recipe.facts.event_shape) == 2
    assert any("padded by one position" in words for words in recipe.recognized.conventions)


def test_a_file_is_looked_at_with_padding() -> None:
    """Each class that takes a mask which is None by default, once more."""
    found = {str(target).rpartition(":")[2] for target in listing(str(FILE)).variants}
    assert {"Coupling?padded=x_mask", "MaskedBatchNorm1d?padded=mask"} <= found


@pytest.mark.parametrize("options", ["", "?padded=x_mask"])
def test_a_context_behind_a_mask_is_given_in_cases(options: str) -> None:
    """Of sequences it is stretched over positions."""
    recipe = recipe_of(parse_target(f"{HOME}:speaker_coupling{options}"))
    assert recipe.facts.optional_context == "3,1" and recipe.dialect.log_prob is not None
    assert any("?padded=x_mask" in hint for hint in recipe.recognized.hints) is (not options)


def test_a_mask_is_bound_beside_a_context_that_is_said() -> None:
    """As beside none."""
    recipe = recipe_of(parse_target(f"{HOME}:speaker_coupling?context=3,1"))
    assert "x_mask: ones for each position" in recipe.recognized.conventions


def test_a_mask_of_something_else_is_refused() -> None:
    """What it leaves out comes back as something else."""
    with pytest.raises(TargetError, match="mask was declared as a padding mask"):
        recipe_of(parse_target(f"{__file__}:Halves?padded=mask"))
