"""Residual blocks of the reference, by determinants of Jacobians, closed bounds and enumeration."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from flowref import reference as ref
from flowref.reference.log_det_series import weighted_traces
from flowref.reference.residual import LipSwish, SpectralLinear

LIPSCHITZ, DIMS = 0.6, 3


def block(log_det: Any = None, lipschitz: float = LIPSCHITZ, scale: float = 3.0) -> Any:
    """A block in double precision whose weights were moved, so that the bounds are reached."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        layer = ref.Residual(ref.Contraction(DIMS, (8,), lipschitz), log_det=log_det).double()
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.mul_(scale)
    layer.settle()
    return layer.eval()


def points(rows: int = 4) -> Tensor:
    """Normal numbers."""
    generator = torch.Generator().manual_seed(5)
    return torch.randn(rows, DIMS, generator=generator, dtype=torch.float64)


def jacobians(g: Any, x: Tensor) -> Tensor:
    """Of each row, `(N, D, D)`."""
    rows = [torch.autograd.functional.jacobian(lambda p: g(p[None])[0], point) for point in x]
    return torch.stack(rows)


def log_dets(layer: Any, x: Tensor) -> Tensor:
    """By the determinant of I + J."""
    eye = torch.eye(DIMS, dtype=x.dtype)
    logs: Tensor = torch.linalg.slogdet(eye + jacobians(layer.g, x)).logabsdet
    return logs


def test_the_largest_singular_value_is_the_coefficient() -> None:
    """Of weights that exceed it; others stay as they are."""
    layer = SpectralLinear(5, 4, 0.7).double()
    for scale, expected in ((10.0, 0.7), (1e-3, None)):
        with torch.no_grad():
            layer.weight.copy_(scale * torch.linalg.qr(layer.weight.mT)[0].mT)
            layer.weight[0] *= 1.5
        layer.settle()
        used = layer(torch.eye(5, dtype=torch.float64)) - layer(torch.zeros(1, 5).double())
        largest = torch.linalg.matrix_norm(used, 2).item()
        assert largest == pytest.approx(1.5 * scale if expected is None else expected, rel=1e-9)


def test_the_activation_is_no_steeper_than_one() -> None:
    """|d/dx x sigmoid(bx)| / 1.1 <= 1, for flat and steep b."""
    for raw in (-5.0, 0.5, 20.0):
        activation = LipSwish().double()
        with torch.no_grad():
            activation.raw.fill_(raw)
        x = torch.linspace(-400, 400, 80_001, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(activation(x).sum(), x)
        assert slope.abs().max() <= 1.0


def test_the_block_is_a_contraction() -> None:
    """Jacobians of g have norms of c at most, and far points come no further apart."""
    layer, x = block(), 3 * points(50)
    assert torch.linalg.matrix_norm(jacobians(layer.g, x), 2).max() <= LIPSCHITZ * (1 + 1e-9)
    apart, before = (torch.linalg.norm(at[:, None] - at, dim=-1) for at in (layer.g(x), x))
    assert (apart <= LIPSCHITZ * before * (1 + 1e-9)).all()


def test_the_log_det_has_its_bounds() -> None:
    """D log(1 - c) <= ladj <= D log(1 + c)."""
    ladj = block()(3 * points(50))[1]
    assert (ladj >= DIMS * math.log1p(-LIPSCHITZ)).all()
    assert (ladj <= DIMS * math.log1p(LIPSCHITZ)).all()


@pytest.mark.parametrize("terms", [1, 2, 5, 20])
def test_a_power_series_lacks_no_more_than_it_says(terms: int) -> None:
    """The remainder, bounded by the Lipschitz constant; and with many terms nothing is left."""
    series = ref.PowerSeries(terms)
    layer, x = block(series), points()
    gap = (layer(x)[1] - log_dets(layer, x)).abs().max().item()
    assert gap <= series.lacks(DIMS, LIPSCHITZ)
    assert gap > 1e-12 or terms > 5


@pytest.mark.parametrize("power", [1, 2, 3])
def test_signs_give_traces_on_average(power: int) -> None:
    """The mean of v^T J^k v over all 2^D vectors of signs is the trace, exactly."""
    layer, x = block(), points(2)
    every = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=DIMS)), dtype=torch.float64)
    noise = every[:, None].expand(-1, 2, -1)
    factors = [float(k == power) for k in range(1, power + 1)]
    found = weighted_traces(layer.g, x, factors, len(every), (noise,))[1]
    exact = torch.linalg.matrix_power(jacobians(layer.g, x), power).diagonal(dim1=1, dim2=2).sum(1)
    torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("p", "sure"), [(0.5, 2), (0.3, 0), (0.7, 1)])
def test_the_roulette_is_right_on_average(p: float, sure: int) -> None:
    """The sum over all lengths, each with its probability, is the log-determinant: unbiased."""
    layer, x = block(lipschitz=0.4), points(2)
    roulette = ref.Roulette(p, sure, probes=0)
    mean = torch.zeros(2, dtype=torch.float64)
    for more in range(60):
        chance = p * (1 - p) ** more
        mean += chance * roulette(layer.g, x, (torch.tensor(more),)).detach()
    torch.testing.assert_close(mean, log_dets(layer, x), rtol=0, atol=1e-8)


