"""Layers whose steps overflow far out, and layers whose gradients do nearby."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flowref.checking import pair_verdict
from flowref.model import Status


class Steep(nn.Module):
    """A Langevin step in a potential cosh(x): its force is beyond all numbers at a few hundred."""

    stochastic_forward = stochastic_inverse = True
    event_shape = (2,)

    def __init__(self, defect: float = 0.0) -> None:
        super().__init__()
        self.step, self.defect = 0.05, defect

    def forward(self, x: Any) -> Any:
        """One step, with the ratio of the chances of the step back and of it."""
        noise = torch.randn_like(x)
        width = math.sqrt(2 * self.step)
        y = x - self.step * torch.sinh(x) + width * noise
        back = (x - y + self.step * torch.sinh(y)) / width
        return y, 0.5 * (noise**2 - back**2).sum(-1) + self.defect

    inverse = forward


class Below(nn.Module):
    """What lies below the largest of three entries is normal; ``endless``: of the largest itself an
    infinite distance is taken, and left out.
    """

    stochastic_forward, stochastic_inverse = False, True
    event_shape, latent_shape = (3,), (1,)

    def __init__(self, endless: bool = False) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(0.1))
        self.endless = endless

    def forward(self, x: Any) -> Any:
        """The largest entry."""
        z, place = x.max(-1, keepdim=True)
        top = nn.functional.one_hot(place[:, 0], 3).bool()
        far = (z - (x.masked_fill(top, -math.inf) if self.endless else x)) / self.log_scale.exp()
        each = 0.5 * math.log(2 / math.pi) - self.log_scale - 0.5 * far**2
        return z, torch.where(top, 0.0, each).sum(-1) - math.log(3)

    def inverse(self, z: Any) -> Any:
        """Entries below it, and itself anywhere."""
        below = z - (torch.randn(len(z), 3, dtype=z.dtype) * self.log_scale.exp()).abs()
        top = nn.functional.one_hot(torch.randint(3, (len(z),)), 3).bool()
        return torch.where(top, z, below)


def spec(name: str) -> str:
    """The target of a class of this file."""
    return f"{Path(__file__)}:{name}"


@pytest.mark.parametrize("law", ["integral", "near-pairs"])
def test_steps_that_overflow_far_out_leave_a_layer_to_be_judged(law: str) -> None:
    """A few points of which latents are beyond all numbers have no mass, and hide no other."""
    assert pair_verdict(spec("Steep"), f"contribution/{law}").status is Status.HOLDS


def test_a_wrong_weight_of_such_steps_is_seen() -> None:
    """The law of the mass speaks of the others."""
    found = pair_verdict(spec("Steep?defect=0.05"), "density/mass[contribution]").status
    assert found is Status.VIOLATED


@pytest.mark.parametrize("law", ["point-gradient", "parameter-gradient"])
@pytest.mark.parametrize(
    ("endless", "status"), [(False, Status.HOLDS), (True, Status.VIOLATED)], ids=["far", "endless"]
)
def test_no_number_for_a_gradient_is_an_error(law: str, endless: bool, status: Status) -> None:
    """A branch that is left out has a gradient, and where that is infinite the whole is no number."""
    assert (
        pair_verdict(f"{spec('Below')}?endless={endless}", f"contribution/{law}").status is status
    )
