"""Gradients of samples are called wrong only by differences that hold at ever smaller steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import Normal

from flowref import check
from flowref.checking import Settings
from flowref.model import Status
from rows import first_of


class Moved(nn.Module):
    """Standard normal numbers moved by a function of a parameter."""

    event_shape = (2,)
    promises = ("rsample",)

    def __init__(self, way: str) -> None:
        super().__init__()
        self.at, self.way = nn.Parameter(torch.tensor([0.3, -0.8])), way

    def by(self) -> Any:
        """How far: of waves, by which quotients with larger steps are all alike, and wrong."""
        return self.at + 1e-6 * (1e7 * self.at).sin() if self.way == "waves" else 2 * self.at

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x - self.by(), torch.zeros(len(x), dtype=x.dtype)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z + self.by(), torch.zeros(len(z), dtype=z.dtype)

    def log_prob(self, x: Any) -> Any:
        """Of each row."""
        return Normal(0.0, 1.0).log_prob(x - self.by()).sum(1)

    def rsample(self, n: int) -> Any:
        """So many rows; half of the gradient, if that is the way."""
        by = self.by()
        kept = 0.5 * (by + by.detach()) if self.way == "halved" else by
        return torch.randn(n, 2, dtype=self.at.dtype) + kept

    def sample(self, n: int) -> Any:
        """So many rows."""
        with torch.no_grad():
            return self.rsample(n)


@pytest.mark.parametrize(
    ("way", "accused"), [("waves", False), ("straight", False), ("halved", True)]
)
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_differences_must_settle_to_accuse(way: str, accused: bool, seed: int) -> None:
    """What varies within a step is undecided, and half of a gradient is found."""
    verdict = check(Moved(way), "gradient/of-samples", Settings("quick", seed))
    assert (verdict.status is Status.VIOLATED) is accused, verdict.reason


class Ending(nn.Module):
    """Uniform numbers, or a mixture of normal ones, of which a parameter moves all."""

    event_shape = (2,)

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.at, self.kind = nn.Parameter(torch.tensor([0.3, -0.8])), kind

    def log_prob(self, x: Any) -> Any:
        """Of each row; beyond the ends as it is within, in one kind."""
        away = x - self.at
        if self.kind == "shifted":
            return torch.logaddexp(*(Normal(c, 1.0).log_prob(away).sum(1) for c in (0.0, 2.0)))
        inside = ((away > 0) & (away < 1)).all(1)
        value = 0.0 * away.sum(1)
        return value if self.kind == "unmasked" else torch.where(inside, value, -torch.inf)

    def rsample(self, n: int) -> Any:
        """So many rows."""
        noise = torch.rand(n, 2, dtype=self.at.dtype)
        if self.kind == "shifted":
            part = 2.0 * torch.randint(2, (n, 1))
            noise = torch.randn(n, 2, dtype=self.at.dtype) + part
        return noise + self.at

    def sample(self, n: int) -> Any:
        """So many rows."""
        with torch.no_grad():
            return self.rsample(n)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("masked", Status.INCONCLUSIVE),
        ("unmasked", Status.INCONCLUSIVE),
        ("shifted", Status.HOLDS),
    ],
)
def test_ends_that_move_accuse_no_gradient(kind: str, status: Status) -> None:
    """Where data end the two derivatives differ by what moves with the ends, and nothing is said."""
    law = "gradient/of-samples[density]"
    assert check(Ending(kind), law, Settings("quick")).status is status


class Kinked(nn.Module):
    """A leaky line moved by a parameter: right, with a density that jumps where the kink is."""

    event_shape = (2,)

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.at, self.slope = nn.Parameter(torch.tensor([0.3, -0.8])), slope

    def rsample(self, n: int) -> Any:
        """So many rows."""
        z = torch.randn(n, 2, dtype=self.at.dtype) + 0.5
        return self.at + nn.functional.leaky_relu(z, self.slope)

    def sample(self, n: int) -> Any:
        """So many rows."""
        with torch.no_grad():
            return self.rsample(n)

    def log_prob(self, x: Any) -> Any:
        """Of each row."""
        y = x - self.at
        factor = torch.where(y < 0, self.slope, 1.0).to(x.dtype)
        return (Normal(0.5, 1.0).log_prob(y / factor) - factor.log()).sum(1)


@pytest.mark.parametrize("slope", [0.2, 0.5, 0.8, 1.5])
@pytest.mark.parametrize("seed", first_of(range(2)))
def test_jumps_of_a_density_may_move(slope: float, seed: int) -> None:
    """The score knows nothing of a jump that moves with a parameter; samples do, and both are right."""
    law = "gradient/of-samples[density]"
    verdict = check(Kinked(slope), law, Settings("quick", seed))
    assert verdict.status in (Status.HOLDS, Status.INCONCLUSIVE), verdict.reason


class Clamped(nn.Module):
    """A coupling whose log-scale is clamped and passes gradients on all the same, as those of Pyro do."""

    event_shape = (4,)
    promises = ("rsample",)

    def __init__(self, halved: bool, bound: float) -> None:
        super().__init__()
        self.halved, self.bound = halved, bound
        self.net = nn.Linear(2, 4)
        nn.init.constant_(self.net.bias, 2.0)

    def parts(self, kept: Any) -> tuple[Any, Any]:
        """Log-scale and shift of the second half."""
        scale, shift = self.net(kept).chunk(2, 1)
        return scale + (scale.clamp(-self.bound, self.bound) - scale).detach(), shift

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        kept, other = x.chunk(2, 1)
        scale, shift = self.parts(kept)
        return torch.cat([kept, (other - shift) * (-scale).exp()], 1), -scale.sum(1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        kept, other = z.chunk(2, 1)
        scale, shift = self.parts(kept)
        return torch.cat([kept, other * scale.exp() + shift], 1), scale.sum(1)

    def log_prob(self, x: Any) -> Any:
        """Of each row."""
        z, log_det = self(x)
        return Normal(0.0, 1.0).log_prob(z).sum(1) + log_det

    def rsample(self, n: int) -> Any:
        """So many rows; with half of the gradient, if that is the bug."""
        x = self.inverse(torch.randn(n, 4, dtype=self.net.weight.dtype))[0]
        return 0.5 * (x + x.detach()) if self.halved else x

    def sample(self, n: int) -> Any:
        """So many rows."""
        with torch.no_grad():
            return self.rsample(n)


@pytest.mark.parametrize(
    ("halved", "bound", "accused"),
    [(False, 1.0, False), (False, 50.0, False), (True, 50.0, True)],
    ids=["clipped", "never", "halved"],
)
def test_what_the_map_passes_on_is_none_of_the_samples(
    halved: bool, bound: float, accused: bool
) -> None:
    """Where a clamp clips, autograd's derivative of the map differs as much."""
    verdict = check(Clamped(halved, bound), "gradient/of-samples", Settings("quick"))
    assert (verdict.status is Status.VIOLATED) is accused, verdict.reason
