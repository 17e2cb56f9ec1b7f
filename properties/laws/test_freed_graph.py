"""A map that takes a gradient of its own and frees the graph of it in eval mode, or has a reentrant checkpoint, is
judged by differences, and is not accused of holding on to a training step.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint

from flowref import check
from flowref.checking import Settings
from flowref.model import Status


class Potential(nn.Module):
    r"""The gradient of a convex potential $\sum_k w_k \log(1 + e^{a_k x + b_k}) + |x|^2 / 2$; its log-det is
    that of the Hessian, of which the last row is the last use of the graph in eval mode.
    """

    event_shape = (2,)
    kept: Tensor

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.slopes = nn.Parameter(torch.tensor([[0.7, -0.4], [0.3, 0.9], [-0.8, 0.5]]))
        self.shifts, self.weights = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
        self.register_buffer("kept", torch.zeros(()))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents."""
        with torch.enable_grad():
            x = x.clone().requires_grad_(True)
            terms = softplus(self.weights) * softplus(x @ self.slopes.T + self.shifts)
            potential = terms.sum() + (x**2).sum() / 2
            (z,) = torch.autograd.grad(potential, x, create_graph=True)
            rows = [
                torch.autograd.grad(
                    z[:, index].sum(),
                    x,
                    create_graph=self.training,
                    retain_graph=self.training or index == 0,
                )[0]
                for index in range(2)
            ]
            log_det = torch.linalg.slogdet(torch.stack(rows, 1))[1]
        if self.defect == "graph":
            kept = self.kept + (1e-3 * self.weights.sum() if self.training else 0)
            self.kept, z = kept, z + kept
        return z, -log_det if self.defect == "sign" else log_det


class Checkpointed(nn.Module):
    """A coupling whose net is computed again on the way back."""

    event_shape = (2,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents."""
        kept, moved = x.split(1, 1)
        log_scale, shift = checkpoint(self.net, kept, use_reentrant=True).split(1, 1)
        z = torch.cat([kept, moved * log_scale.exp() + shift], 1)
        return z, (-log_scale if self.defect == "sign" else log_scale).squeeze(1)


def checkpointed() -> nn.Module:
    """As it should be."""
    return Checkpointed()


def checkpointed_sign() -> nn.Module:
    """The log-det of the inverse."""
    return Checkpointed("sign")


def healthy() -> nn.Module:
    """As it should be."""
    return Potential()


def sign() -> nn.Module:
    """The log-det of the inverse."""
    return Potential("sign")


def graph() -> nn.Module:
    """A buffer that is not detached."""
    return Potential("graph")


def status(name: str, law: str) -> Status:
    """A verdict."""
    return check(f"{__file__}:{name}", law, Settings("quick")).status


LAWS = (
    "map/singular-jacobian",
    "map/log-det",
    "map/one-to-one[orientation]",
    "gradient/finite",
    "effects/graphs",
)


@pytest.mark.parametrize("law", LAWS)
def test_a_graph_that_was_freed_is_no_error(law: str) -> None:
    """Laws that would go back through it say that they cannot."""
    assert status("healthy", law) is Status.NOT_APPLICABLE


@pytest.mark.parametrize("law", LAWS[:3])
def test_a_reentrant_checkpoint_is_no_error(law: str) -> None:
    """Laws that would ask for a gradient of the input say that they cannot."""
    assert status("checkpointed", law) is Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("healthy", "HOLDS"),
        ("sign", "VIOLATED"),
        ("checkpointed", "HOLDS"),
        ("checkpointed_sign", "VIOLATED"),
    ],
)
def test_its_log_det_is_judged_by_differences(name: str, found: str) -> None:
    """The right one holds, and one with a sign turned does not."""
    assert status(name, "map/log-det[differences]") is Status[found]


def test_a_graph_that_is_kept_is_told_all_the_same() -> None:
    """A buffer that is not detached is told, though steps in eval mode meet a graph of their own."""
    assert status("graph", "effects/graphs") is Status.VIOLATED
