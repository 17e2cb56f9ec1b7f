"""Training objectives: the negative log-likelihood, or the matching loss of a probability flow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from flowref.reference import Flow, Loss, ProbabilityFlow, matching_loss, real_nvp_loss
from flowref.training.bounds import AnyFlow, seeded_layers


def objective(flow: AnyFlow, x: Tensor, penalty: float, random: torch.Generator) -> Loss:
    """The loss of a batch ``x`` ``(n, *event)``: the negative log-likelihood in nats with a
    penalty, or, if the last map is a `ProbabilityFlow`, its mean squared matching error at
    times that are uniform on its schedule.

    ``random``: the generator of times and noise, or of latents.
    """
    chained = isinstance(flow, Flow) and isinstance(flow.bijection, Iterable)
    maps: Any = flow.bijection if chained else [None]
    *before, last = maps
    if not isinstance(last, ProbabilityFlow):
        with seeded_layers(flow, random):
            return real_nvp_loss(flow, x, penalty)
    for bijection in before:
        x, _ = bijection(x)
    schedule = last.schedule
    t = torch.rand(len(x), 1, generator=random, dtype=x.dtype)
    t = schedule.start + (schedule.end - schedule.start) * t
    noise = torch.randn(x.shape, generator=random, dtype=x.dtype)
    value = matching_loss(last.model, schedule, last.prediction, x, t, noise)
    return Loss(value, x.new_zeros(()))
