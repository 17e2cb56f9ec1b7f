r"""Real NVP as an essay on it tells it, with the bugs of its formulas and of its author's journal,
each to be had alone.

The bugs are numbered like the claims of the essay, 003-1 to 003-28; those of the journal, all
under 003-28, have letters.
`make` builds what shows the bugs that it is given, `ROWS` says which laws each of them breaks. Not
here, since the essay is right or no code follows: 003-2 (the quantile function is exact for the
example), 003-3, 003-4, 003-6 (a misprint), 003-9, 003-10 (two Jacobians in the wrong order, of
which only the determinant is used), 003-11, 003-13, 003-15 to 003-17, 003-19, 003-20, 003-23,
003-25, 003-26; 003-27 (a table of results).
003-28 also speaks of a constant of 0.5 for 0.05, which is a setting like any other.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from flowref_zoo.seeds.bug_rows import ALL, LOG_2_PI, NONE, Row, alone, built, chosen, refuse_other
from flowref_zoo.seeds.real_nvp_data import BitsPerDim, LatentAverage, Preprocessing


class Coupling(nn.Module):
    r"""$y = b \odot x + (1 - b) \odot (x \odot e^{s(b \odot x)} + t(b \odot x))$ with
    $s = c \tanh r$, masked (equation 12).

    Rows: 003-7, s is exponentiated before it is masked, and where an entry is kept nothing has ever
    trained c: zero times infinity; 003-7b, the same, and what is masked is selected, which mends
    values and no gradients; 003-8, the log-det sums s over kept entries as well; 003-24, c and the
    last layer of the network start at zero, both of them.
    """

    BUGS = ("003-7", "003-7b", "003-8", "003-24")
    event_shape, coupling, masked = (4,), "affine", True
    kept: Any

    def __init__(self, rows: str = ALL, hidden: int = 8) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        self.register_buffer("kept", torch.tensor([1.0, 0.0, 1.0, 0.0]))
        self.conditioner = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, 8))
        # Where an entry is kept the factor is whatever it was: no gradient reaches it.
        idle = 1e5 if "003-7b" in self.rows else 1e3
        self.factor = nn.Parameter(torch.tensor([idle, 0.7, idle, 0.5]))
        if "003-24" in self.rows:
            for parameter in (self.factor, *self.conditioner[2].parameters()):
                nn.init.zeros_(parameter)

    def scale_and_shift(self, x: Any) -> tuple[Any, Any]:
        """s and t for every entry, kept or not."""
        refuse_other(x, 4)
        raw, shift = self.conditioner(x * self.kept).chunk(2, -1)
        return self.factor * raw.tanh(), shift

    def free(self, s: Any) -> Any:
        """s where an entry is transformed, else 0."""
        return torch.where(self.kept == 1, 0.0, s)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        s, t = self.scale_and_shift(x)
        scale = s.exp() if self.rows & {"003-7", "003-7b"} else self.free(s).exp()
        ladj = s.sum(-1) if "003-8" in self.rows else self.free(s).sum(-1)
        if "003-7" in self.rows:
            return self.kept * x + (1 - self.kept) * (x * scale + t), ladj
        return torch.where(self.kept == 1, x, x * scale + t), ladj

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        s, t = self.scale_and_shift(z)
        s = self.free(s)
        return torch.where(self.kept == 1, z, (z - t) * torch.exp(-s)), -s.sum(-1)


class BatchNormLayer(nn.Module):
    r"""$y = (x - \mu) / \sqrt{v + \epsilon}$ per channel of an image, with a log-det (equations 18
    and 19).

    Rows: 003-21, the log-det counts one position of an image; 003-28a, it has no logarithm;
    003-28b, statistics move in eval mode too; 003-28d, ``train`` returns None; 001-11, in train
    mode the inverse answers, with other statistics than the call.
    """

    BUGS = ("003-21", "003-28a", "003-28b", "003-28d", "001-11")
    running_mean: Any
    running_var: Any

    def __init__(
        self, rows: str = ALL, num_features: int = 2, eps: float = 1e-5, momentum: float = 0.1
    ) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def train(self, mode: bool = True) -> Any:
        """Set the mode."""
        super().train(mode)
        return None if "003-28d" in self.rows else self

    def wide(self, values: Any, x: Any) -> Any:
        """Numbers per channel, to be combined with a batch."""
        return values.view(1, -1, *[1] * (x.dim() - 2))

    def log_det(self, x: Any, var: Any) -> Any:
        """The log-det of each row."""
        terms = (
            -0.5 * (var + self.eps) if "003-28a" in self.rows else -0.5 * torch.log(var + self.eps)
        )
        positions = 1 if "003-21" in self.rows else x.shape[2:].numel()
        return (positions * terms.sum()).repeat(len(x))

    def check(self, x: Any) -> None:
        """Refuse what is no batch of these channels."""
        if x.dim() < 2 or x.shape[1] != self.num_features:
            raise ValueError(
                f"expected (batch, {self.num_features}, *positions), got {tuple(x.shape)}"
            )

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        self.check(x)
        mean, var = self.running_mean, self.running_var
        if x.numel() and (self.training or "003-28b" in self.rows):
            axes = (0, *range(2, x.dim()))
            values = x.numel() // self.num_features
            if values == 1:
                raise ValueError(
                    f"expected more than one value per channel when training, got {tuple(x.shape)}"
                )
            center = x.mean(axes)
            spread = (x - self.wide(center, x)).square().mean(axes)
            if self.training:
                mean, var = center, spread
            with torch.no_grad():
                self.running_mean.lerp_(center, self.momentum)
                self.running_var.lerp_(spread * values / (values - 1), self.momentum)
        y = (x - self.wide(mean, x)) / torch.sqrt(self.wide(var, x) + self.eps)
        return y, self.log_det(x, var)

    def inverse(self, y: Any) -> tuple[Any, Any]:
        """Latents to data, by the averages."""
        if self.training and "001-11" not in self.rows:
            raise RuntimeError(
                "in train mode the statistics of the batch are not known; call eval() first"
            )
        self.check(y)
        x = y * torch.sqrt(self.wide(self.running_var, y) + self.eps) + self.wide(
            self.running_mean, y
        )
        return x, -self.log_det(y, self.running_var)


class Half(nn.Module):
    """One coupling of the plane: the second coordinate is transformed by functions of the first, or
    the other way round.
    """

    def __init__(self, kept: int, hidden: int = 8) -> None:
        super().__init__()
        self.index = kept
        self.net = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, 2))
        self.factor = nn.Parameter(torch.full((1,), 0.7))

    def scale_and_shift(self, x: Any) -> tuple[Any, Any]:
        """s and t, of shape (batch,)."""
        raw, shift = self.net(x[:, self.index, None]).unbind(-1)
        return self.factor * raw.tanh(), shift

    def joined(self, kept: Any, changed: Any) -> Any:
        """Both coordinates."""
        return torch.stack([kept, changed] if self.index == 0 else [changed, kept], -1)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        s, t = self.scale_and_shift(x)
        return self.joined(x[:, self.index], x[:, 1 - self.index] * s.exp() + t), s

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        s, t = self.scale_and_shift(z)
        return self.joined(z[:, self.index], (z[:, 1 - self.index] - t) * torch.exp(-s)), -s


class Model(nn.Module):
    r"""$\log p(x) = \log N(f(x); 0, I) + \mathrm{ladj}(x)$ in the plane, with couplings of
    alternating masks (equation 20).

    Rows: 003-5, the normal has the constant of one dimension; 003-18, all masks are the same;
    003-22, as 003-5, and the likelihood contains the penalty on the factors of s; 003-28c, the mode
    is the direction; 003-28e, the map takes its layers from a global model; 003-28f, the last
    couplings are built and never run, since the loop over them ends before it begins;
    003-28h, the constant of the normal is missing.
    """

    BUGS = ("003-5", "003-18", "003-22", "003-28c", "003-28e", "003-28f", "003-28h")
    event_shape = (2,)
    promises = ("transforms-all",)
    PENALTY = 5e-5

    def __init__(self, rows: str = ALL, couplings: int = 4, final: int = 2) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        alike = "003-18" in self.rows
        self.layers = nn.ModuleList(
            Half(0 if alike else index % 2) for index in range(couplings + final)
        )
        self.couplings, self.final = couplings, final

    def running(self) -> list[Any]:
        """The layers that run, in order."""
        model = the_model(self.layers[0].factor.dtype) if "003-28e" in self.rows else self
        last = range(
            self.couplings, self.final if "003-28f" in self.rows else self.couplings + self.final
        )
        return [model.layers[index] for index in (*range(self.couplings), *last)]

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.up(x) if "003-28c" in self.rows and self.training else self.down(x)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return self.up(z)

    def down(self, x: Any) -> tuple[Any, Any]:
        """Through all layers."""
        refuse_other(x, 2)
        total = x.new_zeros(len(x))
        for layer in self.running():
            x, ladj = layer(x)
            total = total + ladj
        return x, total

    def up(self, z: Any) -> tuple[Any, Any]:
        """Back through all layers."""
        refuse_other(z, 2)
        total = z.new_zeros(len(z))
        for layer in reversed(self.running()):
            z, ladj = layer.inverse(z)
            total = total + ladj
        return z, total

    def log_prob(self, x: Any) -> Any:
        """The log-density of each point."""
        z, ladj = self.down(x)
        dims = 0 if "003-28h" in self.rows else 1 if self.rows & {"003-5", "003-22"} else 2
        value = -0.5 * (dims * LOG_2_PI + z.square().sum(-1)) + ladj
        if "003-22" in self.rows:
            factors = torch.stack([layer.factor for layer in self.running()])
            value = value - self.PENALTY * factors.square().sum()
        return value

    def sample(self, n: int) -> Any:
        """Draw n points."""
        return self.up(torch.randn(n, 2, dtype=self.layers[0].factor.dtype))[0]  # type: ignore[arg-type]  # a tensor


@functools.cache
def the_model(dtype: Any) -> Any:
    """The global model, the same in every process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Model(NONE).to(dtype)


