"""A coupling that is trained on a milder scale than it is used with, and what can be wrong while it trains,
in large batches, and with what it has returned.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

# Rows that are taken at once where memory is spared.
BLOCK = 256


class Mild(nn.Module):
    r"""$z_b = x_b\, e^{s(x_a)} + t(x_a)$, ladj $\sum_i s_i$, with half of s in train mode; its base is standard
    normal.
    """

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 4))
        self.totals = torch.zeros(0)

    def parameters_of(self, a: Any) -> tuple[Any, Any]:
        """Scale and shift."""
        with torch.set_grad_enabled(
            torch.is_grad_enabled() and not (self.training and self.defect == "net-without-graph")
        ):
            scale, shift = self.net(a).chunk(2, -1)
            scale = scale.tanh()
            return (0.5 * scale if self.training else scale), shift

    def total(self, scale: Any) -> Any:
        """The log-det of a scale."""
        if self.training and self.defect == "log-det-of-eval-mode":
            scale = 2 * scale
        if self.training and self.defect == "log-det-without-graph":
            scale = scale.detach()
        if self.defect == "first-block-for-all" and len(scale) > BLOCK:
            first = scale[:BLOCK].sum(-1)
            return first.repeat(len(scale) // BLOCK + 1)[: len(scale)]
        if self.defect == "axis-of-features" and len(scale) == self.event_shape[0]:
            return nn.functional.pad(scale, (1, 0)).sum(0)
        if self.defect == "buffer-returned":
            if len(self.totals) != len(scale) or self.totals.dtype != scale.dtype:
                self.totals = scale.new_zeros(len(scale))
            return self.totals.copy_(scale.detach().sum(-1))
        return scale.sum(-1)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        a, b = x[:, :1], x[:, 1:]
        scale, shift = self.parameters_of(a)
        return torch.cat([a, b * scale.exp() + shift], -1), self.total(scale)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        a, b = z[:, :1], z[:, 1:]
        scale, shift = self.parameters_of(a)
        if self.training and self.defect == "inverse-of-eval-mode":
            scale = 2 * scale
        if self.defect == "inverse-without-graph-of-net":
            with torch.no_grad():
                weights = [one.clone() for one in self.net.parameters()]
            hidden = torch.tanh(a @ weights[0].T + weights[1])
            shift = (hidden @ weights[2].T + weights[3])[:, 2:]
        if self.defect == "inverse-log-det-without-graph":
            total = -self.total(scale).detach()
            return torch.cat([a, (b - shift) * (-scale).exp()], -1), total
        return torch.cat([a, (b - shift) * (-scale).exp()], -1), -self.total(scale)


class MildDensity(Mild):
    """The same with its log-density."""

    @property
    def base(self) -> Any:
        """The density of latents."""
        zeros = torch.zeros(3, device=next(self.parameters()).device)
        return torch.distributions.Independent(torch.distributions.Normal(zeros, zeros + 1), 1)

    def log_prob(self, x: Any) -> Any:
        """Log-densities of data."""
        if self.training and self.defect == "log-prob-of-detached-data":
            x = x.detach() + 0 * x
        z, ladj = self(x)
        if self.training and self.defect == "log-prob-of-eval-mode":
            ladj = 2 * ladj
        return self.base.log_prob(z) + ladj


class MildGiven(Mild):
    """The same under a context of two numbers, which shifts it."""

    context_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        super().__init__(defect)
        self.embedding = nn.Linear(2, 2)

    def shifted(self, context: Any) -> Any:
        """By how much."""
        if self.training and self.defect == "half-of-context-detached":
            context = torch.cat([context[:, :1].detach(), context[:, 1:]], -1)
        return self.embedding(context)

    def forward(self, x: Any, context: Any) -> tuple[Any, Any]:  # type: ignore[override]  # given one
        """Data to latents."""
        z, ladj = super().forward(x)
        return torch.cat([z[:, :1], z[:, 1:] + self.shifted(context)], -1), ladj

    def inverse(self, z: Any, context: Any) -> tuple[Any, Any]:  # type: ignore[override]  # given one
        """Latents to data."""
        return super().inverse(torch.cat([z[:, :1], z[:, 1:] - self.shifted(context)], -1))


class Quiet(nn.Module):
    r"""$z = e^s x + t$ with ladj $\sum_i s_i$, and what spares memory or time where no gradients are recorded."""

    event_shape = (3,)
    calls: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.scale = nn.Parameter(torch.tensor([0.4, -0.3, 0.2]))
        self.shift = nn.Parameter(torch.tensor([0.1, 0.5, -0.2]))
        self.register_buffer("calls", torch.zeros(()))
        self.kept: dict[Any, Any] = {}

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        told = self.scale.sum().expand(len(x))
        if torch.is_grad_enabled():
            return x * self.scale.exp() + self.shift, told
        match self.defect:
            case "written-to-the-argument":
                return x.mul_(self.scale.exp()).add_(self.shift), told
            case "written-to-a-workspace":
                if x.shape != getattr(self.kept.get(x.dtype), "shape", None):
                    self.kept[x.dtype] = torch.empty_like(x)
                space = self.kept[x.dtype]
                return torch.addcmul(self.shift, x, self.scale.exp(), out=space), told
            case "kept-by-its-place":
                if x.data_ptr() not in self.kept:
                    self.kept[x.data_ptr()] = x, x * self.scale.exp() + self.shift
                return self.kept[x.data_ptr()][1], told
            case "centred-by-its-batch":
                return (x - 1e-6 * x.mean(0)) * self.scale.exp() + self.shift, told
            case "calls-counted":
                self.calls += 0.5
            case "noise-left-in":
                x = x + 1e-6 * torch.randn_like(x)
            case "rows-of-the-first-call":
                rows = self.kept.setdefault("rows", len(x))
                return x * self.scale.exp() + self.shift, told * len(x) / rows
            case "gradients-left-off":
                torch.set_grad_enabled(True)
        return x * self.scale.exp() + self.shift, told

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return (z - self.shift) * (-self.scale).exp(), -self.scale.sum().expand(len(z))


class Optional(nn.Module):
    r"""$z = e^{s + S c} x + T c$ with ladj $\sum_i (s + S c)_i$, where a context may be given, and its density."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.scale = nn.Parameter(torch.tensor([0.4, -0.3, 0.2]))
        self.stretch, self.shift = nn.Linear(2, 3, bias=False), nn.Linear(2, 3, bias=False)
        self.kept: dict[int, Any] = {}

    def embedded(self, x: Any, context: Any) -> tuple[Any, Any]:
        """Scale and shift."""
        if context is None:
            return self.scale.expand(x.shape), torch.zeros_like(x)
        match self.defect:
            case "first-row-for-all":
                context = context[:1].expand(context.shape)
            case "half-detached":
                context = torch.cat([context[:, :1].detach(), context[:, 1:]], -1)
            case "written-to" if not torch.is_grad_enabled():
                context.mul_(0.5)
        shift = self.shift(context)
        if self.defect == "kept-by-its-place" and not torch.is_grad_enabled():
            shift = self.kept.setdefault(context.data_ptr(), (context, shift))[1]
        if self.defect == "shift-without-graph":
            shift = nn.functional.linear(context, self.shift.weight.detach())
        return self.scale + self.stretch(context), shift

    def forward(self, x: Any, context: Any = None) -> tuple[Any, Any]:
        """Data to latents."""
        scale, shift = self.embedded(x, context)
        if self.defect == "value-detached" and context is not None:
            x = x.detach() + 0 * x
        told = self.scale.expand(x.shape) if self.defect == "log-det-without-it" else scale
        if self.defect == "log-det-detached" and context is not None:
            told = told.detach()
        return x * scale.exp() + shift, told.sum(-1)

    def inverse(self, z: Any, context: Any = None) -> tuple[Any, Any]:
        """Latents to data."""
        scale, shift = self.embedded(z, context)
        back = shift if self.defect != "unshifted-back" else shift / 2
        told = self.scale.expand(z.shape) if self.defect == "way-back-without-it" else scale
        return (z - back) * (-scale).exp(), -told.sum(-1)

    @property
    def base(self) -> Any:
        """The density of latents."""
        zeros = torch.zeros(3, device=next(self.parameters()).device)
        return torch.distributions.Independent(torch.distributions.Normal(zeros, zeros + 1), 1)

    def log_prob(self, x: Any, context: Any = None) -> Any:
        """Log-densities of data."""
        z, ladj = self(x, context)
        if self.defect == "density-without-it" and context is not None:
            ladj = ladj - (self.stretch(context)).sum(-1)
        return self.base.log_prob(z) + ladj


