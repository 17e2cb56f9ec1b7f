"""Contexts that are None by default: their size opens them, and they are given by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref.loading import recipe_of
from flowref.registry import listing, parse_target

HOME = "flowref_zoo.specimens.opened_contexts"
FILE = Path(__file__).parents[1] / "flowref_zoo" / "specimens" / "opened_contexts.py"


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        ("modal?num_cond_inputs=2", (2,)),
        ("flagged?context_dim=2", (2,)),
        ("flagged?context_dim=3", (3,)),
        ("flagged", (2,)),  # an attribute says it, and no call is made without
        ("flagged?context_dim=0", None),
    ],
)
def test_a_size_that_is_said_opens_a_context(spec: str, shape: tuple[int, ...] | None) -> None:
    """By an option of the target, or by an attribute of what refuses to be called without."""
    assert recipe_of(parse_target(f"{HOME}:{spec}")).facts.context_shape == shape


def test_a_file_is_looked_at_with_its_contexts() -> None:
    """Each class whose context has no size by default, once more with two numbers."""
    found = {str(target).rpartition(":")[2] for target in listing(str(FILE)).variants}
    assert {"Modal?num_cond_inputs=2", "Flagged?context_dim=2"} <= found
