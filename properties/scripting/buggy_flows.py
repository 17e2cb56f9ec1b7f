"""Flows as users write them, with bugs that no specimen of the zoo has; copied next to the
programs that speak of them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn


class Scaling(nn.Module):
    r"""$z = e^s x$ for each of three features; ladj $\sum_i s_i$."""

    event_shape = (3,)
    seen: Any

    def __init__(self, factor: float = 2.0, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_scale = nn.Parameter(torch.full((3,), math.log(factor)))
        self.mask = torch.ones(3) if defect == "left-behind" else None
        self.idle = nn.Parameter(torch.ones(2)) if defect == "idle" else None
        self.cache: Any = None
        self.register_buffer("seen", torch.zeros(()))

    def scale(self) -> Any:
        """The factors, or ones computed when they were first asked for."""
        if self.defect != "cached":
            return self.log_scale.exp()
        if self.cache is None:
            self.cache = self.log_scale.exp()
        return self.cache

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        if x.shape[-1] != 3 and self.defect != "one-feature":
            raise ValueError(f"expected 3 features, got {x.shape[-1]}")
        scale, ladj = self.scale(), self.log_scale.sum().expand(len(x))
        match self.defect:
            case "left-behind":
                x = x * self.mask
            case "left-by-a-call":
                self.mask = scale.detach() if self.mask is None else self.mask
                return x * self.mask, ladj
            case "viewed":
                x = x.view(x.shape[0] * x.shape[1]).reshape(x.shape)
            case "squeezed":
                x = x.squeeze()
                return x * scale, ladj
            case "averaged-nan":
                ladj = ladj + 0 * x.mean()
            case "constant-value":
                return (x * scale).detach() + 0 * x, ladj
            case "grad-mode":
                scale = scale if torch.is_grad_enabled() else scale * 1.01
            case "talkative":
                print("forward")
            case "random":
                torch.rand(1)
            case "trained-log-det":
                ladj = ladj * 1.1 if self.training else ladj
            case "first-call" if not self.seen:
                self.seen += 1
            case "one-feature":
                return x.sum(-1, keepdim=True) * 0 + x[..., :1] * scale, ladj
            case "logarithm":
                return x * scale + 0 * torch.log(x.abs()), ladj
            case "hole":
                return x * scale * (x.sin() / x / x.sinc().detach()).detach(), ladj
            case "numpy":
                return torch.from_numpy(2 * x.detach().numpy()), ladj * 1.1
        return x * scale, ladj

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        ladj = -self.log_scale.sum().expand(len(z))
        if self.defect == "trained-inverse" and self.training:
            z = z + 1.0
        return z / self.scale(), ladj

    def __deepcopy__(self, memo: Any) -> Any:
        if self.defect == "not-copied" and self.log_scale.grad is not None:
            raise TypeError("it cannot be copied")
        copied = type(self)(defect=self.defect)
        copied.load_state_dict(self.state_dict())
        if self.defect == "shared":
            copied.log_scale = self.log_scale
        return copied.train(self.training)


def scaling(factor: float = 2.0, defect: str = "") -> nn.Module:
    """A scaling of three features."""
    return Scaling(factor, defect)


class Promising(nn.Module):
    """A map of three features that promises what its defects break."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.volume_preserving = defect in ("", "volume")
        self.constant_jacobian = defect in ("", "constant")
        self.monotone = defect in ("", "order")
        self.shift = nn.Parameter(torch.ones(3))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        match self.defect:
            case "volume":
                return 2 * x + self.shift, x.new_full((len(x),), 3 * math.log(2))
            case "constant":
                return x + x**3 + self.shift, (1 + 3 * x**2).log().sum(-1)
            case "order":
                return self.shift - x, x.new_zeros(len(x))
        return x + self.shift, x.new_zeros(len(x))


def promising(defect: str = "") -> nn.Module:
    """A map of three features."""
    return Promising(defect)


class Picky(Scaling):
    """A scaling that may refuse to be inverted."""

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        if self.defect == "refused" and float(z.abs().max()) > 20:
            raise ValueError("no inverse for you")
        return super().inverse(z)


def picky(defect: str = "") -> nn.Module:
    """A scaling of three features whose inverse may raise."""
    return Picky(defect=defect)


