"""Options that a construction does not take."""

from __future__ import annotations

import pytest

from flowref import loading, registry
from flowref.model import SpecError


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("zuko:NSF?feature=3", "did you mean features"),
        ("torch:AffineTransform?featurs=3", "did you mean features"),
        ("nflows:SqueezeTransform?width=2", "it takes none"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest(spec: str, hint: str) -> None:
    """A misspelt option of a library's construction is named, with what the construction takes."""
    with pytest.raises(SpecError, match=hint):
        loading.load(registry.parse_target(spec))