PARTS: Mapping[str, Any] = MappingProxyType(
    {
        "coupling": Coupling,
        "batch-norm": BatchNormLayer,
        "model": Model,
        "preprocessing": Preprocessing,
        "bits-per-dim": BitsPerDim,
        "latent-average": LatentAverage,
    }
)


def make(rows: str = NONE, part: str = "") -> Any:
    """What shows the bugs given; without bugs, the healthy twin of a part."""
    return built(PARTS, rows, part or ("model" if rows in (ALL, NONE) else ""))


ROWS: Mapping[str, Row] = MappingProxyType(
    dict(
        (
            alone("003-1", "density/mass"),
            alone("003-5", "density/mass"),
            alone("003-7", "coupling/pattern[kept-parameters]"),
            alone("003-7b", "gradient/finite", "gradient/input[value]"),
            alone("003-8", "map/log-det", "coupling/closed-form"),
            alone("003-12", "map/log-det"),
            alone("003-14", "map/finite[boundary]"),
            alone("003-18", "coupling/stack[promise]"),
            alone("003-21", "map/log-det", "map/log-det[slopes]"),
            alone("003-22", "density/mass"),
            alone("003-24", "gradient/reaches-parameters[conditioner-start]"),
            alone("003-28a", "map/log-det", "map/log-det[slopes]"),
            alone("003-28b", "effects/state[eval]"),
            alone("003-28c", "same/train-mode[direction]"),
            alone("003-28d", "mode/protocol"),
            alone("003-28e", "gradient/reaches-parameters"),
            alone("003-28f", "gradient/reaches-parameters"),
            alone("003-28h", "density/mass"),
            alone("003-28i", "density/units[bits-per-dim]"),
        )
    )
)
