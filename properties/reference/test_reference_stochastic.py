"""Markov layers of the reference: detailed balance by enumeration of their noise, and path weights by
importance sampling identities.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from flowref import reference as ref
from flowref.reference.stochastic import gradient

DOUBLE = torch.float64


def energy(x: Tensor) -> Tensor:
    """A double well."""
    return (x[:, 0].square() - 1).square() + 0.5 * x[:, 1:].square().sum(1)


def box(x: Tensor) -> Tensor:
    """Half of the square within a box, infinite without."""
    return torch.where((x.abs() < 2).all(1), 0.5 * x.square().sum(1), math.inf)


def normal(*shape: int, seed: int = 1) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.999])
def test_a_step_is_accepted_by_the_ratio_row_by_row(threshold: float) -> None:
    """Where u < exp(E - E'), as a loop over rows finds it; the weight is what the energy rose by."""
    layer = ref.Metropolis(energy, 1, 0.6)
    x, eta = normal(40, 2), normal(40, 1, 2, seed=2)
    y, weight = layer(x, (eta, torch.full((40, 1), threshold, dtype=DOUBLE)))
    moved = x + 0.6 * eta[:, 0]
    for row in range(40):
        rise = (energy(moved[row : row + 1]) - energy(x[row : row + 1])).item()
        accepted = threshold < math.exp(-rise)
        assert torch.equal(y[row], moved[row] if accepted else x[row])
        assert weight[row].item() == pytest.approx(rise if accepted else 0.0)


def test_infinite_energies_are_rejected_and_leave_nothing() -> None:
    """A proposal outside of a box is refused, and what stays is finite."""
    layer = ref.Metropolis(box, 2, 1.0)
    x, eta = torch.full((1, 2), 1.9, dtype=DOUBLE), torch.full((1, 2, 2), 5.0, dtype=DOUBLE)
    y, weight = layer(x, (eta, torch.zeros(1, 2, dtype=DOUBLE)))
    assert torch.equal(y, x)
    assert weight.item() == 0


def test_detailed_balance_on_a_lattice() -> None:
    """e^{-u(x)} P(x -> y) = e^{-u(y)} P(y -> x) for all pairs of nine points, of which P counts over
    eight proposals and a thousand thresholds.
    """
    points = torch.cartesian_prod(*[torch.arange(-1.0, 2, dtype=DOUBLE)] * 2)
    moves = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0], dtype=DOUBLE)] * 2)
    thresholds = (torch.arange(1000, dtype=DOUBLE) + 0.5) / 1000

    def lattice(x: Tensor) -> Tensor:
        """Infinite beside the nine points."""
        return torch.where((x.abs() < 1.5).all(1), 0.7 * x[:, 0] + x[:, 1].square(), math.inf)

    layer = ref.Metropolis(lattice, 1, 1.0)
    chances = np.zeros((9, 9))
    for a, x in enumerate(points):
        start = x.expand(len(moves) * 1000, 2)
        noise = moves.repeat_interleave(1000, 0)[:, None], thresholds.repeat(len(moves))[:, None]
        ends = layer(start, noise)[0]
        where = ((ends[:, 0] + 1) * 3 + ends[:, 1] + 1).round().long()
        chances[a] = np.bincount(where.numpy(), minlength=9) / len(start)
    weights = np.exp(-lattice(points).numpy())
    flow = weights[:, None] * chances
    assert np.abs(flow - flow.T).max() < 2e-4
    assert chances.sum(1) == pytest.approx(1.0)


@pytest.mark.parametrize("beta", [1.0, 0.6])
def test_a_langevin_weight_is_the_ratio_of_both_steps(beta: float) -> None:
    """log N(x; y - h grad u(y), 2h/beta) - log N(y; x - h grad u(x), 2h/beta), written out."""
    layer, h = ref.Langevin(energy, 1, 0.2, beta), 0.2
    x = normal(5, 2)
    y, weight = layer(x, (normal(5, 1, 2, seed=3),))

    def log_step(a: Tensor, b: Tensor) -> Tensor:
        gap = b - a + h * gradient(energy, a)
        return -(gap.square() * beta / (4 * h)).sum(1)

    torch.testing.assert_close(weight, log_step(y, x) - log_step(x, y))


def test_weights_of_steps_add_up() -> None:
    """Two steps are one after the other, with the noise of each."""
    for kind, extra in ((ref.Langevin, ()), (ref.Metropolis, (torch.rand(4, 2, dtype=DOUBLE),))):
        x, eta = normal(4, 2), normal(4, 2, 2, seed=5)
        both = kind(energy, 2, 0.3)(x, (eta, *extra))
        one: Any = kind(energy, 1, 0.3)
        y, first = one(x, (eta[:, :1], *(u[:, :1] for u in extra)))
        z, second = one(y, (eta[:, 1:], *(u[:, 1:] for u in extra)))
        torch.testing.assert_close(both[0], z)
        torch.testing.assert_close(both[1], first + second)


@pytest.mark.parametrize(
    "layer",
    [ref.Metropolis(energy, 3, 0.5), ref.Langevin(energy, 2, 0.05)],
    ids=["Metropolis", "Langevin"],
)
def test_the_importance_identity(layer: ref.Kernel) -> None:
    """E[p(y) e^V / q(x)] = 1 for x from q and any p, within five standard errors."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        x = 1.2 * torch.randn(40_000, 2, dtype=DOUBLE)
        y, weight = layer(x)

    def log_normal(at: Tensor, scale: float) -> Tensor:
        return -0.5 * (at / scale).square().sum(1) - 2 * math.log(scale) - math.log(2 * math.pi)

    w = (log_normal(y, 0.8) + weight - log_normal(x, 1.2)).exp()
    assert abs(w.mean().item() - 1) < 5 * w.std().item() / 200
    turned = (log_normal(y, 0.8) - weight - log_normal(x, 1.2)).exp()
    assert abs(turned.mean().item() - 1) > 0.05


def test_nothing_starts_where_nothing_lies() -> None:
    """A start of infinite energy, an energy of another shape and steps that are none are refused."""
    with pytest.raises(ValueError, match="infinite energy"):
        ref.Metropolis(box)(torch.full((1, 2), 3.0))
    with pytest.raises(ValueError, match=r"the energy gave shape \(2, 2\); expected \(2,\)"):
        ref.Langevin(lambda x: x)(torch.ones(2, 2))
    with pytest.raises(ValueError, match="expected positive numbers"):
        ref.Metropolis(energy, 0)