def test_a_drawn_length_is_geometric() -> None:
    """P(N >= j) = (1 - p)^j, as the weights assume."""
    layer, x = block(), points(1)
    roulette = ref.Roulette(0.5, 0, probes=0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        empty = [bool((roulette(layer.g, x) == 0).all()) for _ in range(400)]
    assert abs(sum(empty) / 400 - 0.5) < 0.13


@pytest.mark.parametrize(
    "log_det", [ref.Exact(), ref.PowerSeries(3), ref.PowerSeries(3, 1)], ids=str
)
def test_gradients_of_the_log_det_are_those_of_its_value(log_det: Any) -> None:
    """By central differences along x and along the weights, with the noise held."""
    layer, x = block(log_det), points(2).requires_grad_()
    noise = (torch.ones(1, 2, DIMS, dtype=torch.float64),) if getattr(log_det, "probes", 0) else ()
    weight = layer.g[0].weight
    by_x, by_weight = torch.autograd.grad(layer(x, noise)[1].sum(), (x, weight))
    step = 1e-6
    for parameter, gradient in ((x, by_x), (weight, by_weight)):
        direction = torch.ones_like(parameter).cumsum(-1)
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter += sign * step * direction
            ends.append(layer(x, noise)[1].sum().item())
            with torch.no_grad():
                parameter -= sign * step * direction
        slope = (ends[0] - ends[1]) / (2 * step)
        assert (gradient * direction).sum().item() == pytest.approx(slope, rel=1e-5, abs=1e-7)


def gradients(layer: ref.Residual, series: Any, x: Tensor, noise: tuple[Tensor, ...]) -> Any:
    """Of the sum of log-dets by x and by all weights."""
    return torch.autograd.grad(
        series(layer.g, x, noise).sum(), (x, *layer.g.parameters()), materialize_grads=True
    )


def test_gradients_by_one_product_are_the_same_of_traces() -> None:
    """With unit vectors for probes, and so are the values of all."""
    layer, x = block(), points(2).requires_grad_()
    through_all, by_one = ref.PowerSeries(6), ref.PowerSeries(6, neumann=True)
    assert torch.equal(through_all(layer.g, x), by_one(layer.g, x))
    for one, other in zip(
        *(gradients(layer, series, x, ()) for series in (through_all, by_one)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("more", [0, 3])
def test_gradients_by_one_product_are_right_on_average(more: int) -> None:
    """The mean over all 2^D vectors of signs is the gradient of the traces, for each length."""
    layer, x = block(), points(2).requires_grad_()
    length = torch.tensor(more)
    every = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=DIMS)), dtype=torch.float64)
    signs = every[:, None].expand(-1, 2, -1)
    means = gradients(layer, ref.Roulette(0.5, 2, len(every), neumann=True), x, (length, signs))
    exact = gradients(layer, ref.Roulette(0.5, 2, 0), x, (length,))
    for mean, one in zip(means, exact, strict=True):
        torch.testing.assert_close(mean, one, rtol=1e-10, atol=1e-13)


def test_a_pass_calls_the_map_once() -> None:
    """For its value and for its log-det together."""
    for log_det in (ref.Exact(), ref.PowerSeries(3, 2), ref.Roulette(0.5, 2, 1)):
        calls: list[Any] = []
        layer = block(log_det)
        layer.g.register_forward_hook(lambda *given, calls=calls: calls.append(given))
        layer(points(2))
        assert len(calls) == 1


@pytest.mark.parametrize("lipschitz", [0.3, 0.9])
def test_the_inverse_meets_its_tolerance(lipschitz: float) -> None:
    """Against a fixed point that is iterated until nothing changes."""
    layer, z = block(lipschitz=lipschitz), 3 * points()
    with torch.no_grad():
        x = layer.inverse(z)[0]
        true = z
        for _ in range(3000):
            true = z - layer.g(true)
    assert (x - true).abs().max() <= layer.tolerance * (1 + z.abs().max())


def test_samples_are_made_without_a_series() -> None:
    """What generates is the inverse, and asks for no log-det."""
    layer, z = block(log_det=lambda *given: pytest.fail("it was asked")), points()
    x = layer.generate(z)
    torch.testing.assert_close(x + layer.g(x), z, rtol=0, atol=1e-8)


def test_rows_come_back_as_they_would_alone() -> None:
    """A row that has arrived is left alone, however long others take."""
    layer, z = block(lipschitz=0.9), torch.cat((points(2), 1e3 * points(2)))
    together = layer.solve(z)
    torch.testing.assert_close(together[:1], layer.solve(z[:1]), rtol=0, atol=1e-14)


def test_gradients_pass_the_inverse() -> None:
    """The Jacobian of the inverse is the inverse of the Jacobian."""
    layer, x = block(), points(1)
    z = layer(x)[0].detach()
    back = jacobians(lambda p: layer.inverse(p)[0], z)
    there = jacobians(lambda p: layer(p)[0], x)
    torch.testing.assert_close(back @ there, torch.eye(DIMS).double()[None], rtol=0, atol=1e-7)


def test_what_is_no_contraction_says_so() -> None:
    """A g of slope 3 that claims 0.5: no finite result, but an error that says what was left."""
    steep = nn.Linear(DIMS, DIMS, bias=False).double()
    with torch.no_grad():
        steep.weight.copy_(3 * torch.eye(DIMS))
    layer = ref.Residual(steep, lipschitz=0.5)
    with pytest.raises(ref.NotConverged, match="not reached: the last step"):
        layer.inverse(points())


@pytest.mark.parametrize("lipschitz", [1.0, 0.0, -0.5, None])
def test_a_constant_of_one_is_refused(lipschitz: float | None) -> None:
    """Less than one is needed: x - x is no bijection."""
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        ref.Residual(nn.Linear(2, 2), lipschitz=lipschitz)


def test_nan_passes() -> None:
    """What is no number comes back as none, and is no failure of the iteration."""
    z = points(2)
    z[0, 0] = math.nan
    x = block().solve(z)
    assert x[0].isnan().any()
    assert x[1].isfinite().all()
