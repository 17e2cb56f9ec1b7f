"""What maps do at the ends of their domain and far out: advice where it is another bin's or overflows,
and silence where it is what the map tends to.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")
ENDS, FAR, DENSITY = (
    "map/domain[ends]",
    "map/finite-far-out[log-det]",
    "map/finite-far-out[log-prob]",
)


class Bins(nn.Module):
    """Piecewise linear on the unit interval, in two coordinates."""

    event_shape = (2,)
    domain = "unit"
    kind = ""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        last = (x == 1).to(x.dtype)
        low = x < 0.5
        z = torch.where(low, 0.4 * x, 0.2 + 1.6 * (x - 0.5))
        slope = torch.where(low, 0.4 * torch.ones_like(x), 1.6 * torch.ones_like(x))
        if self.kind == "next bin":
            z, slope = z * (1 - last) + 0.4 * last, slope * (1 - last) + 0.4 * last
        if self.kind == "angle":  # one is zero
            z, slope = z * (1 - last), slope * (1 - last) + 0.4 * last
        if self.kind == "refused" and bool(last.any()):
            raise ValueError("it lies outside")
        if self.kind == "infinite":
            z = z / (1 - last)
        return z, slope.log().sum(1)


def bins(kind: str) -> nn.Module:
    """Bins with another end."""
    made = Bins()
    made.kind = kind
    return made


@pytest.mark.parametrize("kind", ["", "refused", "infinite", "angle"])
def test_ends_that_belong_to_their_bin_are_silent(kind: str) -> None:
    """As are those that are refused, infinite, or the other end of an angle."""
    assert check(bins(kind), ENDS, QUICK).status in (Status.HOLDS, Status.NOT_APPLICABLE)


def test_an_end_in_another_bin_is_told() -> None:
    """Domains are declared as open intervals: advice."""
    assert check(bins("next bin"), ENDS, QUICK).status is Status.ADVICE


class Squashed(nn.Module):
    """The sigmoid of each coordinate."""

    event_shape = (2,)
    codomain = "unit"

    def __init__(self, naive: bool) -> None:
        super().__init__()
        self.naive = naive

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z = x.sigmoid()
        ladj = z.log() + (1 - z).log() if self.naive else -F.softplus(x) - F.softplus(-x)
        return z, ladj.sum(1)


@pytest.mark.parametrize(("naive", "expected"), [(True, Status.ADVICE), (False, Status.HOLDS)])
def test_a_log_det_that_overflows_is_told(naive: bool, expected: Status) -> None:
    """Where another formula is finite."""
    assert check(Squashed(naive), FAR, QUICK).status is expected


class Mixed(nn.Module):
    """A mixture of two normal densities on the line, or one that ends."""

    event_shape = (1,)

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def log_prob(self, x: Any) -> Any:
        """Of each row."""
        parts = torch.stack([-0.5 * (x[:, 0] - m) ** 2 for m in (-1.0, 2.0)])
        constant = math.log(2) + 0.5 * math.log(2 * math.pi)
        if self.kind == "naive":
            return parts.exp().sum(0).log() - constant
        if self.kind == "ends":
            inside = (x[:, 0] > -9) & (x[:, 0] < 9)
            return torch.where(inside, -math.log(18.0), -math.inf)
        return parts.logsumexp(0) - constant


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("naive", Status.ADVICE), ("", Status.HOLDS), ("ends", Status.HOLDS)],
)
def test_a_log_density_that_underflows_is_told(kind: str, expected: Status) -> None:
    """And not one that ends."""
    assert check(Mixed(kind), DENSITY, QUICK).status is expected
