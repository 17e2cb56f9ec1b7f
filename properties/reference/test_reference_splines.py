"""Splines of the reference, by mpmath and by what defines them: knots, slopes, boxes and tails."""

from __future__ import annotations

from typing import Any

import mpmath
import pytest
import torch
from torch import Tensor

from flowref import reference as ref
from flowref.reference.spline import knots_of, rational_quadratic, rational_quadratic_inverse

BINS, BOUND = 5, 2.5


def raw(*shape: int, seed: int = 1, scale: float = 1.0) -> Tensor:
    """Numbers that describe splines."""
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, 3 * BINS - 1, generator=generator, dtype=torch.float64)


def exact(x: float, knots: Any, entry: int) -> tuple[Any, Any]:
    """Value and slope at a point with fifty digits, the slope by differentiating numerically."""
    with mpmath.workdps(50):
        xs, ys, ds = ([mpmath.mpf(float(v)) for v in values[entry]] for values in knots)
        k = max(index for index in range(BINS) if xs[index] <= x)

        def value(point: Any) -> Any:
            w, h = xs[k + 1] - xs[k], ys[k + 1] - ys[k]
            s, t = h / w, (point - xs[k]) / w
            top = h * (s * t**2 + ds[k] * t * (1 - t))
            return ys[k] + top / (s + (ds[k + 1] + ds[k] - 2 * s) * t * (1 - t))

        point = mpmath.mpf(x)
        return value(point), mpmath.diff(value, point)


@pytest.mark.parametrize("entry", range(3))
def test_value_and_slope_are_those_of_fifty_digits(entry: int) -> None:
    """The formula, evaluated without rounding, at points of every bin."""
    knots = knots_of(raw(3), BINS, BOUND)
    points = torch.linspace(-2.49, 2.49, 23, dtype=torch.float64)
    ours = rational_quadratic(points, type(knots)(*(values[entry] for values in knots)))
    for point, value, log_slope in zip(points.tolist(), *map(Tensor.tolist, ours), strict=True):
        expected, slope = exact(point, knots, entry)
        assert abs(value - expected) < 1e-14
        assert abs(log_slope - mpmath.log(slope)) < 1e-13


def test_it_passes_through_its_knots_with_their_slopes() -> None:
    """At x_k the value is y_k and the slope d_k, from either side."""
    knots = knots_of(raw(), BINS, BOUND)
    value, log_slope = rational_quadratic(knots.x, knots)
    torch.testing.assert_close(value, knots.y, rtol=0, atol=1e-15)
    torch.testing.assert_close(log_slope.exp(), knots.slope, rtol=1e-13, atol=0)
    before = rational_quadratic(knots.x[1:] - 1e-9, knots)[1]
    torch.testing.assert_close(before.exp(), knots.slope[1:], rtol=1e-5, atol=0)


def test_the_box_is_mapped_onto_itself_and_increasing() -> None:
    """Knots end at the bounds, bit for bit, and have no narrow bins, with extreme numbers too."""
    knots = knots_of(raw(scale=50.0), BINS, BOUND)
    for ends in (knots.x, knots.y):
        assert ends[0] == -BOUND
        assert ends[-1] == BOUND
        assert ends.diff().min() >= 2 * BOUND * 1e-3 * (1 - 1e-9)
    grid = torch.linspace(-BOUND, BOUND, 2001, dtype=torch.float64)
    value, log_slope = rational_quadratic(grid, knots)
    assert (value.diff() > 0).all()
    assert log_slope.isfinite().all()


def test_zeros_are_the_identity() -> None:
    """Equal widths and heights and slopes of one: a straight line."""
    grid = torch.linspace(-BOUND, BOUND, 101, dtype=torch.float64)
    value, log_slope = rational_quadratic(grid, knots_of(0 * raw(), BINS, BOUND))
    torch.testing.assert_close(value, grid, rtol=0, atol=1e-15)
    assert log_slope.abs().max() < 1e-14


def test_the_inverse_is_total() -> None:
    """Every number of the box comes back, knots and ends among them, in single precision too."""
    for dtype, near in ((torch.float64, 1e-13), (torch.float32, 2e-4)):
        knots = type(knots_of(raw(), BINS, BOUND))(
            *(values.to(dtype) for values in knots_of(raw(), BINS, BOUND))
        )
        y = torch.cat((torch.linspace(-BOUND, BOUND, 999, dtype=dtype), knots.y))
        x, _ = rational_quadratic_inverse(y, knots)
        assert x.isfinite().all()
        assert (rational_quadratic(x, knots)[0] - y).abs().max() < near


def test_outside_of_the_box_it_is_the_identity_with_finite_gradients() -> None:
    """In both directions; infinities pass."""
    layer = ref.Spline((3,), BINS, BOUND).double()
    with torch.no_grad():
        layer.raw.copy_(raw(3))
    x = torch.tensor([[3.0, -1e30, float("inf")]], dtype=torch.float64, requires_grad=True)
    for call in (layer, layer.inverse):
        value, ladj = call(x)
        assert torch.equal(value, x)
        assert ladj.item() == 0
        (gradient,) = torch.autograd.grad(value.sum(), x)
        assert torch.equal(gradient, torch.ones_like(x))


def test_without_tails_a_point_outside_is_refused() -> None:
    """The message says what was got, and where the box is."""
    layer = ref.Spline((2,), BINS, BOUND, tails=None)
    with pytest.raises(ValueError, match=r"values from 0 to 2.75.*\[-2.5, 2.5\]"):
        layer(torch.tensor([[0.0, 2.75]]))


@pytest.mark.parametrize("options", [{"bins": 1}, {"bound": 0.0}, {"bins": 1000}])
def test_options_that_make_no_spline_are_refused(options: dict[str, Any]) -> None:
    """One bin is no spline, and a thousand least widths fill the box."""
    with pytest.raises(ValueError, match="expected 2 to 1000 bins"):
        ref.Spline((2,), **options)


def test_a_conditioner_of_another_size_is_refused() -> None:
    """It gives 3K - 1 numbers for each transformed entry."""
    layer = ref.SplineCoupling(ref.channel_mask(4), ref.MLP(2, 4), BINS)
    with pytest.raises(ValueError, match=r"gave shape \(3, 4\); expected \(3, 28\)"):
        layer(torch.zeros(3, 4))


def test_numbers_of_an_entry_are_its_own() -> None:
    """Each transformed entry has the spline of the numbers that the conditioner stacks for it."""

    class Numbers(torch.nn.Module):
        """Other numbers for each entry, the same for all rows."""

        def forward(self, kept: Tensor) -> Tensor:
            """As stacked along axis 1: the first number of all entries first."""
            return raw(2).mT.flatten().expand(len(kept), -1)

    layer = ref.SplineCoupling(ref.channel_mask(4), Numbers(), BINS, BOUND)
    x = torch.rand(6, 4, dtype=torch.float64)
    knots = knots_of(raw(2), BINS, BOUND)
    expected, slopes = rational_quadratic(x[:, 2:], knots)
    z, ladj = layer(x)
    torch.testing.assert_close(z[:, 2:], expected)
    torch.testing.assert_close(ladj, slopes.sum(1))
