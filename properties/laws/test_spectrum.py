"""Estimated log-dets: what is left open covers what is missed, and gross errors are beyond it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import loading
from flowref.laws.bijection import at_size, log_det
from flowref.laws.common import entries, spectrum
from flowref.laws.common.spectrum import bidiagonal, estimated, quadrature, radau
from flowref.model import Array, Batch, Condition, Stage, Undecidable, draw
from rows import first_of

SIZE = 160


def linear(matrix: Array, pushed: bool = True) -> Stage:
    """The map of a matrix at a point."""
    x = np.random.default_rng(0).standard_normal((1, len(matrix)))
    return Stage(
        "",
        x.shape[1:],
        x,
        x @ matrix.T,
        lambda pulled: pulled @ matrix,
        lambda points: points @ matrix.T,
        push=(lambda vectors: vectors @ matrix.T) if pushed else None,
    )


def spread(width: float, rng: np.random.Generator) -> Array:
    """A matrix whose singular values spread over so many factors of e."""
    left, right = (np.linalg.qr(rng.standard_normal((SIZE, SIZE)))[0] for _ in range(2))
    return np.asarray(left * np.exp(rng.uniform(-width / 2, width / 2, SIZE)) @ right)


@pytest.mark.parametrize("pushed", [True, False])
@pytest.mark.parametrize("width", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("seed", first_of(range(6)))
def test_what_is_left_open_covers_what_is_missed(seed: int, width: float, pushed: bool) -> None:
    """An estimate is off by far less than it leaves open: a third of it, where a ninth is what chance
    does.
    """
    rng = np.random.default_rng(seed)
    matrix = 1.3 * spread(width, rng)
    told = estimated(linear(matrix, pushed), rng)
    assert told is not None
    assert told.estimated
    assert abs(told.log_det[0] - np.linalg.slogdet(matrix)[1]) <= told.error[0] / 3


def test_a_spectrum_too_wide_for_a_few_steps_tells_nothing() -> None:
    """Where quadrature has not converged, nothing is estimated."""
    rng = np.random.default_rng(1)
    assert estimated(linear(spread(12.0, rng)), rng) is None


@pytest.mark.parametrize("seed", first_of(range(4)))
def test_quadrature_bounds_a_logarithm_from_both_sides(seed: int) -> None:
    """Gauss's rule is above the quadratic form of a logarithm, and Radau's is below it."""
    rng = np.random.default_rng(seed)
    matrix = spread(3.0, rng)
    start = rng.standard_normal((1, SIZE))
    (diagonal,), (above,) = bidiagonal(linear(matrix), start)
    values, vectors = np.linalg.eigh(matrix.T @ matrix)
    unit = start[0] / np.linalg.norm(start)
    truth = (vectors.T @ unit) ** 2 @ np.log(values) / 2
    logs, weights = quadrature(diagonal[:6], above[:5])
    assert radau(diagonal[:6], above[:5], values[0]) <= truth + 1e-12
    assert truth <= weights @ logs + 1e-12


class Dense(nn.Module):
    """A matrix with singular values near three, and functions of each entry before it."""

    event_shape = (SIZE,)

    def __init__(self, slip: str) -> None:
        super().__init__()
        self.slip = slip
        self.matrix = nn.Parameter(3 * torch.eye(SIZE) + 0.5 * torch.randn(SIZE, SIZE) / SIZE**0.5)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Value and log-det, which is taken of the matrix whole."""
        slope = 1 + 0.2 * x.cos()
        ladj = slope.log().sum(-1) + torch.linalg.slogdet(self.matrix)[1]
        factor = {"": 1.0, "sign": -1.0, "mean": 1 / SIZE, "twice": 2.0}[self.slip]
        return Together.apply(x, self.matrix), factor * ladj  # type: ignore[no-untyped-call]


class Together(torch.autograd.Function):
    """What nobody can see into."""

    @staticmethod
    def forward(context: Any, x: Any, matrix: Any) -> Any:
        """The value."""
        context.save_for_backward(x, matrix)
        return (x + 0.2 * x.sin()) @ matrix.T

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        """Cotangents through matrix and sine."""
        x, matrix = context.saved_tensors
        return gradient @ matrix * (1 + 0.2 * x.cos()), None


@pytest.mark.parametrize("slip", ["", "sign", "mean", "twice"])
def test_gross_errors_are_beyond_what_is_left_open(
    slip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a Jacobian cannot be made, a sign, a mean and a factor are seen; a correct log-det is
    within what is left open, which is said.
    """
    monkeypatch.setattr(at_size, "NOISED", 16)
    monkeypatch.setattr(entries, "MOST", 16)
    flow: Any = loading.load(loading.snapshot(Dense(slip)), Condition())
    x = draw(flow.domain, (3, SIZE), np.random.default_rng(3))
    residual = log_det.log_det.measure(flow, Batch(x, None, 1))
    off = residual.per_row() > np.asarray(residual.allowed)
    assert off[0] == bool(slip)
    assert np.asarray(residual.decidable).tolist() == [True, False, False]
    assert "estimated" in residual.road
    assert "nats" in residual.road


def test_an_estimate_that_leaves_too_much_open_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where even the other sign would be within what is left open, nothing is decided."""
    monkeypatch.setattr(at_size, "NOISED", 16)
    monkeypatch.setattr(entries, "MOST", 16)
    monkeypatch.setattr(spectrum, "HIDDEN", 10.0)
    flow: Any = loading.load(loading.snapshot(Dense("")), Condition())
    x = draw(flow.domain, (3, SIZE), np.random.default_rng(3))
    with pytest.raises(Undecidable, match="nats open"):
        log_det.log_det.measure(flow, Batch(x, None, 1))
