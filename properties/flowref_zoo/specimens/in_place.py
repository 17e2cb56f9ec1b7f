"""An autoregressive flow whose inverse writes its coordinates into place, which autograd cannot
follow: the map is right all the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.autoregressive import MaskedAutoregressive
from flowref_zoo.specimens.specimen import Specimen


class InPlace(MaskedAutoregressive):
    r"""$z_i = (x_i - \mu_i(x_{<i}))\, e^{-\alpha_i(x_{<i})}$; ladj $-\sum_i \alpha_i$."""

    def __init__(self, way: str = "", defect: str = "") -> None:
        super().__init__()
        self.way, self.bug = way, defect

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data, each coordinate written into the tensor that the net reads next."""
        x = torch.zeros_like(z)
        ladj = torch.zeros(len(z), dtype=z.dtype, device=z.device)
        mu = alpha = x
        for i in range(self.features):
            mu, alpha = self.net(x).chunk(2, -1)
            value = z[:, i] * torch.exp(alpha[:, i]) + mu[:, i]
            if self.way == "unrecorded":
                x.data[:, i] = value.data
            else:
                x[:, i] = value
            if not (self.bug == "log-det" and i == self.features - 1):
                ladj = ladj + alpha[:, i]
        return z * torch.exp(alpha) + mu if self.way == "unrecorded" else x, ladj


def autoregressive(defect: str = "") -> nn.Module:
    """Autograd refuses to differentiate the inverse."""
    return InPlace(defect=defect)


def unrecorded(defect: str = "") -> nn.Module:
    """Autograd loses what the loop writes, and differentiates the inverse wrongly."""
    return InPlace("unrecorded", defect)


SPECIMENS = (
    Specimen("autoregressive", {"log-det": ("map/log-det[inverse]",)}),
    Specimen("unrecorded", {"log-det": ("map/log-det[inverse]",)}),
)