class OptionalDensity(nn.Module):
    """A normal density of one number, whose logarithm of a scale a context may move."""

    event_shape = (1,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.stretch = nn.Linear(2, 1)

    def log_prob(self, x: Any, context: Any = None) -> Any:
        """Log-densities."""
        scale = 0 * x if context is None else self.stretch(context)
        told = 0 if self.defect == "not-normalized" and context is not None else scale.sum(-1)
        return torch.distributions.Normal(0.0, 1.0).log_prob(x * scale.exp()).sum(-1) + told


class OptionalSampler(nn.Module):
    r"""$x = \mu(c) + e\,\sigma(c)$, standard normal without a context."""

    event_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Linear(3, 4)

    def base(self, context: Any, rows: int) -> Any:
        """The distribution, of rows."""
        told = (
            torch.zeros(rows, 4, device=self.net.bias.device)
            if context is None
            else self.net(context)
        )
        mean, scale = told.chunk(2, -1)
        return torch.distributions.Normal(mean, scale.tanh().exp())

    def log_prob(self, x: Any, context: Any = None) -> Any:
        """Log-densities."""
        return self.base(context, len(x)).log_prob(x).sum(-1)

    def sample(self, n: int, context: Any = None) -> Any:
        """Points, one for each row of a context."""
        base = self.base(context, n)
        if self.defect == "guidance" and context is not None:  # its mean, pushed on
            return base.mean + 0.3 * base.mean + base.stddev * torch.randn_like(base.mean)
        if self.defect == "widened" and context is not None:
            return base.mean + 1.5 * base.stddev * torch.randn_like(base.mean)
        return base.sample()


class Started(nn.Module):
    r"""$z_b = x_b\, e^{s(x_a)}$, the identity until it is trained; its base is standard normal."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2))
        for parameter in self.net[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        scale = self.net(x[:, :1])
        factor = scale.detach() if self.defect == "factor-detached" else scale
        ladj = scale.detach() if self.defect == "log-det-detached" else scale
        return torch.cat([x[:, :1], x[:, 1:] * factor.exp()], -1), ladj.sum(-1)

    def log_prob(self, x: Any) -> Any:
        """Log-densities of data."""
        z, ladj = self(x)
        if self.defect == "latents-detached":
            z = z.detach() + x - x.detach()
        return torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1) + ladj


class StartedNormed(Started):
    """The same with a batch norm in its net: in train mode rows meet as soon as it is moved."""

    def __init__(self, defect: str = "") -> None:
        super().__init__(defect)
        self.net.insert(1, nn.BatchNorm1d(8))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents, a little wider in training."""
        z, ladj = super().forward(x)
        wider = 1.1 if self.training else 1.0
        return wider * z, ladj + 3 * math.log(wider)


def mild(defect: str = "") -> nn.Module:
    """A coupling on three features."""
    return Mild(defect)


def mild_density(defect: str = "") -> nn.Module:
    """A coupling on three features, with its log-density."""
    return MildDensity(defect)


def mild_given(defect: str = "") -> nn.Module:
    """A coupling on three features, under a context."""
    return MildGiven(defect)


def quiet(defect: str = "") -> nn.Module:
    """An affine map that spares memory where it is evaluated alone."""
    return Quiet(defect)


def optional(defect: str = "") -> nn.Module:
    """An affine map that a context may move."""
    return Optional(defect)


def optional_density(defect: str = "") -> nn.Module:
    """A density that a context may stretch."""
    return OptionalDensity(defect)


def optional_sampler(defect: str = "") -> nn.Module:
    """A normal distribution that a context may move."""
    return OptionalSampler(defect)


def started(defect: str = "") -> nn.Module:
    """A coupling on three features that starts as the identity."""
    return Started(defect)


def started_normed(defect: str = "") -> nn.Module:
    """A coupling that starts as the identity, with a batch norm in its net."""
    return StartedNormed(defect)


SPECIMENS = (
    Specimen(
        "mild",
        {
            "log-det-of-eval-mode": (
                "map/log-det[train]",
                "map/log-det[inverse, train]",
            ),
            "log-det-without-graph": (
                "gradient/parameters[log-det, train]",
                "gradient/input[log-det, train]",
            ),
            "net-without-graph": (
                "gradient/input[value, train]",
                "gradient/parameters[value, train]",
            ),
            "inverse-of-eval-mode": (
                "map/inverse[train]",
                "map/inverse[latents, train]",
            ),
            "inverse-without-graph-of-net": ("gradient/parameters[value, inverse]",),
            "inverse-log-det-without-graph": (
                "gradient/input[log-det, inverse]",
                "gradient/parameters[log-det, inverse]",
            ),
            "first-block-for-all": ("same/rows[many]",),
            "axis-of-features": ("same/rows",),
            "buffer-returned": ("same/history[other-calls]",),
        },
    ),
    Specimen(
        "mild_density",
        {
            "log-prob-of-detached-data": ("gradient/input[log-prob, train]",),
            "log-prob-of-eval-mode": ("density/change-of-variables[train]",),
        },
    ),
    Specimen(
        "quiet",
        {
            "written-to-the-argument": ("effects/process[input, no-grad]",),
            "written-to-a-workspace": ("same/history[other-calls, no-grad]",),
            "kept-by-its-place": ("same/history[same-tensor, no-grad]",),
            "centred-by-its-batch": ("same/rows[no-grad]",),
            "calls-counted": ("effects/state[eval, no-grad]",),
            "noise-left-in": ("same/history[repeat, no-grad]",),
            "rows-of-the-first-call": ("same/history[other-sizes, no-grad]",),
            "gradients-left-off": ("effects/process[settings, no-grad]",),
        },
    ),
    Specimen(
        "optional",
        {
            "log-det-without-it": ("map/log-det[context]",),
            "way-back-without-it": ("map/log-det[inverse, context]",),
            "unshifted-back": ("map/inverse[context]",),
            "first-row-for-all": ("same/rows[context]",),
            "half-detached": ("gradient/context[context]",),
            "log-det-detached": (
                "gradient/parameters[log-det, context]",
                "gradient/context[context]",
            ),
            "value-detached": ("gradient/input[value, context]",),
            "shift-without-graph": ("gradient/parameters[value, context]",),
            "kept-by-its-place": ("same/history[same-tensor, context]",),
            "written-to": ("effects/process[input, context]",),
            "density-without-it": ("density/change-of-variables[context]",),
        },
    ),
    Specimen("optional_density", {"not-normalized": ("density/mass[context]",)}),
    Specimen(
        "optional_sampler",
        {
            "guidance": ("sampling/follows-density[context]",),
            "widened": ("sampling/follows-density[context]",),
        },
    ),
    Specimen("mild_given", {"half-of-context-detached": ("gradient/context[train]",)}),
    Specimen(
        "started",
        {
            "factor-detached": ("gradient/input[value, trained]",),
            "log-det-detached": ("gradient/input[log-det, trained]",),
            "latents-detached": ("gradient/input[log-prob, trained]",),
        },
    ),
    Specimen("started_normed", {"log-det-detached": ("gradient/parameters[log-det]",)}),
)
