"""Layers as users of SurVAE flows write them: they say whether they draw, and what they contribute."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.distributions import Normal

from flowref_zoo.specimens.specimen import Specimen


class Transform(nn.Module):
    """What the layers share: they are no bijections."""

    bijective, stochastic_forward, stochastic_inverse = False, False, True


class Absolute(Transform):
    r"""$z = |x|$, the sign by a fair coin: $-D \log 2$. Source: Nielsen et al. (arXiv:2007.02731)."""

    event_shape, codomain = (2,), "positive"

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        sign = 1 if self.defect == "sign" else -1
        entries = 1 if self.defect == "one-entry" else x.shape[1]
        z = x.abs()
        if self.defect == "jittered":
            z = z + 1e-6 * torch.rand_like(z)
        return z, sign * math.log(2) * entries * torch.ones(len(x), dtype=x.dtype, device=x.device)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        if self.defect == "no-sign":
            return z
        return z * (2 * torch.bernoulli(0.5 * torch.ones_like(z)) - 1)


def absolute(defect: str = "") -> nn.Module:
    """The absolute value of two numbers."""
    return Absolute(defect)


class Drop(Transform):
    r"""Two of three entries are kept, and the third is normal around a function of them."""

    event_shape, codomain = (3,), "real"

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.decoder = nn.Linear(2, 1)
        self.log_scale = nn.Parameter(torch.tensor(-0.7))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        z, rest = x[:, :2], x[:, 2:]
        standard = (rest - self.decoder(z)) * torch.exp(-self.log_scale)
        logs = -0.5 * standard.square() - 0.5 * math.log(2 * math.pi)
        if self.defect != "scale-missing":
            logs = logs - self.log_scale
        return z, logs.sum(1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        rest = torch.randn(len(z), 1, dtype=z.dtype, device=z.device) * self.log_scale.exp()
        if self.defect != "mean-missing":
            rest = rest + self.decoder(z)
        return torch.cat([rest, z] if self.defect == "other-order" else [z, rest], 1)


def drop(defect: str = "") -> nn.Module:
    """A slice of three numbers."""
    return Drop(defect)


class Variational(Transform):
    r"""One random latent number for two: $\log p(x | z) - \log q(z | x)$. Source: Kingma and Welling
    (arXiv:1312.6114).
    """

    event_shape, codomain, stochastic_forward = (2,), "real", True

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.encoder, self.decoder = nn.Linear(2, 1), nn.Linear(1, 2)
        if defect == "says-it-draws-nothing":
            self.stochastic_forward = False

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        posterior = Normal(self.encoder(x), 0.8)
        z = posterior.sample()
        told = Normal(self.decoder(z), 1.0).log_prob(x).sum(1)
        gained = posterior.log_prob(z).sum(1)
        return z, told + gained if self.defect == "posterior-added" else told - gained

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        noise = 1.5 if self.defect == "other-noise" else 1.0
        return Normal(self.decoder(z), noise).sample()


def variational_layer(defect: str = "") -> nn.Module:
    """A variational layer from two numbers to one."""
    return Variational(defect)


class Langevin(Transform):
    r"""$y = x - h\,\nabla u(x) + \sqrt{2h}\,\eta$ for a quartic u, with
    $\frac12 (\|\eta\|^2 - \|\tilde\eta\|^2)$. Source: Wu et al. (arXiv:2002.06707).
    """

    event_shape, codomain, stochastic_forward, STEP = (2,), "real", True, 0.1

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect

    def slope(self, x: Any) -> Any:
        """The gradient of the sum of sqrt(1 + x^2) and of half of the square."""
        return x / torch.sqrt(1 + x.square()) + x

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        h, eta = self.STEP, torch.randn_like(x)
        y = x - h * self.slope(x) + math.sqrt(2 * h) * eta
        end = x if self.defect == "slope-of-the-start" else y
        back = math.sqrt(h / 2) * (self.slope(x) + self.slope(end)) - eta
        weight = 0.5 * (eta.square() - back.square()).sum(1)
        return y, -weight if self.defect == "sign" else weight

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return self.forward(z)


def langevin(defect: str = "") -> nn.Module:
    """A Langevin step of two numbers."""
    return Langevin(defect)


class Pooled(Transform):
    r"""The largest of each four of eight numbers. Which it was is uniform, and how far the others lie
    below half-normal: $\sum -\log 4 + \sum \log p(z - x)$. Source: Nielsen et al. (arXiv:2007.02731).
    """

    event_shape, codomain = (2, 4), "real"

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_scale = nn.Parameter(torch.full((3,), 0.4))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        z, index = x.max(-1)
        below = (z[..., None] - x)[self._others(x, index)].view(*z.shape, 3)
        logs = 0.5 * math.log(2 / math.pi) - self.log_scale
        logs = logs - 0.5 * (below * torch.exp(-self.log_scale)).square()
        return z, logs.sum((1, 2)) - math.log(4) * z.shape[1]

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        index = torch.randint(4, z.shape, device=z.device)
        if self.defect == "one-choice":
            index = index[:, :1].expand(z.shape)
        below = (
            torch.randn(*z.shape, 3, dtype=z.dtype, device=z.device).abs() * self.log_scale.exp()
        )
        x = z[..., None].repeat(1, 1, 4)
        return x.masked_scatter(self._others(x, index), z[..., None] - below)

    @staticmethod
    def _others(x: Any, index: Any) -> Any:
        return torch.ones_like(x, dtype=torch.bool).scatter(-1, index[..., None], False)


def pooled(defect: str = "") -> nn.Module:
    """The largest of two groups."""
    return Pooled(defect)


INTEGRAL, TWO_WAYS = "density/mass[contribution]", "kernel/follows-contribution"
BALANCE = "kernel/follows-contribution[balance]"
TOLD, ONE_SIDED = "random/seeded[no-draws]", "map/inverse[draws]"
SPECIMENS = (
    Specimen(
        "absolute",
        {
            "sign": (INTEGRAL,),
            "one-entry": (INTEGRAL,),
            "jittered": (TOLD,),
            "no-sign": (TWO_WAYS,),
        },
    ),
    Specimen(
        "drop",
        {"scale-missing": (INTEGRAL,), "mean-missing": (TWO_WAYS,), "other-order": (ONE_SIDED,)},
    ),
    Specimen(
        "variational_layer",
        {
            "posterior-added": (INTEGRAL,),
            "other-noise": (TWO_WAYS,),
            "says-it-draws-nothing": (TOLD,),
        },
    ),
    Specimen("pooled", {"one-choice": (TWO_WAYS,)}),
    Specimen("langevin", {"slope-of-the-start": (INTEGRAL,), "sign": (BALANCE,)}),
)
