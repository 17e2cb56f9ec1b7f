r"""Normalizing flows as a tutorial in another language writes them, with its slips, each of which
can be had alone.

The slips are numbered like the claims of the tutorial, 001-1 to 001-27. `make` builds what shows
the slips that it is given, `ROWS` says which laws each of them breaks. Not here, since the tutorial
is right or no code follows: 001-1, 001-3 (a comment on folds), 001-4, 001-12, 001-15, 001-16,
001-17 (an identity that holds on average only), 001-23 to 001-27.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from flowref.zoo.seeds.real_nvp import BatchNormLayer
from flowref.zoo.seeds.slips import ALL, LOG_2_PI, NONE, Row, alone, built, chosen, refuse_other


class Exp(nn.Module):
    r"""$y = e^x$, ladj $\sum_i x_i$.

    Rows: 001-2, the sum runs over the samples of a batch as well.
    """

    SLIPS = ("001-2",)
    event_shape, codomain = (3,), "positive"

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.SLIPS)

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


class Coupling(nn.Module):
    r"""$y_a = x_a \odot e^{f_\sigma(x_b)} + f_\mu(x_b)$, $y_b = x_b$, the first half transformed;
    ladj $\sum_j f_\sigma(x_b)_j$.

    Rows: 001-5, ladj is $\sum_i \ln|f_\sigma(x_i)|$; 001-6, the determinant of the triangular
    Jacobian is its trace; 001-7, the inverse conditions on a name of the other function; 001-8,
    each chunk of the network's outputs has one row too many; 001-9, the network takes half of the
    features, rounded down, where the rest has one more if their number is odd.
    """

    SLIPS = ("001-5", "001-6", "001-7", "001-8", "001-9")
    coupling = "affine"

    def __init__(self, rows: str = ALL, hidden: int = 8) -> None:
        super().__init__()
        self.rows = chosen(rows, self.SLIPS)
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
        rest = x2 if "001-7" in self.rows else z2  # type: ignore[name-defined]  # noqa: F821  the slip
        shift, scale = self.shift_and_scale(rest)
        return torch.cat([(z1 - shift) / scale.exp(), z2], -1), -scale.sum(-1)


class Mixing(nn.Module):
    r"""$z = W x$ on vectors, ladj $\log|\det W|$.

    Rows: 001-10, the inverse refers to the argument of the other function.
    """

    SLIPS = ("001-10",)
    event_shape = (3,)

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.SLIPS)
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(3, 3))[0])

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return x @ self.weight.T, torch.linalg.slogdet(self.weight)[1].expand(len(x))

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        point = x if "001-10" in self.rows else z  # type: ignore[name-defined]  # noqa: F821  the slip
        return torch.linalg.solve(self.weight, point.T).T, -torch.linalg.slogdet(self.weight)[
            1
        ].expand(len(z))


class Residual(nn.Module):
    r"""$y = x + g(x)$ with a linear $g$, a reflection times L; the inverse iterates
    $x \leftarrow y - g(x)$.

    Rows: 001-13, the Lipschitz constant of g is 1, where less is needed.
    """

    SLIPS = ("001-13",)
    event_shape, perturb, STEPS = (2,), 0, 60

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.SLIPS)
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


class Abs(nn.Module):
    r"""$z = |x|$, and a sign for each entry that is as likely as the other: the contribution is
    $-D \log 2$.

    Rows: 001-14, what halving costs is added, not subtracted.
    """

    SLIPS = ("001-14",)
    event_shape, codomain = (2,), "positive"
    bijective, stochastic_forward, stochastic_inverse = False, False, True

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.SLIPS)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        sign = 1.0 if "001-14" in self.rows else -1.0
        return x.abs(), x.new_full((len(x),), sign * math.log(2.0) * x.shape[1])

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z * (2.0 * torch.randint(2, z.shape).to(z.dtype) - 1.0)


class Augment(nn.Module):
    r"""Standard normal noise e beside the data: the contribution is $-\log q(e)$.

    Rows: 001-18, noise costs nothing: its density is left out.
    """

    SLIPS = ("001-18",)
    event_shape, codomain = (1,), "real"
    bijective, stochastic_forward, stochastic_inverse = False, True, False

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.SLIPS)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        noise = torch.randn_like(x)
        cost = 0.5 * (LOG_2_PI + noise.square()).sum(-1)
        return torch.cat([x, noise], -1), 0 * cost if "001-18" in self.rows else cost

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z[:, :1]


class Metropolis(nn.Module):
    r"""One step of a Metropolis chain: $x' = x + \sigma e$ where $u < e^{E(x) - E(x')}$, else x; the
    contribution is the change of the energy, which is $|x|^2 / 2$ within a box and infinite without.

    Rows: 001-19, the comparison is made once for the batch, and what is kept is multiplied by zero
    or one, not selected.
    """

    SLIPS = ("001-19",)
    event_shape, STEP, BOX = (2,), 0.7, 3.0
    domain = codomain = "(-3,3)"
    bijective, stochastic_forward, stochastic_inverse = False, True, True

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.SLIPS)

    def energy(self, x: Any) -> Any:
        """The energy of each row, as a column."""
        inside = (x.abs() <= self.BOX).all(-1, keepdim=True)
        return torch.where(inside, 0.5 * x.square().sum(-1, keepdim=True), math.inf)

    def forward(self, x: Any) -> Any:
        """One step of every row."""
        refuse_other(x, 2)
        start, moved = self.energy(x), x + self.STEP * torch.randn_like(x)
        there = self.energy(moved)
        accepted = torch.rand(len(x), 1, dtype=x.dtype) < torch.exp(start - there)
        if "001-19" in self.rows:
            kept = accepted.all().to(x.dtype)
            end = (1 - kept) * start + kept * there
            return (1 - kept) * x + kept * moved, (end - start)[:, 0]
        end = torch.where(accepted, there, start)
        return torch.where(accepted, moved, x), (end - start)[:, 0]

    def inverse(self, z: Any) -> Any:
        """The same step, which is reversible."""
        return self.forward(z)


class Continuous(nn.Module):
    r"""$\dot z = A z$ from time 0 to T: $z(T) = e^{TA} x$, ladj $T \operatorname{tr} A$; the
    inverse goes from T to 0.

    Rows: 001-20, the trace is estimated by $e^T A e$ with other noise in every evaluation; 001-21,
    the log-det has the sign of the change of a log-density; 001-22, the inverse integrates forwards
    too.
    """

    SLIPS = ("001-20", "001-21", "001-22")
    event_shape, TIME, EVALUATIONS = (2,), 0.5, 4

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.SLIPS)
        self.matrix = nn.Parameter(torch.tensor([[0.3, -0.8], [0.5, 0.2]]))

    def trace(self, x: Any) -> Any:
        """The trace of A for each row."""
        if "001-20" not in self.rows:
            return self.matrix.diagonal().sum().expand(len(x))
        noise = torch.randn(self.EVALUATIONS, *x.shape, dtype=x.dtype)
        return ((noise @ self.matrix.T) * noise).sum(-1).mean(0)

    def flown(self, x: Any, time: float) -> tuple[Any, Any]:
        """The state after a time, and the log-det."""
        ladj = time * self.trace(x)
        return x @ torch.linalg.matrix_exp(
            time * self.matrix
        ).T, -ladj if "001-21" in self.rows else ladj

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.flown(x, self.TIME)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return self.flown(z, self.TIME if "001-22" in self.rows else -self.TIME)


PARTS: Mapping[str, Any] = MappingProxyType(
    {
        "exp": Exp,
        "coupling": Coupling,
        "mixing": Mixing,
        "batch-norm": BatchNormLayer,
        "residual": Residual,
        "abs": Abs,
        "augment": Augment,
        "metropolis": Metropolis,
        "continuous": Continuous,
    }
)


def make(rows: str = NONE, part: str = "") -> Any:
    """What shows the slips given; without slips, the healthy twin of a part."""
    return built(PARTS, rows, part or ("coupling" if rows in (ALL, NONE) else ""))


ROWS: Mapping[str, Row] = MappingProxyType(
    dict(
        (
            alone("001-2", "bijection/log-det-shape", "bijection/log-det"),
            alone("001-5", "bijection/log-det"),
            alone("001-6", "bijection/log-det"),
            alone("001-7", "conduct/abilities-work"),
            alone("001-8"),
            alone("001-9"),
            alone("001-10", "conduct/abilities-work"),
            alone("001-11", "batch-norm/train-inverse-policy"),
            alone("001-13", "bijection/inverse-roundtrip"),
            alone("001-14", "contribution/integral"),
            alone("001-18", "contribution/integral"),
            alone("001-19", "contribution/finite-for-every-draw"),
            alone("001-20", "bijection/log-det", "conduct/deterministic"),
            alone("001-21", "bijection/log-det"),
            alone("001-22", "bijection/inverse-roundtrip"),
        )
    )
)
