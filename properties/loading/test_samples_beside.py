"""Numbers beside samples: log-densities by name or by option, else said to be unread."""

from __future__ import annotations

import pytest

from flowref import loading
from flowref.loading import recipe_of
from flowref.model import SpecError
from flowref.registry import parse_target

FIELD = "flowref_zoo.specimens.spoken_samples:field"


@pytest.mark.parametrize(
    ("option", "read"), [("", False), ("?beside=sample", True), ("?beside=none", False)]
)
def test_what_they_are_is_asked(option: str, read: bool) -> None:
    """A sampler's name says nothing of them; an option does, and ends the question."""
    recipe = recipe_of(parse_target(f"{FIELD}{option}"))
    assert (recipe.dialect.sample_log_prob is not None) is read
    asked = any("?beside=sample" in words for words in recipe.probed.conventions)
    assert asked is (option == "")


def test_a_misspelt_method_is_refused_with_the_nearest() -> None:
    """The option names a method of the object."""
    with pytest.raises(SpecError, match=r"'sampel'.*did you mean sample"):
        loading.load(parse_target(f"{FIELD}?beside=sampel"))
