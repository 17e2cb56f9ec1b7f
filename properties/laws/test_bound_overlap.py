"""Lower bounds of events of many entries: too high ones are seen, and no bound that is one is accused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status
from rows import first_of

FEATURES, LATENTS = 24, 5
LAW = "sampling/follows-bound[overlap]"


def log_normal(x: Any, mean: Any, log_scale: Any) -> Any:
    """Of each row."""
    square = ((x - mean) * torch.exp(-log_scale)).square()
    return (-0.5 * square - log_scale - 0.5 * math.log(2 * math.pi)).sum(-1)


class Autoencoder(nn.Module):
    """A variational autoencoder; ``form``: one sample, a closed form of the divergence, or the mean of
    several weights; ``bug``: what is wrong with it.
    """

    event_shape = (FEATURES,)

    def __init__(self, form: str = "sample", bug: str = "") -> None:
        super().__init__()
        self.form, self.bug = form, bug
        self.lower_bound = "expected" if form == "closed" else "one-sample"
        self.encoder, self.decoder = nn.Linear(FEATURES, 2 * LATENTS), nn.Linear(LATENTS, FEATURES)
        self.noise = nn.Parameter(torch.full((FEATURES,), -0.5))
        with torch.no_grad():  # latents tell little of the data, so that the bound is near
            self.encoder.weight.mul_(0.2)
            self.decoder.weight.mul_(0.2)

    def log_prob(self, x: Any) -> Any:
        """The bound."""
        mean, log_scale = self.encoder(x).chunk(2, 1)
        log_scale = torch.tanh(log_scale)
        many = 8 if self.form == "weights" else 1
        shape = (many, len(x), LATENTS)
        eps = torch.randn(many, 1 if self.bug == "alike" else len(x), LATENTS, dtype=x.dtype)
        eps = eps.expand(shape)
        z = mean + log_scale.exp() * eps
        likelihood = log_normal(x, self.decoder(z), self.noise)
        if self.bug == "constant":
            likelihood = likelihood + 0.5 * FEATURES * math.log(2 * math.pi)
        if self.form == "closed":
            divergence = (0.5 * (mean**2 + (2 * log_scale).exp() - 1) - log_scale).sum(1)
            return (likelihood - divergence).mean(0)
        prior = log_normal(z, torch.zeros_like(z), torch.zeros_like(z))
        posterior = log_normal(z, mean, log_scale.expand_as(z))
        ratio = likelihood + prior - posterior
        return ratio.logsumexp(0) - (0 if self.bug == "count" else math.log(many))

    def sample(self, n: int) -> Any:
        """Of the model."""
        z = torch.randn(n, LATENTS, dtype=self.noise.dtype)
        means = self.decoder(z)
        return means + self.noise.exp() * torch.randn_like(means)


@pytest.mark.parametrize("form", ["sample", "closed", "weights"])
@pytest.mark.parametrize("seed", first_of(range(4)))
def test_a_bound_is_not_accused(form: str, seed: int) -> None:
    """However many entries it has, and whatever it draws."""
    verdict = check(Autoencoder(form), LAW, Settings("quick", seed=seed))
    assert verdict.status is Status.HOLDS, verdict.reason
    assert "nats is not seen" in verdict.reason


@pytest.mark.parametrize(
    ("form", "bug"),
    [("sample", "constant"), ("closed", "constant"), ("weights", "constant"), ("weights", "count")],
)
def test_a_bound_that_is_too_high_is_seen(form: str, bug: str) -> None:
    """The constant of a normal density, say, which it lacks, or a sum of weights in place of a mean."""
    assert check(Autoencoder(form, bug), LAW).status is Status.VIOLATED


@pytest.mark.parametrize("form", ["sample", "closed", "weights"])
def test_rows_of_the_same_noise_are_undecided(form: str) -> None:
    """Their mean is that of one draw, which may be anything."""
    verdict = check(Autoencoder(form, "alike"), LAW, Settings("quick"))
    assert verdict.status is Status.INCONCLUSIVE
    assert "the same noise" in verdict.reason
