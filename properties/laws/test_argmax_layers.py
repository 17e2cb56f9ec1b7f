"""Layers that add what depends on itself in many entries, as an argmax flow: their scale and their training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flowref import checking
from flowref.checking import Settings
from flowref.laws.contribution.sets import covered, leaning
from flowref.model import Status

LAYERS = """import math
import torch
import torch.nn.functional as F
from torch.distributions import Categorical, MixtureSameFamily, Normal, StudentT


class Argmax(torch.nn.Module):
    bijective, stochastic_forward, stochastic_inverse = False, True, False
    event_shape, latent_shape, domain, codomain = (2,), (6,), (0, 3), "real"

    def __init__(self, bug=""):
        super().__init__()
        self.bug = bug
        self.table = torch.nn.Parameter(0.5 * torch.randn(3, 6))

    def forward(self, x):
        index = x.long().clamp(0, 2)
        mean, scale = self.table[index].chunk(2, -1)
        scale = torch.tanh(scale)
        e = torch.randn_like(mean)
        u = mean + scale.exp() * e
        v = 0.5 * e**2 + 0.5 * math.log(2 * math.pi) + scale
        top = u.gather(-1, index[..., None])
        if self.bug == "threshold":
            top = top.detach()
        others = F.one_hot(index, 3) == 0
        kept = others | (self.bug == "all-entries")
        v = v + torch.where(kept, F.logsigmoid(top - u), torch.zeros_like(u))
        z = torch.where(others, top - F.softplus(top - u), top)
        return z.flatten(1), v.sum((1, 2))

    def inverse(self, z):
        return z.view(len(z), 2, 3).argmax(-1).to(z.dtype)


class Heaps(torch.nn.Module):
    bijective, stochastic_forward, stochastic_inverse = False, True, False
    event_shape, latent_shape, domain, codomain = (1,), (2,), (0, 3), "real"

    def forward(self, x):
        places = torch.tensor([-1.0, 1.0], dtype=x.dtype)
        q = MixtureSameFamily(Categorical(torch.ones_like(places)), Normal(places, 0.2))
        e = q.sample(x.shape)
        return torch.cat([x + torch.rand_like(x), e], -1), -q.log_prob(e).sum(-1)

    def inverse(self, z):
        return z[:, :1].floor()


class Padded(torch.nn.Module):
    bijective, stochastic_forward, stochastic_inverse = False, True, False
    event_shape, latent_shape = (1,), (2,)

    def __init__(self, how="normal", again=True):
        super().__init__()
        self.how, self.again = how, again
        self.net = torch.nn.Linear(1, 2)

    def forward(self, x):
        a, b = (F.softplus(self.net(x)) + 0.3).chunk(2, -1)
        q = Normal(a, b) if self.how == "normal" else StudentT(a + 2, b, 1.0)
        e = q.rsample() if self.again else q.sample()
        return torch.cat([x, e], -1), -q.log_prob(e).sum(-1)

    def inverse(self, z):
        return z[:, :1]
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with them."""
    path = tmp_path_factory.mktemp("argmax") / "layers.py"
    path.write_text(LAYERS)
    return path


def status(file: Path, name: str, law: str) -> Status:
    """What a law says of one of them."""
    return checking.pair_verdict(f"{file}:{name}", law, Settings("quick")).status


@pytest.mark.parametrize(
    "law", ["kernel/follows-contribution[near-pairs]", "gradient/parameters[drawn-contribution]"]
)
def test_an_argmax_layer_is_judged_and_not_accused(file: Path, law: str) -> None:
    """Of six latents that depend on each other many fall into a bump that leans as they do."""
    assert status(file, "Argmax", law) is Status.HOLDS


@pytest.mark.parametrize(
    ("bug", "law"),
    [
        ("all-entries", "kernel/follows-contribution[near-pairs]"),
        ("threshold", "gradient/parameters[drawn-contribution]"),
    ],
)
def test_its_bugs_are_seen(file: Path, bug: str, law: str) -> None:
    """A logarithm of two for the entry that stays, and a threshold that is detached."""
    assert status(file, f"Argmax?bug={bug}", law) is Status.VIOLATED


def test_no_weight_is_missed_between_two_heaps(file: Path) -> None:
    """What is hardly ever drawn is no mass that is missing."""
    assert status(file, "Heaps", "kernel/follows-contribution[near-pairs]") is not Status.VIOLATED


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Padded", {Status.HOLDS}),
        ("Padded?again=False", {Status.VIOLATED}),
        # Gamma variables, of which some are rejected, jump where parameters move.
        ("Padded?how=student", {Status.HOLDS, Status.INCONCLUSIVE}),
    ],
)
def test_samples_are_drawn_with_their_gradient(
    file: Path, name: str, expected: set[Status]
) -> None:
    """By a transform of noise, or by a rule of its own; not without one."""
    assert status(file, name, "gradient/parameters[drawn-contribution]") in expected


def test_a_bump_that_leans_lies_among_its_latents() -> None:
    """Of normal latents one is found, narrower and of their shape; of two heaps none is, nor of a ring."""
    rng = np.random.default_rng(0)
    factor = np.array([[1.0, 0.0], [0.9, 0.1]])
    normal = rng.standard_normal((4000, 2)) @ factor.T
    found = leaning(normal, rng)
    assert found is not None
    ratio = found.factor @ found.factor.T / (factor @ factor.T)
    assert (ratio > 0.4).all() and (ratio < 0.9).all()
    assert covered(found, normal, rng)
    heaps = normal * 0.1 + rng.choice([-1.0, 1.0], (4000, 1))
    angles = rng.uniform(0, 2 * np.pi, 4000)
    ring = np.stack([np.cos(angles), np.sin(angles)], 1) + 0.05 * normal
    assert leaning(heaps, rng) is None
    assert leaning(ring, rng) is None
