"""A density in the plane that behaves, and the bugs that show only in how its calls behave."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class Scaling(nn.Module):
    r"""$z = (x - \mu) e^{s}$, with $\mu$ and $s$ set by the first batch in training, as activation
    normalization does.
    """

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.mean, self.scale = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
        self.ready: Any
        self.register_buffer("ready", torch.tensor(False))

    def start(self, x: Any) -> None:
        """Take mean and deviation of the first batch."""
        if not self.training or (self.ready and self.defect != "initialized-by-every-batch"):
            return
        with torch.no_grad():
            self.mean.copy_(x.mean(0))
            self.scale.copy_(-torch.log(x.std(0, unbiased=False) + 1e-3))
            self.ready.fill_(True)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        self.start(x)
        return (x - self.mean) * self.scale.exp(), self.scale.sum().expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return z * (-self.scale).exp() + self.mean, -self.scale.sum().expand(len(z))


class WellBehaved(nn.Module):
    """A scaling and two couplings in the plane."""

    event_shape = (2,)

    def __init__(self, hidden: int = 8, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        if defect == "constructor-seeds":
            torch.manual_seed(0)
        if defect == "constructor-seeds-numpy":
            np.random.seed(0)
        self.norm = Scaling(defect)
        nets = [
            nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, 2)) for _ in range(2)
        ]
        for net in nets:
            nn.init.zeros_(net[-1].bias)  # type: ignore[arg-type]  # a Linear
        self.gate = nn.Parameter(torch.full((1,), 0.0 if defect == "two-zeros" else 0.5))
        if defect == "two-zeros":
            nn.init.zeros_(nets[0][-1].weight)  # type: ignore[arg-type]  # a Linear
        self.nets: Any = nets if defect == "layers-in-a-list" else nn.ModuleList(nets)
        if defect == "layers-in-a-closure":
            self.nets = nn.ModuleList(nets[1:])
            inner: Any = nets[0]
            self.first = lambda a: inner(a)
        self.last: Any = (None, None)

    def net(self, index: int, a: Any) -> Any:
        """Shift and log-scale."""
        nets: Any = [self.first, *self.nets] if self.defect == "layers-in-a-closure" else self.nets
        s, t = nets[index](a).chunk(2, -1)
        s = torch.tanh(s * self.gate) if index == 0 else torch.tanh(s)
        if self.defect == "scale-detached":
            s = s.detach()
        if index == 0:
            t = t * (float(self.gate) if self.defect == "gate-as-a-number" else self.gate)
        return s, t

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents; the coordinates change places after each coupling."""
        if self.defect == "answers-the-last-tensor" and self.last[0] is x:
            return self.last[1]  # type: ignore[no-any-return]  # what was returned before
        z, ladj = self.norm(x)
        a, b = z[:, :1], z[:, 1:]
        for index in range(2):
            s, t = self.net(index, a)
            a, b = b * s.exp() + t, a
            ladj = ladj + s.squeeze(-1)
        out = torch.cat([a, b], -1), ladj
        if self.defect == "answers-the-last-tensor":
            self.last = x, out
        return out

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        a, b = z[:, :1], z[:, 1:]
        ladj = z.new_zeros(len(z))
        for index in (1, 0):
            s, t = self.net(index, b)
            a, b = b, (a - t) * (-s).exp()
            ladj = ladj - s.squeeze(-1)
        x, last = self.norm.inverse(torch.cat([a, b], -1))
        return x, ladj + last

    def log_prob(self, x: Any) -> Any:
        """Log-density of each point."""
        if self.defect == "log-prob-without-graph":
            with torch.no_grad():
                z, ladj = self(x)
        else:
            z, ladj = self(x)
        value = -0.5 * (z**2).sum(-1) - math.log(2 * math.pi) + ladj
        return value.unsqueeze(-1).squeeze() if self.defect == "log-prob-squeezed" else value

    def sample(self, n: int) -> Any:
        """Draw ``n`` points."""
        if self.defect == "sampling-ends-training":
            self.eval()
        if self.defect == "sampler-seeds":
            torch.manual_seed(1)
        kind = self.norm.mean.dtype
        if self.defect == "sampler-has-a-fixed-generator":
            z = torch.randn(n, 2, dtype=kind, generator=torch.Generator().manual_seed(1))
        else:
            z = torch.randn(n, 2, dtype=kind, device=self.norm.mean.device)
        with torch.no_grad():
            x = self.inverse(z)[0]
        if self.defect == "samples-in-float32":
            x = x.float()
        if self.defect == "samples-sometimes-infinite":
            x = torch.where(z > 2.6, x / torch.zeros_like(x), x)
        return x.squeeze() if self.defect == "samples-squeezed" else x


def well_behaved(defect: str = "") -> nn.Module:
    """A density in the plane with its samples."""
    return WellBehaved(defect=defect)


SPECIMENS = (
    Specimen(
        "well_behaved",
        {
            "layers-in-a-list": ("state/registered",),
            "layers-in-a-closure": ("state/registered",),
            "initialized-by-every-batch": ("effects/state[parameters]",),
            "two-zeros": ("gradient/reaches-parameters[start]",),
            "scale-detached": ("gradient/parameters[value]",),
            "gate-as-a-number": ("gradient/parameters[value]",),
            "log-prob-without-graph": ("gradient/parameters[value]",),
            "log-prob-squeezed": ("shape/any-batch[one-row]",),
            "answers-the-last-tensor": ("same/history[same-tensor]",),
            "sampling-ends-training": ("effects/state[mode]",),
            "sampler-seeds": ("random/seeded[two-calls]", "effects/process[settings]"),
            "sampler-has-a-fixed-generator": ("random/seeded[two-calls]",),
            "samples-in-float32": ("shape/one-number-per-point[samples]",),
            "samples-sometimes-infinite": ("map/finite[samples]",),
            "samples-squeezed": ("shape/one-number-per-point[samples]",),
            "constructor-seeds": ("effects/construction[settings]",),
            "constructor-seeds-numpy": ("effects/construction[settings]",),
        },
    ),
)
