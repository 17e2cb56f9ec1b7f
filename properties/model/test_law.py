"""What a law may be declared with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flowref import registry
from flowref.model import LawError

LAW = registry.find_law("map/inverse")


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"tolerance": "excat"}, "did you mean exact"),
        ({"force": "contrct"}, "did you mean contract"),
        ({"points": "latent"}, "did you mean latents"),
        ({"history": "worm"}, "did you mean warm"),
        ({"force": "contract"}, "names the promise"),
        ({"promise": "monotone"}, "names the promise"),
    ],
)
def test_a_law_that_cannot_be_meant_is_refused(changes: dict[str, Any], hint: str) -> None:
    """A misspelt option, or a promise without a contract, is refused in one sentence when the law
    is declared.
    """
    with pytest.raises(LawError, match=hint):
        replace(LAW, **changes)
