"""Layers whose bugs show after training, after loading, or after an unlucky batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Squash(nn.Module):
    r"""$z = x + a \tanh(b x)$ with $a b > -1$; ladj $\sum_i \log(1 + a b\,(1 - \tanh^2 b x_i))$.

    The inverse is found by bisection.
    """

    event_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.raw, self.log_b = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.full((2,), 1.5))
        self.seen = 0

    def amplitude(self) -> Any:
        """a, such that a b > -1."""
        if self.defect == "amplitude-unconstrained":
            return self.raw
        return (nn.functional.softplus(self.raw + 0.5413) - 0.99) * torch.exp(-self.log_b)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        if self.training and self.defect == "table-too-short":
            self.seen += 1
            torch.ones(16)[self.seen]
        a, b = self.amplitude(), self.log_b.exp()
        t = torch.tanh(b * x)
        return x + a * t, torch.log((1 + a * b * (1 - t * t)).abs()).sum(-1)


class Scaled(nn.Module):
    r"""$z = W x$; ladj $\log|\det W|$. In eval mode the inverse matrix is kept until it is stale."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.weight = nn.Parameter(torch.eye(3) + 0.3 * torch.randn(3, 3))
        self.kept: tuple[Any, Any] | None = None

    def train(self, mode: bool = True) -> Scaled:
        """A training step may follow, which moves the weight."""
        self.kept = None
        return super().train(mode)

    def inverted(self) -> Any:
        """The inverse matrix: of the weight with which it is kept."""
        if self.training:
            return torch.inverse(self.weight)
        fresh = self.kept is None
        if self.kept is not None and self.defect != "kept-until-training":
            before = self.kept[0]
            moved = (before.dtype, before.device) != (self.weight.dtype, self.weight.device)
            fresh = moved or not torch.equal(before, self.weight)
        if fresh:
            weight = self.weight.detach().clone()
            self.kept = weight, torch.inverse(weight)
        kept: Any = self.kept
        return kept[1].to(self.weight.dtype)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return x @ self.weight.T, torch.slogdet(self.weight)[1].expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        back = self.inverted()
        return z @ back.T, torch.slogdet(back)[1].expand(len(z))


class Standardize(nn.Module):
    r"""$z = (x - m) / s$ with the moments of the first train batch; ladj $-\sum_i \log s_i$."""

    event_shape = (3,)
    mean: Any
    std: Any
    ready: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("std", torch.ones(3))
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        if self.training and not self.ready:
            with torch.no_grad():
                self.mean.copy_(x.mean(0))
                unbiased = self.defect == "spread-of-one-row"
                least = 0.0 if self.defect == "spread-of-zero" else 1e-3
                std = x.std(0, unbiased=unbiased)
                self.std.copy_(std if unbiased and len(x) == 1 else std.clamp(min=least))
                self.ready.fill_(True)
        return (x - self.mean) / self.std, -torch.log(self.std).sum().expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return z * self.std + self.mean, torch.log(self.std).sum().expand(len(z))


class Averaged(nn.Module):
    r"""$z = x / s$ with s an average over train batches; ladj $-\sum_i \log s_i$. Eval mode keeps $\log s$."""

    event_shape = (3,)
    std: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.gain = nn.Parameter(torch.ones(3))
        self.register_buffer("std", torch.ones(3))
        self.kept: tuple[Any, int, Any] | None = None

    def log_std(self) -> Any:
        """Of the spread that it divides by, as long as that is the same tensor and stays as it is."""
        version = 0 if self.defect == "kept-through-a-batch" else self.std._version
        if self.kept is None or self.kept[0] is not self.std or self.kept[1] != version:
            self.kept = self.std, version, self.std.log()
        return self.kept[2]

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        if self.training:
            with torch.no_grad():
                self.std.lerp_(x.std(0, unbiased=False) + 1e-3, 0.1)
        log_std = self.std.log() if self.training else self.log_std()
        slopes = self.gain * (-log_std).exp()
        return slopes * x, slopes.abs().log().sum().expand(len(x))


def averaged(defect: str = "") -> nn.Module:
    """A layer that divides by a spread that it keeps in eval mode."""
    return Averaged(defect)


def squash(defect: str = "") -> nn.Module:
    """A bump on the identity, on two features."""
    return Squash(defect)


def scaled(defect: str = "") -> nn.Module:
    """A linear map on three features, its inverse kept."""
    return Scaled(defect)


def standardize(defect: str = "") -> nn.Module:
    """A layer that takes its moments from the first batch it is trained on."""
    return Standardize(defect)


class Warming(nn.Module):
    """Elementwise scales that grow in over the first thousand batches of training."""

    event_shape = (3,)
    steps: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.scales, start = nn.Parameter(torch.tensor([0.3, -0.2, 0.5])), torch.tensor(0.0)
        if defect == "steps-are-no-buffer":
            self.steps = start
        else:
            self.register_buffer("steps", start)

    def rates(self) -> Any:
        """Log-scales as far as they have grown."""
        if self.training:
            self.steps = self.steps + 1
            return self.scales * torch.clamp(self.steps / 1000, max=1.0)
        return self.scales

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        rates = self.rates()
        return x * rates.exp(), rates.sum().expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return z * (-self.scales).exp(), -self.scales.sum().expand(len(z))


def warming(defect: str = "") -> nn.Module:
    """With a warm-up."""
    return Warming(defect)


class Whitened(nn.Module):
    """Two features that a batch makes uncorrelated, by the Cholesky factor of its covariance; in eval mode that is
    an average.
    """

    event_shape = (2,)
    mean: Any
    covariance: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.gain = nn.Parameter(torch.tensor([1.2, 0.8]))
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("covariance", torch.eye(2))

    def forward(self, x: Any) -> Any:
        """The same shape."""
        mean, covariance = self.mean, self.covariance
        if self.training:
            mean = x.mean(0)
            away = x - mean
            covariance = away.T @ away / len(x) + 1e-3 * torch.eye(
                2, dtype=x.dtype, device=x.device
            )
            if self.defect == "covariance-is-a-constant":
                covariance = covariance.detach()
            with torch.no_grad():
                self.mean += 0.1 * (mean - self.mean)
                self.covariance += 0.1 * (covariance - self.covariance)
        factor = torch.linalg.cholesky(covariance)
        return torch.linalg.solve_triangular(factor, (x - mean).T, upper=False).T * self.gain


def whitened(defect: str = "") -> nn.Module:
    """A layer that whitens batches."""
    return Whitened(defect)


SPECIMENS = (
    Specimen("whitened", {"covariance-is-a-constant": ("gradient/input[batch]",)}),
    Specimen("warming", {"steps-are-no-buffer": ("state/registered[counters]",)}),
    Specimen(
        "squash",
        {
            "amplitude-unconstrained": (
                "map/one-to-one[orientation]",
                "map/one-to-one[orientation, trained]",
            ),
            "table-too-short": ("state/trains",),
        },
    ),
    Specimen("scaled", {"kept-until-training": ("same/saved[restore]", "same/saved[cast]")}),
    Specimen("averaged", {"kept-through-a-batch": ("same/history[optimizer-step]",)}),
    Specimen(
        "standardize",
        {
            "spread-of-zero": ("state/degenerate-batch",),
            "spread-of-one-row": ("state/degenerate-batch",),
        },
    ),
)
