"""Normal noise within calls is drawn wider, however it is drawn, and told by how much it is less likely."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal, Normal

from flowref.backends.torch.inflated_noise import Widening

ROWS = 20_000
WAYS: dict[str, Callable[[], Any]] = {
    "randn": lambda: torch.randn(ROWS, 2),
    "randn_like": lambda: torch.randn_like(torch.zeros(ROWS, 2)),
    "normal_": lambda: torch.empty(ROWS, 2).normal_(),
    "normal_ of a deviation": lambda: (torch.empty(ROWS, 2).normal_(mean=3.0, std=2.0) - 3) / 2,
    "normal of tensors": lambda: torch.normal(torch.zeros(ROWS, 2), torch.ones(ROWS, 2)),
    "normal of numbers": lambda: torch.normal(0.0, 1.0, (ROWS, 2)),
    "rsample": lambda: (Normal(2.0, 3.0).rsample((ROWS, 2)) - 2) / 3,
    "sample": lambda: (Normal(torch.full((ROWS, 2), 2.0), 3.0).sample() - 2) / 3,
    "several entries": lambda: MultivariateNormal(torch.zeros(2), torch.eye(2)).rsample((ROWS,)),
    "samples first": lambda: torch.randn(2, ROWS).T,
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_wider_and_weighs_less(way: str) -> None:
    """It has the deviation that was asked for, and by its weights that of the noise itself."""
    torch.manual_seed(0)
    with Widening(1.5) as widening:
        e = WAYS[way]().double().numpy()
    weights = widening.log_weights(ROWS)
    assert weights is not None
    counts = np.exp(weights)
    assert np.abs(e.std(0) - 1.5).max() < 0.04
    assert abs(counts.mean() - 1) < 0.03
    assert np.abs((counts[:, None] * e**2).mean(0) - 1).max() < 0.05


@pytest.mark.parametrize("shape", [(3,), (2 * ROWS, 1), (1, 2), (ROWS, ROWS)])
def test_noise_of_nobody_knows_which_row_is_told(shape: tuple[int, ...]) -> None:
    """Noise that is shared, or whose rows are not those of the call, has no weights."""
    widening = Widening(1.5)
    widening.noted.append(np.broadcast_to(0.0, shape))
    assert widening.log_weights(ROWS) is None


def test_what_is_not_normal_stays_as_it_is() -> None:
    """Uniform numbers, and a call that draws nothing, have no weights."""
    with Widening(1.5) as widening:
        u = torch.rand(ROWS)
    assert float(u.min()) >= 0 and float(u.max()) <= 1
    assert widening.log_weights(ROWS) is None
