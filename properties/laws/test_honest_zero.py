"""A Jacobian of zeros is told from one that rounds to zero: only the first contradicts a log-det."""

from __future__ import annotations

from flowref.checking import Settings, pair_verdict
from flowref.model import Status
from flowref.registry import parse_target

LAW = "map/singular-jacobian"


def test_a_distribution_function_that_rounds_to_zero_is_not_accused() -> None:
    """Far down its tail Laplace's, computed beside one half, is 0 with a gradient of 0, and its
    log-density, about one unit in the last place of one half for each coordinate, is right.
    """
    verdict = pair_verdict(
        parse_target("reference:ElementwiseCDF[Laplace]"), LAW, Settings("standard")
    )
    assert verdict.status is Status.HOLDS, verdict.evidence


def test_a_clamped_input_is_found() -> None:
    """Beyond the clamp the map does not move, and an ordinary log-det is reported."""
    specimen = "flowref_zoo.specimens.pointwise:bent?defect=clamped-for-safety"
    assert pair_verdict(parse_target(specimen), LAW, Settings("standard")).status is Status.VIOLATED
