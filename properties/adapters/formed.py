"""Maps whose log-dets come back in forms that calls do not tell, and events that nothing tells."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn


class Channels(nn.Module):
    """An image scaled by channels, with a log-det of shape (1, C, 1, 1)."""

    def __init__(self, times: int = 1, bug: bool = False) -> None:
        super().__init__()
        self.times = -times if bug else times
        self.log_gain = nn.Parameter(torch.randn(1, 3, 1, 1) / 3)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x * self.log_gain.exp(), self.times * self.log_gain


class Summed(nn.Module):
    """A coupling with one log-det for a batch, the sum or the mean of its rows."""

    dim = 4

    def __init__(self, mean: bool = False, bug: bool = False) -> None:
        super().__init__()
        self.mean, self.sign = mean, -1 if bug else 1
        self.net = nn.Linear(2, 4)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        a, b = x.chunk(2, 1)
        s, t = self.net(a).chunk(2, 1)
        ladj = self.sign * torch.tanh(s).sum(1)
        z = torch.cat([a, b * torch.tanh(s).exp() + t], 1)
        return z, ladj.mean() if self.mean else ladj.sum()


class Counted(nn.Module):
    """A scaling whose one log-det counts the rows of a batch, as a sum over it does."""

    dim = 4

    def __init__(self) -> None:
        super().__init__()
        self.log_gain = nn.Parameter(torch.randn(4))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x * self.log_gain.exp(), len(x) * self.log_gain.sum()


class Averaged(nn.Module):
    """A scaling with its log-det in nats per entry."""

    dim = 3

    def __init__(self, bug: bool = False) -> None:
        super().__init__()
        self.sign = -1 if bug else 1
        self.log_gain = nn.Parameter(torch.randn(3))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z = torch.asinh(x * self.log_gain.exp())
        return z, self.sign * (self.log_gain - torch.log(torch.cosh(z))).mean(-1)


class Slopes(nn.Module):
    """An elementwise map with its slopes."""

    dim = 3

    def __init__(self, bug: bool = False) -> None:
        super().__init__()
        self.times = 2 if bug else 1
        self.log_gain = nn.Parameter(torch.zeros(3))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        gain = self.log_gain.exp()
        return gain * x + torch.tanh(x), gain + 1 - self.times * torch.tanh(x) ** 2


class Doubling(nn.Module):
    """Numbers times two."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return 2 * x, torch.full((len(x),), math.log(2.0), dtype=x.dtype)


class OfThePlane(nn.Module):
    """Points of the plane, scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.log_gain = nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x * self.log_gain.exp(), 2 * self.log_gain * torch.ones(len(x), dtype=x.dtype)


class Wrong(nn.Module):
    """The log-det has the wrong sign, however many entries are meant."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return torch.sinh(x), -torch.log(torch.cosh(x)).sum(-1)


class MeanOfEntries(nn.Module):
    """The log-det is a mean over entries."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return torch.sinh(x), torch.log(torch.cosh(x)).mean(1)


class Broadcasting(nn.Module):
    """A method called sync writes to parameters."""

    dim = 3

    def __init__(self) -> None:
        super().__init__()
        self.log_gain = nn.Parameter(torch.zeros(3))

    def sync(self) -> None:
        """Take what another process has."""
        self.log_gain.data.zero_()

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x * self.log_gain.exp(), self.log_gain.sum().expand(len(x))


class Waiting(Broadcasting):
    """A method called sync changes nothing."""

    def sync(self) -> None:
        """Wait for others."""


class Truncated(nn.Module):
    """x + x A with small A; the log-det is a series in powers of A."""

    dim = 3

    def __init__(self, bug: bool = False) -> None:
        super().__init__()
        self.bug, self.order = bug, 4
        self.weight = nn.Parameter(torch.randn(3, 3) / 20)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        matrix = torch.tanh(self.weight) / 4
        power, ladj = matrix, x.new_zeros(())
        for k in range(1, self.order + 1):
            small = 0.999 if self.bug and k == 2 else 1.0
            ladj = ladj - small * (-1) ** k * torch.trace(power) / k
            power = power @ matrix
        return x + x @ matrix, ladj.expand(len(x))


class OntoTheSphere(nn.Module):
    """The plane onto the sphere."""

    dim = 2

    def forward(self, x: Any) -> Any:
        """Coordinates to points in space."""
        square = x.square().sum(-1, keepdim=True)
        z = torch.cat([2 * x, square - 1], -1) / (square + 1)
        return z, 2 * torch.log(2 / (square + 1)).squeeze(-1)
