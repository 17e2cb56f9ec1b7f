"""Numbers beside samples: log-densities by name or by option, else said to be unread."""

from __future__ import annotations

import pytest

from flowref import loading
from flowref.loading import recipe_of
from flowref.model import SpecError
from flowref.registry import parse_target

FIELD = "flowref_zoo.specimens.spoken_samples:field"
BASE = "flowref_zoo.specimens.spoken_samples:base"


@pytest.mark.parametrize("option", ["", "beside", "none"])
@pytest.mark.parametrize(("target", "method"), [(FIELD, "sample"), (BASE, "forward")])
def test_what_they_are_is_asked(target: str, method: str, option: str) -> None:
    """A method's name says nothing of them; an option does, and ends the question."""
    given = {"": "", "beside": f"?beside={method}", "none": "?beside=none"}[option]
    recipe = recipe_of(parse_target(f"{target}{given}"))
    assert (recipe.dialect.sample_log_prob is not None) is (option == "beside")
    asked = any(f"?beside={method}" in words for words in recipe.probed.conventions)
    assert asked is (option == "")


def test_a_misspelt_method_is_refused_with_the_nearest() -> None:
    """The option names a method of the object."""
    with pytest.raises(SpecError, match=r"'sampel'.*did you mean sample"):
        loading.load(parse_target(f"{FIELD}?beside=sampel"))
