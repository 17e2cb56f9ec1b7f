"""Conditional densities whose samplers give several points for each of several contexts."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class MixtureNet(nn.Module):
    """A mixture of two normal distributions whose numbers a net makes of a context."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Linear(3, 10)

    def numbers(self, context: Any) -> tuple[Any, Any, Any]:
        """Logits, means and spreads, by context."""
        logits, means, spreads = self.net(context).split([2, 4, 4], -1)
        shape = (*context.shape[:-1], 2, 2)
        return logits, 3 * means.reshape(shape), spreads.reshape(shape).tanh().exp()

    def log_prob(self, theta: Any, context: Any) -> Any:
        """Log-densities of points, each under its context."""
        logits, means, spreads = self.numbers(context)
        parts = torch.distributions.Normal(means, spreads).log_prob(theta[:, None]).sum(-1)
        return torch.logsumexp(logits.log_softmax(-1) + parts, -1)

    def variance(self, context: Any) -> Any:
        """That of each entry, under each context."""
        logits, means, spreads = self.numbers(context)
        shares = logits.softmax(-1)[..., None]
        within, middle = (shares * spreads**2).sum(-2), (shares * means).sum(-2, keepdim=True)
        if self.defect == "variance-within-components":
            return within
        return within + (shares * (means - middle) ** 2).sum(-2)

    def sample(self, n: int, context: Any) -> Any:
        """As many points for each context, ``(n, contexts, 2)``."""
        logits, means, spreads = self.numbers(context)
        u = torch.rand(n, 1 if self.defect == "component-for-all-contexts" else len(context))
        second = (u.to(logits) > logits.softmax(-1)[:, 0]).long()
        chosen = second.expand(n, len(context))[..., None, None].expand(-1, -1, 1, 2)
        noise = torch.randn(n, len(context), 2).to(means)
        mean, spread = (
            one.expand(n, -1, -1, -1).gather(2, chosen)[:, :, 0] for one in (means, spreads)
        )
        return mean + spread * noise


def mixture_net(defect: str = "") -> nn.Module:
    """A mixture density network of two components."""
    return MixtureNet(defect)


class NormalNet(nn.Module):
    """A normal distribution whose numbers a net makes of a context."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Linear(3, 4)

    def base(self, context: Any) -> Any:
        """The distribution under each context."""
        mean, spread = self.net(context).chunk(2, -1)
        return torch.distributions.Normal(mean, spread.tanh().exp())

    def log_prob(self, theta: Any, context: Any) -> Any:
        """Log-densities of points, each under its context."""
        return self.base(context).log_prob(theta).sum(-1)

    def sample(self, n: int, context: Any) -> Any:
        """As many points for each context, ``(contexts, n, 2)``."""
        base = self.base(context)
        mean, spread = base.mean[:, None], base.stddev[:, None]
        rows = 1 if self.defect == "noise-for-all-contexts" else len(context)
        return mean + spread * torch.randn(rows, n, 2).to(mean)


def normal_net(defect: str = "") -> nn.Module:
    """A normal distribution under each context."""
    return NormalNet(defect)


class WaitingNet(nn.Module):
    """An exponential distribution of one number whose rate a net makes of a context."""

    event_shape = (1,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Linear(3, 1)

    def log_prob(self, x: Any, context: Any) -> Any:
        """Log-densities of points, each under its context; -inf below zero."""
        rate = self.net(context).tanh().exp()
        return (rate.log() - rate * x).masked_fill(x < 0, -torch.inf).sum(-1)

    def mean(self, context: Any) -> Any:
        """The mean wait under each context."""
        rate = self.net(context).tanh().exp()
        return rate if self.defect == "rate-for-mean" else 1 / rate

    def sample(self, n: int, context: Any) -> Any:
        """As many points for each context, ``(contexts, n, 1)``."""
        rate = self.net(context).tanh().exp()[:, None]
        return -torch.log1p(-torch.rand(len(context), n, 1).to(rate)) / rate


def waiting_net(defect: str = "") -> nn.Module:
    """An exponential distribution under each context."""
    return WaitingNet(defect)


SPECIMENS = (
    Specimen(
        "mixture_net",
        {
            "component-for-all-contexts": ("random/rows-independent",),
            "variance-within-components": ("density/stated[sample-moments, one-context]",),
        },
    ),
    Specimen("waiting_net", {"rate-for-mean": ("density/stated[moments, one-context]",)}),
    Specimen("normal_net", {"noise-for-all-contexts": ("random/rows-independent[duplicates]",)}),
)