class Density(nn.Module):
    """A normal density of two features, shifted by a parameter."""

    event_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.shift = nn.Parameter(torch.zeros(2))
        self.base = torch.distributions.Independent(
            torch.distributions.Normal(torch.zeros(2), torch.ones(2)), 1
        )

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return x - self.shift, x.new_zeros(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return z + self.shift, z.new_zeros(len(z))

    def log_prob(self, x: Any) -> Any:
        """The log-density of each point."""
        z, ladj = self(x)
        if self.defect == "score-detached":
            z = z.detach() + 0 * z
        if self.defect == "other-constant":
            ladj = ladj + 0.1
        if self.defect == "trained-constant" and self.training:
            ladj = ladj + 0.1
        if self.defect == "not-summed":
            return self.base.base_dist.log_prob(z) + ladj[:, None] / 2
        return self.base.log_prob(z) + ladj

    def sample(self, n: int) -> Any:
        """Draw n points."""
        match self.defect:
            case "mirrored":
                half = torch.randn((n + 1) // 2, 2)
                return self.inverse(torch.cat([half, -half])[:n])[0]
            case "clamped":
                return self.inverse(torch.randn(n, 2).clamp(-2.1, 2.1))[0]
            case "repeated":
                return self.inverse(torch.randn(n // 4 + 1, 2).repeat(4, 1)[:n])[0]
            case "seeded":
                generator = torch.Generator().manual_seed(5)
                return self.inverse(torch.randn(n, 2, generator=generator))[0]
            case "squeezed":
                return self.inverse(torch.randn(n, 2))[0].squeeze(0)
        return self.inverse(torch.randn(n, 2))[0]


class DensityBeside(Density):
    """The same with samples that come with their log-densities."""

    def sample_and_log_prob(self, n: int) -> tuple[Any, Any]:
        """Draw n points."""
        z = torch.randn(n, 2)
        beside = self.base.log_prob(z)
        return self.inverse(z)[0], beside + 0.01 if self.defect == "left-out" else beside


def beside(defect: str = "") -> nn.Module:
    """A normal density of two features."""
    return DensityBeside(defect)


class DensityFromBase(Density):
    """The same, whose samples are promised to be the noise of its base."""

    promises = ("samples-from-base",)

    def sample(self, n: int) -> Any:
        """Draw n points."""
        z = self.base.sample((n,))
        return self.inverse(0.9 * z if self.defect == "colder" else z)[0]


def from_base(defect: str = "") -> nn.Module:
    """A normal density of two features."""
    return DensityFromBase(defect)


class Estimated(nn.Module):
    r"""$z = Ax$ of three features, whose trace is told by a probe: a log-det to first order."""

    event_shape, estimator = (3,), True

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.weight = nn.Parameter(0.05 * torch.tensor([[3.0, 1, 0], [0, 4, 1], [1, 0, 5]]))

    def log_det(self, x: Any, sign: float) -> Any:
        """Four terms of the series, by one probe."""
        probe = v = torch.randn_like(x)
        total = torch.zeros(len(x), dtype=x.dtype)
        for k in range(1, 5):
            v = v @ self.weight.T
            total = total - (-1) ** k * (v * probe).sum(-1) / k
        return (-sign if self.defect in ("sign", "inverse-sign") and sign < 0 else sign) * total

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        ladj = self.log_det(x, 1.0)
        return x + x @ self.weight.T, -ladj if self.defect == "sign" else ladj

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        x = torch.linalg.solve(torch.eye(3, dtype=z.dtype) + self.weight, z.T).T
        return x, self.log_det(x, -1.0)


def estimated(defect: str = "") -> nn.Module:
    """A linear map with an estimated log-det."""
    return Estimated(defect)


class Likelihood(nn.Module):
    """A normal log-density of three features that nobody samples."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_scale = nn.Parameter(torch.tensor([0.5, -0.3, 0.2]))

    def log_prob(self, x: Any) -> Any:
        """The log-density of each point."""
        size = 1 if self.defect == "one-constant" else 3
        z = x * (-self.log_scale).exp()
        half = 0.5 * z.square().sum(-1) + 0.5 * size * math.log(2 * math.pi)
        return -half - self.log_scale.sum()


def likelihood(defect: str = "") -> nn.Module:
    """A log-density of three features."""
    return Likelihood(defect)


def density(defect: str = "") -> nn.Module:
    """A normal density of two features."""
    return Density(defect)


class BatchNorm(nn.Module):
    """Batch normalization of three features."""

    event_shape = (3,)
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect, self.eps, self.momentum = defect, 1e-5, 0.1
        self.weight, self.bias = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))
        start = torch.zeros(3) if defect == "starts-at-zero" else torch.ones(3)
        self.register_buffer("running_mean", torch.zeros(3))
        self.register_buffer("running_var", start)
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: Any) -> Any:
        """Normalize a batch, by itself in train mode."""
        if x.shape[1] != 3 and self.defect != "any-channels":
            raise ValueError(f"expected 3 features, got {x.shape[1]}")
        if len(x) < 2 and self.training and self.defect != "single":
            raise ValueError("more than one value per channel is needed")
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = x.mean(0), x.var(0, unbiased=self.defect == "unbiased")
            self.update(mean.detach(), x.var(0).detach())
        if self.defect == "detached":
            mean, var = mean.detach(), var.detach()
        root = var.sqrt() + self.eps if self.defect == "eps-outside" else (var + self.eps).sqrt()
        return self.weight * (x - mean) / root + self.bias

    def update(self, mean: Any, var: Any) -> None:
        """Let a batch enter the running statistics."""
        share = 1 - self.momentum if self.defect == "keeps" else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(var, share / 2 if self.defect == "slow-variance" else share)
        self.num_batches_tracked += 2 if self.defect == "counts-twice" else 1


def batch_norm(defect: str = "") -> nn.Module:
    """A batch normalizer."""
    return BatchNorm(defect)
