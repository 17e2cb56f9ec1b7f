"""A masked autoregressive flow, and the bugs that are made in its masks and its loop."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class MaskedLinear(nn.Linear):
    """A linear layer whose weight is multiplied by a mask."""

    mask: Any

    def __init__(self, mask: Any) -> None:
        super().__init__(mask.shape[1], mask.shape[0])
        self.register_buffer("mask", mask)

    def forward(self, x: Any) -> Any:
        """The masked affine map."""
        return F.linear(x, self.weight * self.mask, self.bias)


class MaskedAutoregressive(nn.Module):
    r"""$z_i = (x_i - \mu_i(x_{<i}))\, e^{-\alpha_i(x_{<i})}$; ladj $-\sum_i \alpha_i$.

    Source: Papamakarios et al. 2017, Masked Autoregressive Flow (arXiv:1705.07057).
    """

    event_shape = (4,)

    def __init__(self, features: int = 4, hidden: int = 24, defect: str = "") -> None:
        super().__init__()
        self.features, self.defect = features, defect
        order, units = torch.arange(1, features + 1), torch.arange(hidden) % (features - 1) + 1
        last = order[:, None] >= units if defect == "mask-not-strict" else order[:, None] > units
        kind = torch.get_default_dtype()
        self.net = nn.Sequential(
            MaskedLinear((units[:, None] >= order).to(kind)),
            nn.Tanh(),
            MaskedLinear(last.to(kind).repeat(2, 1)),
        )
        self.original: Any = (lambda: self.net) if defect == "net-of-the-original" else None

    def conditioned(self, x: Any) -> Any:
        """Shifts and log-scales."""
        net = self.original() if self.original else self.net
        return net(x).chunk(2, -1)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents, in one pass."""
        mu, alpha = self.conditioned(x)
        ladj = -alpha[:, :-1].sum(-1) if self.defect == "last-missing" else -alpha.sum(-1)
        if self.defect == "scale-clamped":
            alpha = alpha.clamp(-1, 1)
        return (x - mu) * torch.exp(-alpha), ladj

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data, one coordinate after the other."""
        x = torch.zeros_like(z)
        order = (
            range(self.features - 1) if self.defect == "one-pass-too-few" else range(self.features)
        )
        for i in reversed(order) if self.defect == "inverse-order" else order:
            mu, alpha = self.conditioned(x)
            value = z[:, i] * torch.exp(alpha[:, i]) + mu[:, i]
            if self.defect == "value-detached":
                value = value.detach()
            x = torch.cat([x[:, :i], value[:, None], x[:, i + 1 :]], -1)
        return x, self.conditioned(x)[1].sum(-1)


def masked_autoregressive(defect: str = "") -> nn.Module:
    """A masked autoregressive flow on four features."""
    return MaskedAutoregressive(defect=defect)


SPECIMENS = (
    Specimen(
        "masked_autoregressive",
        {
            "mask-not-strict": ("map/inverse", "map/log-det"),
            "last-missing": ("map/log-det",),
            "scale-clamped": ("map/inverse", "map/log-det"),
            "one-pass-too-few": ("map/inverse",),
            "inverse-order": ("map/inverse",),
            "value-detached": ("map/inverse-jacobian",),
            "net-of-the-original": ("same/copied[after-training]",),
        },
    ),
)
