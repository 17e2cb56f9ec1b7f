"""Noise of an inverse that takes one step after the other is that of the map that it goes back."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pytest
import torch
from torch import nn

from flowref import loading, registry
from flowref.backends.result_cache import KEPT
from flowref.backends.torch import linear_noise
from flowref.model import Array, Condition
from flowref.model.abilities import Invertible, offers

MAGNITUDE, RUNS = 2.0**-43, 24
SPECS = ("zuko:MAF?features=6", "nflows:MaskedAffineAutoregressiveTransform?features=6")


class Rounded(Invertible, Protocol):
    """Under random rounding."""

    noise: Any


def subject(spec: str) -> Rounded:
    """With moved weights, in which rounding is amplified; nothing is kept of it."""
    KEPT.clear()
    flow = loading.load(registry.parse_target(spec), Condition(scale=0.3))
    assert offers(flow, Rounded)
    return flow


def spread(flow: Rounded, z: Array, log_dets: bool = True) -> tuple[Array, Array]:
    """How far values and log-dets of the inverse move under noise, at each point; without log-dets, of
    what has none.
    """
    clean = flow.inverse(z, None)
    values, moved = [], []
    for run in range(RUNS):
        with flow.noise(run, MAGNITUDE):
            out = flow.inverse(z + 0.0, None)
        values.append(np.abs(out.value - clean.value).max(1))
        if log_dets:
            moved.append(np.abs(np.asarray(out.ladj) - np.asarray(clean.ladj)))
    rms = [np.sqrt(np.mean(np.square(one), axis=0)) for one in (values, moved or values)]
    return rms[0], rms[1]


@pytest.mark.parametrize("spec", SPECS)
def test_it_answers_as_the_inverse_itself(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a factor, and not by less."""
    x = np.random.default_rng(0).standard_normal((5, 6))
    z = subject(spec).forward(x, None).value
    true = spread(subject(spec), z)
    monkeypatch.setattr(linear_noise, "replaceable", lambda live, name: name == "inverse")
    replaced = spread(subject(spec), z)
    for one, other in zip(true, replaced, strict=True):
        assert (other > one).all() and (other < 100 * one).all(), (other / one).tolist()


def test_what_the_inverse_is_off_by_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise moves nothing back to where it ought to be."""
    monkeypatch.setattr(linear_noise, "replaceable", lambda live, name: name == "inverse")
    flow = subject(SPECS[0])
    x = np.random.default_rng(0).standard_normal((5, 6))
    z = flow.forward(x, None).value
    run: Any = flow.inverse.run
    live = run.args[0]
    live.plain_pairs.clear()
    flow.inverse(z, None)
    live.plain_pairs[0].out += 1e-3
    with flow.noise(1, MAGNITUDE):
        out = flow.inverse(z + 0.0, None)
    assert np.allclose(out.value - x, 1e-3, atol=1e-6)


def test_what_noise_moved_too_far_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a point that was computed plainly there is no other call of what is dear: of a row that moved
    farther than first order holds nothing can be said, and of the others as much as ever.
    """
    monkeypatch.setattr(linear_noise, "replaceable", lambda live, name: name == "inverse")
    flow = subject(SPECS[0])
    x = np.random.default_rng(0).standard_normal((3, 6))
    z = flow.forward(x, None).value
    flow.inverse(z, None)
    moved = z + np.array([[0.0], [1e-4], [1e-9]])
    with flow.noise(1, MAGNITUDE):
        back = flow.inverse(moved, None).value
    assert np.isfinite(back).all(1).tolist() == [True, False, True]


class LosesDigits(nn.Module):
    """y = a x^2 + x of positive numbers, gone back by the formula that subtracts what is nearly alike."""

    event_shape = (6,)
    domain = "positive"
    a = 1e-6

    def forward(self, x: Any) -> Any:
        """The value alone."""
        return self.a * x.square() + x

    def inverse(self, z: Any) -> Any:
        """The root, of which six digits are lost."""
        return ((1 + 4 * self.a * z).sqrt() - 1) / (2 * self.a)


def loses_digits() -> nn.Module:
    """It is right, and rough."""
    return LosesDigits()


