"""Maps that tell their log-det beside the value, that take tuples, or that ask for a context, a mask
or a label; and parts that go back by a value alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen
from flowref_zoo.specimens.spoken import BUGS, Coupled


class Telling(Coupled):
    """Forward returns the latents alone; the log-det is a method of the input."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)[0]

    def log_abs_det(self, x: Any) -> Any:
        """The log-det at the input."""
        if self.defect == "log-det-of-the-value":
            x = self.onward(x)[0]
        return self.onward(x)[1]

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)[0]


class Leaving(Coupled):
    """Each call leaves its log-det in an attribute."""

    def __init__(self, hidden: int = 8, defect: str = "") -> None:
        super().__init__(hidden, defect)
        self.logdet: Any = None

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, self.logdet = self.onward(x)
        return z

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        x, self.logdet = self.back(z)
        return x


class Receding(Coupled):
    """The log-det is a method of what the way back takes, and of that way."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)[0]

    def backward(self, y: Any) -> Any:
        """Latents to data."""
        return self.back(y)[0]

    def log_jac_det(self, y: Any) -> Any:
        """That of the way back."""
        return self.back(y)[1]


class Homing(Coupled):
    """The way back has a name that nobody else uses."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)

    def unwarp(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)


class GivenOne(nn.Module):
    """A normal density that may be given a mean; of samples the second axis is that of means."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_scale = nn.Parameter(torch.tensor([0.4, -0.3, 0.2]))

    def log_prob(self, x: Any, context: Any = None) -> Any:
        """Log-densities."""
        mean = 0.0 if context is None else context
        return torch.distributions.Normal(mean, self.log_scale.exp()).log_prob(x).sum(-1)

    def sample(self, n: int = 1, context: Any = None) -> Any:
        """So many points for each mean."""
        means = (
            torch.zeros(1, 3, dtype=self.log_scale.dtype, device=self.log_scale.device)
            if context is None
            else context
        )
        scale = self.log_scale.exp() * (1.1 if self.defect == "wider-samples" else 1.0)
        with torch.no_grad():
            return means + scale * torch.randn(
                n, len(means), 3, dtype=means.dtype, device=means.device
            )


class Handing(nn.Module):
    """Each call leaves its log-det, the same for all points, in an attribute that a property hands out."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.log_scale = nn.Parameter(torch.tensor([0.4, -0.3, 0.2]))
        self._logdet: Any = None

    @property
    def logdet(self) -> Any:
        """Of the last call."""
        return self._logdet

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        kept = self.log_scale[: 2 if self.defect == "entry-forgotten" else 3]
        self._logdet = kept.sum().expand(len(x))
        return x * self.log_scale.exp()

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z * (-self.log_scale).exp()


class Wrapped(Coupled):
    """Inputs and outputs are tuples of one tensor, as nodes of a graph pass them on."""

    def forward(self, x: Any, c: Any = None, rev: bool = False, jac: bool = True) -> Any:
        """Data to latents, or back."""
        y, ladj = self.back(x[0]) if rev else self.onward(x[0])
        if rev and self.defect == "jacobian-of-the-other-way":
            ladj = -ladj
        return (y,), ladj if jac else None


class Backwards(Coupled):
    """It goes back unless it is told not to, and adds to a running log-det only there."""

    def forward(self, x: Any, sldj: Any = None, reverse: bool = True) -> Any:
        """Latents to data, or data to latents."""
        if reverse:
            return self.back(x)[0], sldj
        z, ladj = self.onward(x)
        return z, ladj if sldj is None else sldj + ladj


