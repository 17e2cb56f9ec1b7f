r"""Normalizing flows as a tutorial in another language writes them, with its bugs, each of which
can be had alone.

The bugs are numbered like the claims of the tutorial, 001-1 to 001-27. `make` builds what shows
the bugs that it is given, `ROWS` says which laws each of them breaks. Where the tutorial is right a
bug is what its sentence warns of: splines that miss their bound (001-12), signs that are 0 (001-15), a gate that is
left out (001-16), estimates at test time (001-23), zeros for noise (001-24), half of a trace (001-25).
Not here: 001-1 and 001-4, of which the wrong forms are 001-5 and 001-6; 001-26, which is of trained
flows; 001-27, a list of defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from flowref_zoo.seeds.bug_rows import ALL, NONE, Row, alone, built, chosen, refuse_other
from flowref_zoo.seeds.flows_beyond import RAD, Abs, Augment, Augmented, Metropolis
from flowref_zoo.seeds.flows_continuous import Continuous, Estimated, Ffjord, Transport
from flowref_zoo.seeds.flows_spline import Spline
from flowref_zoo.seeds.real_nvp import BatchNormLayer


class Exp(nn.Module):
    r"""$y = e^x$, ladj $\sum_i x_i$.

    Rows: 001-2, the sum runs over the samples of a batch as well.
    """

    BUGS = ("001-2",)
    event_shape, codomain = (3,), "positive"

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)

    def summed(self, terms: Any) -> Any:
        """The log-det of every sample, or one number for all."""
        return terms.sum() if "001-2" in self.rows else terms.sum(-1)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return x.exp(), self.summed(x)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        x = z.log()
        return x, -self.summed(x)


class Shear(nn.Module):
    r"""$z_i = e^s (x_i + \tanh x_j)$, $z_j = x_j$; ladj s."""

    def __init__(self, moved: int, log_scale: float) -> None:
        super().__init__()
        self.moved = moved
        self.log_scale = nn.Parameter(torch.tensor(log_scale))

    def joined(self, moved: Any, kept: Any) -> Any:
        """Both entries."""
        return torch.stack([moved, kept] if self.moved == 0 else [kept, moved], -1)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        moved, kept = x[:, self.moved], x[:, 1 - self.moved]
        z = self.log_scale.exp() * (moved + kept.tanh())
        return self.joined(z, kept), self.log_scale.expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        moved, kept = z[:, self.moved], z[:, 1 - self.moved]
        x = torch.exp(-self.log_scale) * moved - kept.tanh()
        return self.joined(x, kept), -self.log_scale.expand(len(z))


class Composed(nn.Module):
    r"""`composel`: several maps from left to right; the inverse is their inverses from right to left.

    Rows: 001-3, forward is a left fold of $\circ$, which takes the last map first.
    """

    BUGS = ("001-3",)
    event_shape = (2,)

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        self.maps = nn.ModuleList([Shear(0, 0.3), Shear(1, -0.2), Shear(0, 0.1)])

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        refuse_other(x, 2)
        total = torch.zeros_like(x[:, 0])
        for layer in reversed(self.maps) if "001-3" in self.rows else self.maps:
            x, ladj = layer(x)
            total = total + ladj
        return x, total

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        refuse_other(z, 2)
        total = torch.zeros_like(z[:, 0])
        for layer in reversed(self.maps):
            z, ladj = layer.inverse(z)  # type: ignore[operator]  # a module with an inverse
            total = total + ladj
        return z, total


class Coupling(nn.Module):
    r"""$y_a = x_a \odot e^{f_\sigma(x_b)} + f_\mu(x_b)$, $y_b = x_b$, the first half transformed;
    ladj $\sum_j f_\sigma(x_b)_j$.

    Rows: 001-5, ladj is $\sum_i \ln|f_\sigma(x_i)|$; 001-6, the determinant of the triangular
    Jacobian is its trace; 001-7, the inverse conditions on a name of the other function; 001-8,
    each chunk of the network's outputs has one row too many; 001-9, the network takes half of the
    features, rounded down, where the rest has one more if their number is odd.
    """

    BUGS = ("001-5", "001-6", "001-7", "001-8", "001-9")
    coupling = "affine"

    def __init__(self, rows: str = ALL, hidden: int = 8) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        features = 3 if "001-9" in self.rows else 4
        self.split = features // 2
        rest = features - self.split
        self.event_shape = (features,)
        self.kept = [0.0] * self.split + [1.0] * rest
        inputs = features // 2 if "001-9" in self.rows else rest
        self.conditioner = nn.Sequential(
            nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 2 * self.split)
        )

    def shift_and_scale(self, rest: Any) -> tuple[Any, Any]:
        """The two halves of the network's outputs."""
        out = self.conditioner(rest)
        extra = 1 if "001-8" in self.rows else 0
        return out[:, : self.split + extra], out[:, self.split :]

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        refuse_other(x, *self.event_shape)
        x1, x2 = x[:, : self.split], x[:, self.split :]
        shift, scale = self.shift_and_scale(x2)
        ladj = scale.sum(-1)
        if "001-5" in self.rows:
            ladj = scale.abs().log().sum(-1)
        if "001-6" in self.rows:
            ladj = (x2.shape[1] + scale.exp().sum(-1)).log()
        return torch.cat([x1 * scale.exp() + shift, x2], -1), ladj

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        refuse_other(z, *self.event_shape)
        z1, z2 = z[:, : self.split], z[:, self.split :]
        rest = x2 if "001-7" in self.rows else z2  # type: ignore[name-defined]  # noqa: F821  the bug
        shift, scale = self.shift_and_scale(rest)
        return torch.cat([(z1 - shift) / scale.exp(), z2], -1), -scale.sum(-1)


