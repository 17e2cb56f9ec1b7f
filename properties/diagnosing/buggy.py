"""A flow of three features, a density and a batch normalizer, each with a bug of choice."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Map(nn.Module):
    """A matrix, then a sinh of each coordinate: log-dets depend on the point and the weights."""

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug = bug
        generator = torch.Generator().manual_seed(1)
        lower = torch.randn(3, 3, generator=generator, dtype=torch.float64).tril()
        self.weight = nn.Parameter(lower + 1.5 * torch.eye(3, dtype=torch.float64))
        self.shift = nn.Parameter(torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64))

    def terms(self, x: Tensor) -> Tensor:
        """log-derivatives of each coordinate, those of the triangular matrix with them."""
        inner = x @ self.weight.tril().T + self.shift
        slopes = self.weight.diagonal().abs().log()
        return slopes - 0.5 * torch.log1p((inner / 2) ** 2) - math.log(2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """asinh of half of what the matrix gives."""
        inner = x @ self.weight.tril().T + self.shift
        terms = self.terms(x)
        return torch.asinh(inner / 2), buggy(self.bug, terms, self, x)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Its inverse, whose log-det is right but where it is to bug."""
        inner = 2 * torch.sinh(z)
        if self.bug == "shift stays":
            inner = inner + self.shift
        x = torch.linalg.solve_triangular(self.weight.tril(), (inner - self.shift).T, upper=False).T
        if self.bug == "transpose":
            x = (inner - self.shift) @ self.weight.tril()
        if self.bug == "identity":
            x = z
        if self.bug == "again":
            x = self.forward(z)[0]
        if self.bug == "reversed":
            x = x.flip(-1)
        if self.bug == "two of three":
            x = torch.cat([x[:, :2], 1.001 * x[:, 2:] + 0.01 * x[:, 2:] ** 2], -1)
        if self.bug == "doubled":
            x = 2 * x
        log_det = -self.terms(x).sum(-1)
        if self.bug == "inverse's at z":
            log_det = -self.terms(z).sum(-1)
        return x, log_det


def buggy(bug: str, terms: Tensor, flow: Map, x: Tensor) -> Tensor:
    """A log-det with a bug."""
    right = terms.sum(-1)
    match bug:
        case "mean":
            return terms.mean(-1)
        case "half":
            return right / 2
        case "sign":
            return -right
        case "zero":
            return 0 * right
        case "bits":
            return right / math.log(2)
        case "constant":
            return right + 1.5 * math.log(2 * math.pi)
        case "levels":
            return right - 3 * math.log(256)
        case "log 2 once":
            return right + 2 * math.log(2)
        case "last left out":
            return terms[:, :2].sum(-1)
        case "matrix left out":
            return right - flow.weight.diagonal().abs().log().sum()
        case "at the output":
            return flow.terms(torch.asinh((x @ flow.weight.tril().T + flow.shift) / 2)).sum(-1)
        case "exponential":
            return right.exp()
        case "slopes":
            return terms.exp()
        case "batch mean":
            return right.mean() + 0 * right
        case "row before":
            return right.roll(1)
        case "float32":
            return right.float().double()
        case "odd factor":
            return 0.73 * right
        case "odd constant":
            return right + 0.1234
        case "nearly half":
            return 0.5001 * right
        case "bump":
            return right + 1e-3 * torch.sin(7 * x[:, 0])
    return right


def make(bug: str = "") -> Map:
    """The map."""
    return Map(bug)


make.event_shape = (3,)  # type: ignore[attr-defined]  # an attribute of a function


