"""Flows of the size that people train, with the bugs that show at that size alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

FEATURES, IMAGE, DEGREES = 784, (6, 8, 12), 64


class WideCoupling(nn.Module):
    r"""$z_b = x_b \odot s + t$ with $s = \sigma(\cdot)$ of the first half of many entries."""

    coupling = "affine"

    def __init__(self, features: int = FEATURES, hidden: int = 16, defect: str = "") -> None:
        super().__init__()
        self.event_shape, self.defect = (features,), defect
        self.first_half = features // 2
        self.kept = torch.arange(features) < self.first_half
        self.enter = nn.Linear(self.first_half, hidden)
        self.leave = nn.Linear(hidden, 2 * (features - self.first_half))
        # Scales start near a tenth, as where data are much wider than latents.
        nn.init.constant_(self.leave.bias[: features - self.first_half], -2.2)

    def parameters_of(self, kept: Any) -> tuple[Any, Any]:
        """Logarithm of the scale, and shift."""
        raw, shift = self.leave(torch.tanh(self.enter(kept))).chunk(2, -1)
        return nn.functional.logsigmoid(raw), shift

    def log_det(self, log_scale: Any) -> Any:
        """The sum of the logarithms."""
        if self.defect == "product":
            return log_scale.exp().prod(-1).log()
        if self.defect == "first-entries":
            return log_scale[..., :256].sum(-1)
        return log_scale.sum(-1)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        kept, moved = x[..., : self.first_half], x[..., self.first_half :]
        log_scale, shift = self.parameters_of(kept)
        if self.defect == "peeks":  # one entry late in a long vector sees its neighbor
            shift = shift + torch.zeros_like(shift).index_fill(-1, torch.tensor([300]), 1e-6) * (
                moved.roll(1, -1)
            )
        return torch.cat([kept, moved * log_scale.exp() + shift], -1), self.log_det(log_scale)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        kept, moved = z[..., : self.first_half], z[..., self.first_half :]
        log_scale, shift = self.parameters_of(kept)
        return torch.cat([kept, (moved - shift) * (-log_scale).exp()], -1), -self.log_det(log_scale)


class Mixing(nn.Module):
    """A matrix over the channels at each position."""

    def __init__(self, channels: int, defect: str) -> None:
        super().__init__()
        self.defect = defect
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(channels, channels))[0] * 1.1)

    def log_det(self, x: Any) -> Any:
        """log|det| of the matrix, once per position."""
        _, _, height, width = x.shape
        positions = {"": height * width, "square": height * height, "once": 1}
        return (positions[self.defect] * torch.slogdet(self.weight)[1]).expand(len(x))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return torch.einsum("ij,bjhw->bihw", self.weight, x), self.log_det(x)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        back = torch.linalg.inv(self.weight)
        return torch.einsum("ij,bjhw->bihw", back, z), -self.log_det(z)


class ChannelCoupling(nn.Module):
    """The first half of the channels moves the other."""

    def __init__(self, channels: int, hidden: int = 8) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(channels // 2, hidden, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(hidden, channels, 3, padding=1),
        )

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        kept, moved = x.chunk(2, 1)
        raw, shift = self.net(kept).chunk(2, 1)
        scale = raw.tanh()
        return torch.cat([kept, moved * scale.exp() + shift], 1), scale.sum((1, 2, 3))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        kept, moved = z.chunk(2, 1)
        raw, shift = self.net(kept).chunk(2, 1)
        scale = raw.tanh()
        return torch.cat([kept, (moved - shift) * (-scale).exp()], 1), -scale.sum((1, 2, 3))


class WideGlow(nn.Module):
    """Two steps of mixing and coupling on images that are wider than high."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.event_shape = IMAGE
        mixing = defect if defect in ("square", "once") else ""
        self.mean = defect == "batch-mean"
        self.steps = nn.ModuleList(
            [layer for _ in range(2) for layer in (Mixing(IMAGE[0], mixing), ChannelCoupling(6))]
        )

    def told(self, total: Any) -> Any:
        """The log-det of each image."""
        return total.mean().expand_as(total) if self.mean else total

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        total = x.new_zeros(len(x))
        for step in self.steps:
            x, ladj = step(x)
            total = total + ladj
        return x, self.told(total)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        total = z.new_zeros(len(z))
        for step in reversed(self.steps):
            z, ladj = step.inverse(z)  # type: ignore[operator]  # a module with both calls
            total = total + ladj
        return z, self.told(total)


class WideAutoregressive(nn.Module):
    r"""$z_i = x_i e^{s_i} + t_i$ of the entries before, by a masked net, forward in one pass."""

    first: Any
    last: Any

    def __init__(self, features: int = 2 * DEGREES + 32, defect: str = "") -> None:
        super().__init__()
        self.event_shape = (features,)
        inputs = torch.arange(features)
        outputs = inputs.clone()
        hidden = torch.arange(features) % (features - 1)
        if defect == "mask-repeats":  # numbers of 64 entries, used for more
            outputs = outputs % DEGREES + DEGREES * (outputs >= DEGREES)
        self.enter, self.leave = nn.Linear(features, features), nn.Linear(features, 2 * features)
        self.register_buffer("first", (hidden[:, None] >= inputs).double())
        self.register_buffer("last", (outputs[:, None] > hidden).double().repeat(2, 1))
        if defect == "mask-repeats":
            self.first = (hidden[:, None] % DEGREES >= inputs % DEGREES).double()

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        first, last = self.first.to(x.dtype), self.last.to(x.dtype)
        inner = torch.tanh(nn.functional.linear(x, self.enter.weight * first, self.enter.bias))
        raw, shift = nn.functional.linear(inner, self.leave.weight * last, self.leave.bias).chunk(
            2, -1
        )
        scale = raw.tanh()
        return x * scale.exp() + shift, scale.sum(-1)


def coupling(defect: str = "") -> nn.Module:
    """A coupling of 784 features."""
    return WideCoupling(defect=defect)


def glow(defect: str = "") -> nn.Module:
    """Two steps of Glow on images of 6 x 8 x 12."""
    return WideGlow(defect)


def autoregressive(defect: str = "") -> nn.Module:
    """A masked autoregressive map of 160 features."""
    return WideAutoregressive(defect=defect)


SPECIMENS = (
    Specimen(
        "coupling",
        {
            "product": ("map/log-det", "coupling/closed-form"),
            "first-entries": ("map/log-det",),
            "peeks": ("coupling/pattern[conditioner]",),
        },
    ),
    Specimen(
        "glow",
        {
            "square": ("map/log-det",),
            "once": ("map/log-det",),
            "batch-mean": ("same/rows",),
        },
    ),
    Specimen("autoregressive", {"mask-repeats": ("map/log-det",)}),
)
