"""Layers that may draw are held to what every call owes: under one seed they are functions like others."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check, registry
from flowref.checking import Settings
from flowref.model import ADVICE, Status

QUICK = Settings("quick")


class Kept(nn.Module):
    """Two of three entries; the third is normal around a function of them, with a bug."""

    bijective, stochastic_forward, stochastic_inverse = False, False, True
    event_shape, codomain = (3,), "real"
    total: Any

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug = bug
        self.decoder = nn.Linear(2, 1)
        self.register_buffer("total", torch.zeros(()))
        self.cached: Any = None

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        if self.bug == "writes":
            x.mul_(2.0)
        if self.bug == "counts":
            self.total += x.detach().sum()
        if self.bug == "prints":
            print("forward", x.shape)
        if self.bug == "trains":
            self.train()
        weight = self.decoder.weight
        if self.bug == "caches":
            if self.training or self.cached is None:
                self.cached = None if self.training else weight.detach().clone()
            weight = weight if self.cached is None else self.cached
        z, rest = x[:, :2], x[:, 2:]
        mean = z @ weight.T + self.decoder.bias
        if self.bug == "detaches":
            mean = mean.detach()
        return z, (-0.5 * (rest - mean).square() - 0.5 * math.log(2 * math.pi)).sum(1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return torch.cat([z, self.decoder(z) + torch.randn(len(z), 1, dtype=z.dtype)], 1)


BUGS = (
    ("writes", "effects/process[input]"),
    ("counts", "effects/state[eval]"),
    ("prints", "effects/process[output]"),
    ("trains", "effects/state[mode]"),
    ("caches", "same/history[optimizer-step]"),
    ("detaches", "gradient/parameters[contribution]"),
)


@pytest.mark.parametrize(("bug", "law"), BUGS)
def test_what_a_kernel_does_besides_is_seen(bug: str, law: str) -> None:
    """A bug in its conduct accuses it, and without it nothing does."""
    found = Status.ADVICE if registry.find_law(law).force == ADVICE else Status.VIOLATED
    assert check(Kept(bug), law, QUICK).status is found
    assert check(Kept(), law, QUICK).status is Status.HOLDS


@pytest.mark.parametrize("law", ["same/copied", "same/saved[restore]", "same/history[other-calls]"])
def test_draws_under_one_seed_are_no_difference(law: str) -> None:
    """What draws comes out the same from a copy, and after other calls."""
    assert check(Kept(), law, QUICK).status is Status.HOLDS


@pytest.mark.parametrize("law", ["random/seeded[global-streams]", "same/history[repeat]"])
def test_that_a_kernel_draws_accuses_nobody(law: str) -> None:
    """Laws by which maps draw nothing are not about it."""
    assert check(Kept(), law, QUICK).status is Status.NOT_APPLICABLE


class Drifting(nn.Module):
    """A step down the slope of an energy, with noise; the slope is taken within the call."""

    stochastic_forward = stochastic_inverse = True
    bijective, event_shape = False, (2,)

    def __init__(self, leaves: bool) -> None:
        super().__init__()
        self.leaves = leaves
        self.scale = nn.Parameter(torch.ones(2))

    def slope(self, x: Any) -> Any:
        """Of the energy; zero where it is taken for a constant."""
        with torch.inference_mode(torch.is_inference_mode_enabled() and not self.leaves):
            kept = torch.is_grad_enabled() and not x.is_inference()
            with torch.enable_grad():
                point = x if x.requires_grad and kept else x.detach().clone().requires_grad_()
                energy = (self.scale * point.cosh()).sum()
                if not energy.requires_grad:
                    return torch.zeros_like(x)
                (slope,) = torch.autograd.grad(energy, point, create_graph=kept)
        return slope

    def forward(self, x: Any) -> tuple[Any, Any]:
        """A step, and half the difference of the squares of its noise and of that of the way back."""
        eta = torch.randn_like(x)
        y = x - 0.05 * self.slope(x) + math.sqrt(0.1) * eta
        back = math.sqrt(0.025) * (self.slope(x) + self.slope(y)) - eta
        return y, 0.5 * (eta.square() - back.square()).sum(1)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """The same chain."""
        return self(z)  # type: ignore[no-any-return]  # what forward gives


@pytest.mark.parametrize("leaves", [True, False])
def test_a_slope_that_vanishes_in_inference_mode_is_seen(leaves: bool) -> None:
    """What `torch.enable_grad` records there is nothing; who leaves the mode has slopes."""
    verdict = check(Drifting(leaves), "same/manner[grad-modes]", QUICK)
    assert verdict.status is (Status.HOLDS if leaves else Status.VIOLATED), verdict.reason
