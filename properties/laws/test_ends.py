"""Points on an end of the data, where rounding decides whether a call refuses them, say nothing of derivatives."""

from __future__ import annotations

import pytest

from flowref import checking
from flowref.checking import Settings
from flowref.model import Status

LAWS = ("gradient/parameters[value]", "gradient/parameters[log-det]")
HOSTS = (
    "reference:Spline[tails=None]",
    "glasflow:nflows.MaskedPiecewiseRationalQuadraticAutoregressiveTransform[None]",
)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("law", LAWS)
def test_what_refuses_points_beyond_an_end_is_judged_within(host: str, law: str) -> None:
    """Differences in the parameters are taken where points beside are taken, too."""
    assert checking.pair_verdict(host, law, Settings("quick")).status is Status.HOLDS


def test_a_constant_log_det_leaves_the_gradient_of_the_loss_to_be_judged() -> None:
    """What no derivative is measured of, at the origin or at ones, is passed over."""
    assert checking.pair_verdict("FrEIA:GINCouplingBlock", "gradient/finite").status is Status.HOLDS