class Mixing(nn.Module):
    r"""$z = W x$ on vectors, ladj $\log|\det W|$.

    Rows: 001-10, the inverse refers to the argument of the other function.
    """

    BUGS = ("001-10",)
    event_shape = (3,)

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(3, 3))[0])

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return x @ self.weight.T, torch.linalg.slogdet(self.weight)[1].expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        point = x if "001-10" in self.rows else z  # type: ignore[name-defined]  # noqa: F821  the bug
        return torch.linalg.solve(self.weight, point.T).T, -torch.linalg.slogdet(self.weight)[
            1
        ].expand(len(z))


class Residual(nn.Module):
    r"""$y = x + g(x)$ with a linear $g$, a reflection times L; the inverse iterates
    $x \leftarrow y - g(x)$.

    Rows: 001-13, the Lipschitz constant of g is 1, where less is needed, and promised.
    """

    BUGS = ("001-13",)
    event_shape, perturb, STEPS = (2,), 0, 60
    promises = MappingProxyType({"contraction": 0.99})

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        lipschitz = 1.0 if "001-13" in self.rows else 0.5
        self.register_buffer("weight", lipschitz * torch.tensor([[0.6, 0.8], [0.8, -0.6]]))

    def log_det(self, x: Any) -> Any:
        """The log-det of each row."""
        eye = torch.eye(2, dtype=x.dtype)
        return torch.linalg.slogdet(eye + self.weight)[1].expand(len(x))  # type: ignore[operator]  # a buffer

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return x + x @ self.weight, self.log_det(x)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        x = z
        for _ in range(self.STEPS):
            x = z - x @ self.weight
        return x, -self.log_det(z)


PARTS: Mapping[str, Any] = MappingProxyType(
    {
        "exp": Exp,
        "composed": Composed,
        "coupling": Coupling,
        "mixing": Mixing,
        "batch-norm": BatchNormLayer,
        "spline": Spline,
        "residual": Residual,
        "abs": Abs,
        "rad": RAD,
        "augment": Augment,
        "augmented": Augmented,
        "metropolis": Metropolis,
        "continuous": Continuous,
        "ffjord": Ffjord,
        "estimated": Estimated,
        "transport": Transport,
    }
)


def make(rows: str = NONE, part: str = "") -> Any:
    """What shows the bugs given; without bugs, the healthy twin of a part."""
    return built(PARTS, rows, part or ("coupling" if rows in (ALL, NONE) else ""))


ROWS: Mapping[str, Row] = MappingProxyType(
    dict(
        (
            alone("001-2", "shape/one-number-per-point[log-det]", "map/log-det"),
            alone("001-3", "map/inverse"),
            alone("001-5", "map/log-det"),
            alone("001-6", "map/log-det"),
            alone("001-7", "map/calls-work"),
            alone("001-8"),
            alone("001-9"),
            alone("001-10", "map/calls-work"),
            alone("001-11", "map/inverse[batch-norm]"),
            alone("001-12", "map/inverse[gap]"),
            alone("001-13", "map/promised-jacobian[lipschitz]", "map/inverse"),
            alone("001-14", "density/mass[contribution]"),
            alone("001-15", "map/inverse[draws]"),
            alone("001-16", "density/mass[contribution]"),
            alone("001-17", "density/mass[bound]"),
            alone("001-18", "density/mass[contribution]"),
            alone("001-19", "map/finite[draws]"),
            alone("001-20", "random/once-per-solve"),
            alone("001-21", "map/log-det"),
            alone("001-22", "map/inverse"),
            alone("001-23", "same/history[repeat]"),
            alone("001-24", "density/mass"),
            alone("001-25", "map/log-det"),
        )
    )
)