class Linear(nn.Module):
    """A matrix and a shift, with a bug in the inverse."""

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug = bug
        generator = torch.Generator().manual_seed(2)
        self.weight = nn.Parameter(torch.randn(3, 3, generator=generator, dtype=torch.float64))
        self.shift = nn.Parameter(torch.randn(3, generator=generator, dtype=torch.float64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The affine map."""
        return x @ self.weight.T + self.shift, self.weight.slogdet()[1].expand(len(x))

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Its inverse."""
        matrix = self.weight.T if self.bug == "transpose" else self.weight.inverse()
        return (z - self.shift) @ matrix.T, -self.weight.slogdet()[1].expand(len(z))


class Density(Map):
    """The map's density on a standard normal base, with a bug."""

    def log_prob(self, x: Tensor) -> Tensor:
        """What change of variables gives."""
        z: Tensor = self(x)[0]
        terms = self.terms(x)
        log_det = terms.sum(-1)
        parts = -0.5 * z**2 - 0.5 * math.log(2 * math.pi)
        base = parts.sum(-1)
        match self.bug:
            case "log-det left out":
                return base
            case "log-det subtracted":
                return base - log_det
            case "base left out":
                return log_det
            case "mean of the base":
                return parts.mean(-1) + log_det
            case "base at x":
                return (-0.5 * x**2 - 0.5 * math.log(2 * math.pi)).sum(-1) + log_det
            case "no constant":
                return (-0.5 * z**2).sum(-1) + log_det
            case "constant once":
                return (-0.5 * z**2).sum(-1) - 0.5 * math.log(2 * math.pi) + log_det
            case "log-dets averaged":
                return base + log_det.mean()
            case "bump":
                return base + log_det + 1e-3 * torch.sin(5 * x[:, 1])
        return base + log_det

    def sample(self, count: int) -> Tensor:
        """Samples."""
        return self.inverse(torch.randn(count, 3, dtype=self.weight.dtype))[0]


class Normalizer(nn.Module):
    """A batch normalizer of images, with a bug."""

    kind = "batch-norm"
    running_mean: Tensor
    running_var: Tensor
    event_shape = (2, 3, 4)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug, self.eps, self.momentum = bug, 1e-3, 0.2
        self.weight = nn.Parameter(torch.tensor([1.3, 0.6]))
        self.bias = nn.Parameter(torch.tensor([0.4, -0.7]))
        self.register_buffer("running_mean", torch.zeros(2))
        self.register_buffer("running_var", torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        """The normalized batch; train mode moves the running statistics."""
        bug, axes = self.bug, (0, 2, 3)
        mean, var = x.mean(axes), x.var(axes, correction=0)
        unbiased = x.var(axes, correction=1)
        if self.training:
            with torch.no_grad():
                moved = {
                    "deviation": unbiased.sqrt(),
                    "rows only": var * len(x) / max(len(x) - 1, 1),
                    "mean square": (x**2).mean(axes),
                }.get(bug, unbiased)
                share = self.momentum
                new = 1 - share if bug == "momentum of the variance" else share
                self.running_mean += share * (mean - self.running_mean)
                if bug == "nothing taken away":
                    self.running_var += share * moved
                else:
                    self.running_var += new * (moved - self.running_var)
        elif bug != "eval by the batch":
            mean, var, unbiased = self.running_mean, self.running_var, self.running_var
        m, v = mean[:, None, None], var[:, None, None]
        match bug if self.training or bug not in ("unbiased",) else "":
            case "unbiased":
                hat = (x - m) / (unbiased[:, None, None] + self.eps).sqrt()
            case "eps outside":
                hat = (x - m) / (v.sqrt() + self.eps)
            case "no root":
                hat = (x - m) / (v + self.eps)
            case "mean stays":
                hat = x / (v + self.eps).sqrt()
            case _:
                hat = (x - m) / (v + self.eps).sqrt()
        weight = 1 + self.weight if bug == "one plus" else self.weight
        return hat * weight[:, None, None] + self.bias[:, None, None]


def linear(bug: str = "") -> Linear:
    """The affine map."""
    return Linear(bug)


linear.event_shape = (3,)  # type: ignore[attr-defined]  # an attribute of a function


def density(bug: str = "") -> Density:
    """The density."""
    return Density(bug)


density.event_shape = (3,)  # type: ignore[attr-defined]  # an attribute of a function


def normalizer(bug: str = "") -> Normalizer:
    """The batch normalizer."""
    return Normalizer(bug)


class Normal1:
    """A normal density of one feature, with a constant too many or missing."""

    event_shape = (1,)

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def log_prob(self, x: Tensor) -> Tensor:
        """The log-density."""
        constant = 0.0 if self.bug == "no constant" else 0.5 * math.log(2 * math.pi)
        return -0.5 * ((x[:, 0] - 1) / 2) ** 2 - math.log(2) - constant

    def sample(self, count: int) -> Tensor:
        """Samples."""
        return 1 + 2 * torch.randn(count, 1)


def normal(bug: str = "") -> Normal1:
    """The normal density."""
    return Normal1(bug)