class Asking(nn.Module):
    r"""$z_a = x_a$, $z_b = x_b \odot e^{s(x_a, c)} + t(x_a, c)$ with the logarithm of the scale and the
    shift from a net of five numbers, of which two are the point's.
    """

    event_shape = (4,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Sequential(nn.Linear(2 + 3, 8), nn.Tanh(), nn.Linear(8, 4))

    def terms(self, a: Any, y: Any) -> tuple[Any, Any]:
        """The bounded log-scale and the shift."""
        if self.defect == "label-of-the-first-row":
            y = y[:1].expand_as(y)
        s, t = self.net(torch.cat([a, y], -1)).chunk(2, -1)
        return torch.tanh(s), t

    def forward(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Data to latents, given labels."""
        a, b = x.chunk(2, -1)
        s, t = self.terms(a, y)
        z = torch.cat([a, b * s.exp() + t], -1)
        return z, s.mean(-1) if self.defect == "log-det-averaged" else s.sum(-1)

    def inverse(self, z: Any, y: Any) -> Any:
        """Latents to data, given labels."""
        a, b = z.chunk(2, -1)
        s, t = self.terms(a, -y if self.defect == "label-turned" else y)
        return torch.cat([a, (b - t) * (-s).exp()], -1)


class Masking(nn.Module):
    """Scales and shifts of channels of a sequence, where a mask is one."""

    event_shape = (2, 5)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.shift, self.logs = nn.Parameter(torch.randn(2, 1)), nn.Parameter(torch.randn(2, 1) / 2)

    def forward(self, x: Any, x_mask: Any, reverse: bool = False) -> Any:
        """Data to latents, with a log-det; or back, without one."""
        if reverse:
            gain = self.logs if self.defect == "inverse-gain-sign" else -self.logs
            return (x - self.shift) * gain.exp() * x_mask
        logs = self.logs * x_mask
        if self.defect == "first-channel":
            logs = logs[:, :1]
        return (self.shift + x * self.logs.exp()) * x_mask, logs.sum((1, 2))


class Labeled(nn.Module):
    """Scales and shifts by the class of a point, from a table."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect, self.table = defect, nn.Embedding(4, 6)

    def forward(self, x: Any, labels: Any) -> tuple[Any, Any]:
        """Data to latents."""
        logs, shift = self.table(labels).chunk(2, -1)
        return x * logs.exp() + shift, logs[:, 1:].sum(-1) if self.defect else logs.sum(-1)

    def inverse(self, z: Any, labels: Any) -> Any:
        """Latents to data."""
        logs, shift = self.table(labels).chunk(2, -1)
        return (z - shift) * (-logs).exp()


class Turning(nn.Module):
    """A permutation of channels, which goes back by `reverse`, alone."""

    order: Any

    def __init__(self, order: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("order", torch.tensor(order))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return x[:, self.order], x.new_zeros(len(x))

    def reverse(self, z: Any) -> Any:
        """Latents to data."""
        return z[:, torch.argsort(self.order)]


class Block(nn.Module):
    """Permutations one after the other, whose way back is a value alone."""

    event_shape = (4,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.flows = nn.ModuleList([Turning((1, 2, 0, 3)), Turning((3, 0, 1, 2))])

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        total = x.new_zeros(len(x))
        for flow in self.flows:
            x, ladj = flow(x)
            total = total + ladj
        return x, total

    def reverse(self, z: Any) -> Any:
        """Latents to data."""
        flows: list[Any] = list(self.flows)
        for flow in flows if self.defect else flows[::-1]:
            z = flow.reverse(z)
        return z


def masking(defect: str = "") -> nn.Module:
    """Channels of a sequence under a mask."""
    return Masking(defect)


def labeled(defect: str = "") -> nn.Module:
    """Scales by classes."""
    return Labeled(defect)


def block(defect: str = "") -> nn.Module:
    """A block of two permutations."""
    return Block(defect)


def telling(defect: str = "") -> nn.Module:
    """A coupling with log_abs_det(x)."""
    return Telling(defect=defect)


def leaving(defect: str = "") -> nn.Module:
    """A coupling that leaves its log-det in an attribute."""
    return Leaving(defect=defect)


def receding(defect: str = "") -> nn.Module:
    """A coupling with log_jac_det(y) of backward(y)."""
    return Receding(defect=defect)


def homing(defect: str = "") -> nn.Module:
    """A coupling that goes back by unwarp(z)."""
    return Homing(defect=defect)


def given_one(defect: str = "") -> nn.Module:
    """A density whose samples have an axis of contexts."""
    return GivenOne(defect)


def handing(defect: str = "") -> nn.Module:
    """A scale whose log-det is a property."""
    return Handing(defect)


def backwards(defect: str = "") -> nn.Module:
    """A coupling whose default is the way back."""
    return Backwards(defect=defect)


def wrapped(defect: str = "") -> nn.Module:
    """A coupling of tuples."""
    return Wrapped(defect=defect)


def asking(defect: str = "") -> nn.Module:
    """A coupling of four features and a label of three numbers."""
    return Asking(defect=defect)


SPECIMENS = (
    Specimen("telling", {**BUGS, "log-det-of-the-value": ("map/log-det",)}),
    Specimen("leaving", {name: laws for name, laws in BUGS.items() if "batch" not in name}),
    Specimen(
        "receding",
        # The other sign is the log-det of the map, from what comes out of it.
        {
            name: ("map/log-det[inverse]", *laws)
            for name, laws in BUGS.items()
            if name != "log-det-sign"
        },
    ),
    # A way back that goes elsewhere is found by its name alone.
    Specimen("homing", {name: laws for name, laws in BUGS.items() if "inverse" not in name}),
    Specimen(
        "given_one",
        {"wider-samples": ("sampling/follows-density[ratios]", "sampling/follows-density")},
    ),
    Specimen("handing", {"entry-forgotten": ("map/log-det",)}),
    Specimen("backwards", BUGS),
    Specimen("wrapped", {**BUGS, "jacobian-of-the-other-way": ("map/log-det[inverse]",)}),
    Specimen(
        "asking",
        {
            "label-of-the-first-row": ("same/rows",),
            "log-det-averaged": ("map/log-det",),
            "label-turned": ("map/inverse",),
        },
    ),
    Specimen(
        "masking",
        {
            "inverse-gain-sign": ("map/inverse",),
            "first-channel": ("map/log-det",),
        },
    ),
    Specimen("labeled", {"first-missing": ("map/log-det",)}),
    Specimen(
        "block",
        {"order-kept": ("map/inverse", "composition/algebra[inverse]")},
    ),
)
