"""A subclass of nn.Sequential whose parts return pairs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Lin(nn.Module):
    r"""$y = x A$; ladj $\log |\det A|$."""

    def __init__(self) -> None:
        super().__init__()
        self.A = nn.Parameter(torch.eye(4) + 0.3 * torch.randn(4, 4))

    def forward(self, x: Any) -> Any:
        return x @ self.A, torch.linalg.slogdet(self.A)[1].repeat(len(x))

    def inverse(self, y: Any) -> Any:
        return y @ self.A.inverse(), -torch.linalg.slogdet(self.A)[1].repeat(len(y))


class Act(nn.Module):
    r"""$y = x$ where $x \ge 0$, $a x$ elsewhere."""

    def __init__(self, defect: str) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor(0.4))
        self.defect = defect

    def forward(self, x: Any) -> Any:
        a = self.a.abs() + 0.01
        y = torch.where(x < 0, a * x, x)
        at = y - 1 if self.defect == "shift-log-det" else x
        return y, torch.where(at < 0, a.log(), torch.zeros_like(x)).sum(1)

    def inverse(self, y: Any) -> Any:
        a = self.a.abs() + 0.01
        x = torch.where(y < 0, y / (self.a.abs() if self.defect == "neg-slope" else a), y)
        return x, -torch.where(y < 0, a.log(), torch.zeros_like(y)).sum(1)


class Flow(nn.Sequential):
    """Linear maps and leaky rectifiers in turn; the log-dets of the parts add up."""

    event_shape = (4,)

    def __init__(self, *ls: Any, defect: str = "") -> None:
        super().__init__(*ls)
        self.defect = defect

    def forward(self, x: Any) -> Any:
        ld = x.new_zeros(len(x))
        ms: list[Any] = list(self)
        if self.defect == "skip-eval" and (not self.training):
            ms = ms[:-1]
        for m in ms:
            x, term = m(x)
            ld = term if self.defect == "log-det-overwrite" else ld + term
        return x, ld

    def inverse(self, z: Any) -> Any:
        ld = z.new_zeros(len(z))
        ms: list[Any] = list(self)
        for m in ms if self.defect == "reversed" else ms[::-1]:
            z, term = m.inverse(z)
            ld = ld + term
        return z, ld


def sequential(defect: str = "") -> Any:
    torch.manual_seed(27)
    return Flow(Lin(), Act(defect), Lin(), Act(defect), Lin(), defect=defect)


SPECIMENS = (
    Specimen(
        "sequential",
        {
            "log-det-overwrite": ("map/log-det",),
            "reversed": ("map/inverse[latents]",),
            "shift-log-det": ("map/log-det",),
            "neg-slope": ("map/inverse[latents]",),
            "skip-eval": ("map/inverse[latents]",),
        },
    ),
)