def test_digits_that_formulas_lose_are_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The map back shows none of that, but a point beside does."""
    flow = loading.load(registry.parse_target(f"{__name__}:loses_digits"))
    assert offers(flow, Rounded)
    z = np.random.default_rng(0).uniform(1, 2, (5, 6))
    KEPT.clear()
    true, _ = spread(flow, z, log_dets=False)
    monkeypatch.setattr(linear_noise, "replaceable", lambda live, name: name == "inverse")
    KEPT.clear()
    replaced, _ = spread(flow, z, log_dets=False)
    assert (replaced > true / 10).all(), (replaced / true).tolist()
    assert (replaced < 100 * true).all(), (replaced / true).tolist()


class FixedPoint(nn.Module):
    """x -> x + sin(x A^T), which is gone back by so many steps towards a fixed point; those of a matrix
    that is no contraction lead nowhere.
    """

    event_shape = (12,)

    def __init__(self, size: float) -> None:
        super().__init__()
        matrix = torch.randn(12, 12, generator=torch.Generator().manual_seed(1), dtype=torch.double)
        matrix = size * matrix / torch.linalg.matrix_norm(matrix, 2)
        self.register_buffer("matrix", matrix.to(torch.get_default_dtype()))

    def branch(self, x: Any) -> Any:
        """What is added."""
        return torch.sin(x @ self.matrix.T)

    def forward(self, x: Any) -> Any:
        """The value alone."""
        return x + self.branch(x)

    def inverse(self, z: Any) -> Any:
        """Where sixty steps lead."""
        x = z
        for _ in range(60):
            x = z - self.branch(x)
        return x


def reached() -> nn.Module:
    """A contraction."""
    return FixedPoint(0.5)


def unreached() -> nn.Module:
    """None: steps lead here and there, by the last digit of what is given."""
    return FixedPoint(9.0)


@pytest.mark.parametrize("factory", [reached, unreached])
def test_of_what_is_not_gone_back_nothing_is_told_where_it_is_less_stable(
    factory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls of it differ by more than noise of an inverse explains: that accuses nobody of rows that
    depend on each other.
    """
    monkeypatch.setattr(linear_noise, "replaceable", lambda live, name: name == "inverse")
    KEPT.clear()
    flow = loading.load(registry.parse_target(f"{__name__}:{factory.__name__}"))
    assert offers(flow, Rounded)
    z = np.random.default_rng(0).standard_normal((4, 12))
    apart = np.abs(flow.inverse(z, None).value - flow.inverse(z * (1 + 1e-15), None).value).max()
    with flow.noise(1, MAGNITUDE):
        told = np.isfinite(flow.inverse(z, None).value).all(1)
    assert (apart < 1e-12) == (factory is reached)
    assert told.tolist() == [factory is reached] * 4


class Layers(nn.Module):
    """Triangular matrices, each well enough conditioned, with a kink after each; one after the other they
    are singular to rounding.
    """

    event_shape = (24,)
    drawn: torch.Tensor

    def __init__(self, layers: int) -> None:
        super().__init__()
        drawn = torch.randn(
            layers, 24, 24, generator=torch.Generator().manual_seed(0), dtype=torch.double
        )
        self.register_buffer("drawn", (drawn / 2).to(torch.get_default_dtype()))

    def matrix(self, layer: int) -> Any:
        """Lower and upper in turn, of unit diagonal."""
        one = self.drawn[layer]
        one = one.tril(-1) if layer % 2 else one.triu(1)
        return one + torch.eye(24, dtype=one.dtype)

    def forward(self, x: Any) -> Any:
        """The value alone."""
        for layer in range(len(self.drawn)):
            x = x @ self.matrix(layer).T
            x = x + 0.9 * x.abs()
        return x

    def inverse(self, z: Any) -> Any:
        """Layer by layer, each to rounding."""
        for layer in reversed(range(len(self.drawn))):
            z = torch.where(z > 0, z / 1.9, z / 0.1).T
            upper = layer % 2 == 0
            z = torch.linalg.solve_triangular(
                self.matrix(layer), z, upper=upper, unitriangular=True
            ).T
        return z


def few_layers() -> nn.Module:
    """What it gives back is right to many digits."""
    return Layers(4)


def many_layers() -> nn.Module:
    """What it gives back has nearly the image that was asked about, and is far from the point."""
    return Layers(12)


@pytest.mark.parametrize("factory", [few_layers, many_layers])
def test_of_layers_that_are_singular_together_nothing_is_told(
    factory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The derivative where they went astray says nothing of how far rounding takes them."""
    monkeypatch.setattr(linear_noise, "replaceable", lambda live, name: name == "inverse")
    KEPT.clear()
    flow = loading.load(registry.parse_target(f"{__name__}:{factory.__name__}"))
    assert offers(flow, Rounded)
    x = np.random.default_rng(0).standard_normal((4, 24))
    z = flow.forward(x, None).value
    astray = np.abs(flow.inverse(z, None).value - x).max(1) > 1
    with flow.noise(1, MAGNITUDE):
        told = np.isfinite(flow.inverse(z, None).value).all(1)
    assert astray.tolist() == [factory is many_layers] * 4
    assert told.tolist() == [factory is few_layers] * 4
