"""Densities that offer their score: the gradient of the log-density in the data."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

LOG_2_PI = math.log(2 * math.pi)


class Mixture(nn.Module):
    """A mixture of three normal densities in the plane, with its score in closed form."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.logits = nn.Parameter(torch.tensor([0.3, -0.4, 0.8]))
        self.means = nn.Parameter(torch.tensor([[1.0, -0.5], [-1.2, 0.4], [0.2, 1.5]]))
        self.log_scales = nn.Parameter(torch.tensor([[0.1, -0.2], [-0.3, 0.2], [0.0, -0.1]]))

    def joint(self, x: Any) -> Any:
        """The log-density of each component, with its weight."""
        z = (x[:, None] - self.means) * (-self.log_scales).exp()
        parts = (-0.5 * z.square() - self.log_scales - 0.5 * LOG_2_PI).sum(-1)
        return parts + self.logits.log_softmax(-1)

    def log_prob(self, x: Any) -> Any:
        """The log-density."""
        return self.joint(x).logsumexp(-1)

    def sample(self, n: int) -> Any:
        """Draw."""
        which = torch.multinomial(self.logits.softmax(-1), n, replacement=True)
        return self.means[which] + self.log_scales[which].exp() * torch.randn(n, 2)

    def score(self, x: Any) -> Any:
        """The gradient of the log-density."""
        joint = self.joint(x)
        if self.defect == "weights-left-out":
            joint = joint - self.logits.log_softmax(-1)
        power = -1 if self.defect == "deviation-for-variance" else -2
        toward = (self.means - x[:, None]) * (power * self.log_scales).exp()
        score = (joint.softmax(-1)[..., None] * toward).sum(1)
        return score / 2 if self.defect == "half" else score


class Banana(nn.Module):
    """A bent normal density under a context, which may be left out, with its score by autograd."""

    event_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.bend = nn.Parameter(torch.tensor(0.4))
        self.lifts = nn.Linear(2, 1)

    def lift(self, context: Any) -> Any:
        """By how much a context moves it up."""
        return 0.0 if context is None else self.lifts(context)[:, 0]

    def log_prob(self, x: Any, context: Any = None) -> Any:
        """The log-density."""
        height = x[:, 1] - self.bend * x[:, 0].square() - self.lift(context)
        return -0.5 * (x[:, 0].square() + height.square()) - LOG_2_PI

    def sample(self, n: int, context: Any = None) -> Any:
        """Draw."""
        x, y = torch.randn(2, n)
        return torch.stack([x, y + self.bend * x.square() + self.lift(context)], 1)

    def grad_log_prob(self, x: Any, context: Any = None) -> Any:
        """The gradient of the log-density."""
        if self.defect == "context-forgotten":
            context = None
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            log_p = self.log_prob(x, context)
            total = log_p.mean() if self.defect == "mean-for-sum" else log_p.sum()
            return torch.autograd.grad(total, x)[0]


def mixture(defect: str = "") -> Any:
    """A mixture with its score in closed form."""
    return Mixture(defect)


def banana(defect: str = "") -> Any:
    """A conditional density with its score by autograd."""
    return Banana(defect)


SCORE = ("density/score",)
SPECIMENS = (
    Specimen(
        "mixture",
        {"half": SCORE, "weights-left-out": SCORE, "deviation-for-variance": SCORE},
    ),
    Specimen("banana", {"mean-for-sum": SCORE, "context-forgotten": ("density/score[context]",)}),
)
