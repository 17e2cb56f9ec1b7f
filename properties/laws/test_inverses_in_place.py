"""An inverse that writes its coordinates into place is judged by differences: autograd cannot, or
does so wrongly.
"""

from __future__ import annotations

import pytest

from flowref.checking import Settings, check
from flowref.model import Status
from flowref.registry import parse_target

ZOO = "flowref.zoo.specimens.in_place"


@pytest.mark.parametrize("law", ["bijection/inverse-log-det", "bijection/jacobian-inverse-product"])
@pytest.mark.parametrize("way", ["autoregressive", "unrecorded"])
def test_autograd_alone_accuses_nobody(way: str, law: str) -> None:
    """Whether it refuses what a loop writes into place, or loses it."""
    verdict = check(parse_target(f"{ZOO}:{way}"), law, Settings("quick"))
    assert verdict.status not in (Status.VIOLATED, Status.ERROR), verdict.reason


def test_a_wrong_log_det_is_found_by_differences() -> None:
    """Where autograd cannot differentiate the inverse."""
    verdict = check(
        parse_target(f"{ZOO}:autoregressive?defect=log-det"),
        "bijection/inverse-log-det",
        Settings("quick"),
    )
    assert verdict.status is Status.VIOLATED
