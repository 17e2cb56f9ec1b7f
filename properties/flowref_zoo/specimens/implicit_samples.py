"""Densities whose samples carry gradients by rules of their own."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

LAW = "gradient/of-samples[density]"


class Solved(torch.autograd.Function):
    """The root of F(x; k) = u by bisection, with dx/dk = -(dF/dk) / p behind."""

    @staticmethod
    def forward(ctx: Any, k: Any, u: Any, defect: str) -> Any:
        """F is a mixture of a logistic variable and one k times as wide."""
        low, high = torch.full_like(u, -200.0), torch.full_like(u, 200.0)
        for _ in range(70):
            middle = (low + high) / 2
            below = 0.5 * (torch.sigmoid(middle) + torch.sigmoid(middle / k)) < u
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        x = (low + high) / 2
        wide = torch.sigmoid(x / k) * torch.sigmoid(-x / k)
        p = 0.5 * (torch.sigmoid(x) * torch.sigmoid(-x) + wide / k)
        moved = 0.5 * wide * x / k**2
        ctx.save_for_backward(-moved if defect == "sign-of-implicit" else moved)
        ctx.over = 1 if defect == "density-left-out" else p
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The implicit function theorem."""
        (moved,) = ctx.saved_tensors
        return (grads[0] * moved / ctx.over).sum(0), None, None


class Hyperbolic(nn.Module):
    """Numbers of two widths, the wider learned, sampled by a solver."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.log_width = nn.Parameter(torch.tensor([0.9, 1.3]))
        self.loc, self.defect = nn.Parameter(torch.tensor([0.4, -0.2])), defect

    def log_prob(self, x: Any) -> Any:
        """The log-density."""
        away, k = x - self.loc, self.log_width.exp()
        one = nn.functional.logsigmoid(away) + nn.functional.logsigmoid(-away)
        wide = nn.functional.logsigmoid(away / k) + nn.functional.logsigmoid(-away / k)
        return (torch.logaddexp(one, wide - self.log_width) - math.log(2)).sum(-1)

    def rsample(self, n: int) -> Any:
        """Draw, with gradients."""
        u = torch.rand(n, 2, dtype=self.loc.dtype, device=self.loc.device)
        solve: Any = Solved.apply
        x = solve(self.log_width.exp(), u.clamp(1e-12, 1 - 1e-12), self.defect)
        loc = 0.5 * (self.loc + self.loc.detach()) if self.defect == "half-detached" else self.loc
        return x + loc

    def sample(self, n: int) -> Any:
        """Draw."""
        with torch.no_grad():
            return self.rsample(n)


class Chosen(nn.Module):
    """A mixture of two normal densities; without a ``defect`` the choice of a part carries no gradient
    and is not learned.
    """

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        logits = torch.tensor([0.3, -0.4])
        learned = defect == "choice-without-gradient"
        self.logits = nn.Parameter(logits, requires_grad=learned)
        self.loc = nn.Parameter(torch.tensor([[-1.0, 0.5], [1.5, -0.5]]))
        self.log_scale = nn.Parameter(torch.tensor([[0.0, -0.2], [0.3, 0.1]]))

    def log_prob(self, x: Any) -> Any:
        """The log-density."""
        z = (x[:, None] - self.loc) * (-self.log_scale).exp()
        each = (-0.5 * z**2 - self.log_scale - 0.5 * math.log(2 * math.pi)).sum(-1)
        return torch.logsumexp(each + self.logits.log_softmax(0), -1)

    def rsample(self, n: int) -> Any:
        """Draw, with gradients."""
        part = torch.multinomial(self.logits.detach().softmax(0), n, replacement=True)
        noise = torch.randn(n, 2, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc[part] + self.log_scale[part].exp() * noise

    def sample(self, n: int) -> Any:
        """Draw."""
        with torch.no_grad():
            return self.rsample(n)


def hyperbolic(defect: str = "") -> nn.Module:
    """Two numbers."""
    return Hyperbolic(defect)


def chosen(defect: str = "") -> nn.Module:
    """Two numbers, of one part of two."""
    return Chosen(defect)


hyperbolic.event_shape = chosen.event_shape = (2,)  # type: ignore[attr-defined]  # an option

SPECIMENS = (
    Specimen(
        "hyperbolic",
        {"sign-of-implicit": (LAW,), "density-left-out": (LAW,), "half-detached": (LAW,)},
    ),
    Specimen("chosen", {"choice-without-gradient": (LAW,)}),
)
