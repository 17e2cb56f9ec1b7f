"""What an image does not hold to rounding no inverse brings back, and no sample has latents of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import loading, registry
from flowref.laws.bijection.roundtrip import inverse_roundtrip
from flowref.laws.density.sampling import pit_uniform
from flowref.model import Batch, Condition, Undecidable
from flowref.registry.specs import parse_target

# Between these the first number all but stands still, by this slope.
LOW, HIGH, SLOPE = 3.0, 8.0, 1e-20


class Shelf(nn.Module):
    """A bend with a shelf, and a shear by the sine of what went in; ``off``: of what comes back."""

    event_shape = (2,)

    def __init__(self, off: float = 0.0) -> None:
        super().__init__()
        self.off = off

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        a, b = x.unbind(1)
        beyond = LOW + SLOPE * (HIGH - LOW) + (a - HIGH)
        on = (a > LOW) & (a <= HIGH)
        bent = torch.where(a <= LOW, a, torch.where(on, LOW + SLOPE * (a - LOW), beyond))
        slope = torch.where(on, torch.full_like(a, SLOPE), torch.ones_like(a))
        return torch.stack([bent, b + 2 * torch.sin(a)], 1), slope.log()

    def inverse(self, z: Any) -> Any:
        """Latents to data; on the shelf its lower end."""
        bent, sheared = z.unbind(1)
        a = torch.where(bent <= LOW, bent, bent - LOW + HIGH)
        return torch.stack([a + self.off, sheared - 2 * torch.sin(a)], 1), torch.zeros_like(a)


class Sheared(nn.Module):
    """Numbers of 1e20, and others that are shifted by them."""

    event_shape = (2,)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z = torch.stack([x[:, 0] / 1e20, x[:, 1] - x[:, 0]], 1)
        return z, torch.full_like(x[:, 0], -20 * float(np.log(10)))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        wide = z[:, 0] * 1e20
        return torch.stack([wide, z[:, 1] + wide], 1), torch.full_like(wide, 20 * float(np.log(10)))

    def log_prob(self, x: Any) -> Any:
        """Under a normal base."""
        z, log_det = self(x)
        return torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1) + log_det

    def sample(self, n: int) -> Any:
        """From the same."""
        return self.inverse(torch.randn(n, 2))[0]


def shelf(off: str = "0") -> nn.Module:
    """The bend."""
    return Shelf(float(off))


def sheared() -> nn.Module:
    """The shear."""
    return Sheared()


def loaded(spec: str) -> Any:
    """A flow of this file."""
    return loading.load(parse_target(f"{__name__}:{spec}"), Condition())


@pytest.mark.parametrize(("off", "lost"), [("0", True), ("0.01", False)])
def test_where_a_map_is_singular_no_inverse_is_accused(off: str, lost: bool) -> None:
    """Along the line to what comes back the map is not flat, since the other entry depends on the lost one;
    what has another image is an error of the inverse.
    """
    batch = Batch(np.array([[5.0, 0.3]]), None, 0)
    residual = inverse_roundtrip.measure(loaded(f"shelf?off={off}"), batch)
    assert residual.silent.tolist() == [lost]


def test_samples_whose_latents_are_lost_are_left_out() -> None:
    """A correct flow of which rounding leaves one latent out of two is not said to draw from another base."""
    with pytest.raises(Undecidable, match="rounding a sample alone"):
        pit_uniform.measure(loaded("sheared"), Batch(np.zeros((1, 2)), None, 0))
    assert registry.find_law("sampling/follows-density[pit]") is pit_uniform
