"""A linear map with gates that start at zero."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Late(nn.Module):
    r"""$z = \sinh(\operatorname{arsinh}(W x) + g)$ with $g = 0$ at first."""

    event_shape = (3,)
    V: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.W = nn.Parameter(
            torch.eye(3) * 1.2 + torch.tensor([[0, 0.2, 0], [0, 0, -0.3], [0, 0, 0]])
        )
        self.gate = nn.Parameter(torch.zeros(3))
        self.defect, self.n = defect, 0
        self.ld0 = float(torch.linalg.slogdet(self.W)[1])
        self.register_buffer("V", self.W.detach().inverse())

    def __deepcopy__(self, memo: Any) -> Any:
        if self.defect == "deepcopy":
            new = Late.__new__(Late)
            nn.Module.__init__(new)
            new.__dict__.update(self.__dict__)
            return new
        new = Late(self.defect)
        new.to(self.W.dtype)
        new.load_state_dict({k: v.detach().clone() for k, v in self.state_dict().items()})
        new.train(self.training)
        new.n = self.n
        for a, b in zip(new.parameters(), self.parameters(), strict=False):
            a.requires_grad_(b.requires_grad)
        return new

    def eval(self) -> Any:
        if self.defect == "freeze":
            self.W.requires_grad_(False)
        return super().eval()

    def forward(self, x: Any) -> Any:
        y = x @ self.W.T
        z = torch.sinh(torch.asinh(y) + self.gate)
        ld = (
            torch.linalg.slogdet(self.W)[1]
            if self.defect != "initial-log-det"
            else torch.tensor(self.ld0, dtype=x.dtype, device=x.device)
        )
        g = torch.log(torch.cosh(torch.asinh(y) + self.gate)) - 0.5 * torch.log1p(y * y)
        if self.defect == "zero-gate":
            g = g * 0
        if self.defect == "step-count" and self.training:
            self.n += 1
            g = g * min(1, self.n / 50)
            ld = ld * min(1.0, self.n / 50)
        return z, ld + g.sum(1)

    def inverse(self, z: Any) -> Any:
        y = torch.sinh(torch.asinh(z) - self.gate)
        V = self.V if self.defect == "load-inverse" else self.W.inverse()
        x = y @ V.T
        g = torch.log(torch.cosh(torch.asinh(y) + self.gate)) - 0.5 * torch.log1p(y * y)
        return x, -(torch.linalg.slogdet(self.W)[1] + g.sum(1))


def gated(defect: str = "") -> Any:
    return Late(defect)


SPECIMENS = (
    Specimen(
        "gated",
        {
            "initial-log-det": ("map/log-det",),
            "load-inverse": ("map/inverse[latents]",),
            "zero-gate": ("map/log-det",),
            "freeze": ("effects/state[parameters]",),
            "deepcopy": ("same/copied[independence]",),
            "step-count": ("same/train-mode[log-det]",),
        },
    ),
)
