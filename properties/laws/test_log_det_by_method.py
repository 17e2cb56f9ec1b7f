"""Log-dets in a call of their own, and gradients that are lost on the way back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import flowref
from flowref.checking import Settings
from flowref.model import Status

LATE, BACK = "same/history[log-det]", "gradient/finite[inverse]"
DEAD = "gradient/reaches-parameters"


class Kept(nn.Module):
    """A coupling that tells its log-det later, from what it kept, or from its input."""

    def __init__(self, anew: bool) -> None:
        super().__init__()
        self.net, self.anew, self.kept = nn.Linear(1, 2), anew, torch.zeros(1)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        one, other = x.chunk(2, -1)
        shift, scale = self.net(one).chunk(2, -1)
        self.kept = scale.sum(-1)
        return torch.cat([one, other * scale.exp() + shift], -1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        one, other = z.chunk(2, -1)
        shift, scale = self.net(one).chunk(2, -1)
        self.kept = scale.sum(-1)
        return torch.cat([one, (other - shift) * (-scale).exp()], -1)

    def log_abs_det_jacobian(self, x: Any, z: Any) -> Any:
        """The log-det at x."""
        return self.net(x[:, :1])[:, 1] if self.anew else self.kept


class Piece(nn.Module):
    """The identity outside an interval, a parabola inside, by torch.where."""

    def __init__(self, clamped: bool) -> None:
        super().__init__()
        self.bend, self.clamped = nn.Parameter(torch.tensor([0.3, -0.5])), clamped

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        inside, v = x.abs() <= 1, x.clamp(-1, 1)
        y = torch.where(inside, v + self.bend * (v**2 - 1) / 2, x)
        slope = torch.where(inside, 1 + self.bend * v, torch.ones_like(v))
        return y, slope.log().sum(-1)

    def inverse(self, y: Any) -> Any:
        """Latents to data: outside, the root is of a negative number, and not chosen."""
        inside = y.abs() <= 1
        v = y.clamp(-1, 1) if self.clamped else y
        root = (1 + 2 * self.bend * v + self.bend**2).sqrt()
        x = torch.where(inside, (root - 1) / self.bend, y)
        return x, torch.where(inside, -root.log(), torch.zeros_like(y)).sum(-1)


class Scaled(nn.Module):
    """A coupling whose scale is put together in place, or not."""

    def __init__(self, apart: bool) -> None:
        super().__init__()
        self.net, self.apart = nn.Linear(1, 1), apart

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        one, other = x.chunk(2, -1)
        scale = self.net(one).exp()
        if self.apart:
            scale = 0.5 * scale + 0.5
        else:
            scale *= 0.5  # what the gradient of exp needs
            scale += 0.5
        return torch.cat([one, other * scale], -1), scale.log().sum(-1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        one, other = z.chunk(2, -1)
        scale = 0.5 * self.net(one).exp() + 0.5
        return torch.cat([one, other / scale], -1), -scale.log().sum(-1)


def scaled(apart: bool) -> Any:
    """A coupling whose loss may not be walked back."""
    return Scaled(apart)


def late(anew: bool) -> Any:
    """A coupling that keeps its log-det."""
    return Kept(anew)


def piece(clamped: bool) -> Any:
    """A map that is put together of pieces."""
    return Piece(clamped)


@pytest.mark.parametrize(
    ("make", "law", "healthy", "status"),
    [
        (late, LATE, True, Status.HOLDS),
        (late, LATE, False, Status.VIOLATED),
        (piece, BACK, True, Status.HOLDS),
        (piece, BACK, False, Status.VIOLATED),
        (scaled, DEAD, True, Status.HOLDS),
        (scaled, DEAD, False, Status.ADVICE),
    ],
)
def test_what_is_told_later_and_what_flows_back_are_judged(
    make: Any, law: str, healthy: bool, status: Status
) -> None:
    """A log-det of the last call, and a nan of the branch that is not chosen, are accused, and what
    overwrites what autograd needs is told; their repaired twins hold.
    """
    torch.manual_seed(0)
    verdict = flowref.check(make(healthy), law, Settings("standard", 0))
    assert verdict.status is status, verdict.reason
