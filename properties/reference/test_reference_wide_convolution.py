"""Convolutions of the reference with a receptive field, by matrices and loops written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from flowref import reference as ref

CHANNELS, HEIGHT, WIDTH = 2, 3, 4
EVENT = (CHANNELS, HEIGHT, WIDTH)


def moved(layer: Any) -> Any:
    """In double precision, away from its initial values."""
    generator = torch.Generator().manual_seed(1)
    layer = layer.double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(
                0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            )
    return layer


def images(rows: int = 2) -> Tensor:
    """Normal numbers."""
    generator = torch.Generator().manual_seed(5)
    return torch.randn(rows, *EVENT, generator=generator, dtype=torch.float64)


def matrix(layer: Any) -> Tensor:
    """The layer as a matrix of flattened events, `(D, D)`: what it makes of unit vectors."""
    size = CHANNELS * HEIGHT * WIDTH
    units = torch.eye(size, dtype=torch.float64).view(size, *EVENT)
    columns: Tensor = layer(units)[0].flatten(1).mT
    return columns


def test_a_periodic_convolution_is_the_sum_that_defines_it() -> None:
    """z[o, i, j] = x[o, i, j] + sum over c, a, b of w[o, c, a, b] x[c, i - a, j - b], indices modulo the size."""
    layer, x = moved(ref.PeriodicConvolution(CHANNELS, 3)), images()
    z = x.clone()
    for a in range(3):
        for b in range(3):
            rolled = x.roll((a, b), (2, 3))
            z += torch.einsum("oc,nchw->nohw", layer.weight[:, :, a, b], rolled)
    torch.testing.assert_close(layer(x)[0], z)


@pytest.mark.parametrize(
    "layer",
    [
        ref.PeriodicConvolution(CHANNELS),
        ref.MaskedConvolution(CHANNELS),
        ref.MaskedConvolution(CHANNELS, 3, backward=True),
        ref.EmergingConvolution(CHANNELS),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_the_log_det_is_that_of_the_matrix(layer: Any) -> None:
    """One number for all rows."""
    layer = moved(layer)
    expected = torch.linalg.slogdet(matrix(layer)).logabsdet
    torch.testing.assert_close(layer(images())[1], expected.expand(2))
    torch.testing.assert_close(layer.inverse(images())[1], -expected.expand(2))


@pytest.mark.parametrize("backward", [False, True])
def test_a_masked_convolution_is_triangular_in_reading_order(backward: bool) -> None:
    """Pixels in reading order, channels of a pixel together: exact zeros on one side, and the whole
    neighborhood on the other.
    """
    full = matrix(moved(ref.MaskedConvolution(CHANNELS, 3, backward)))
    order = torch.arange(full.shape[0]).view(EVENT).movedim(0, -1).flatten()
    ordered = full[order][:, order]
    assert not (ordered.tril(-1) if backward else ordered.triu(1)).any()
    middle = full.view(*EVENT, *EVENT)[:, 1, 1]
    seen = (middle != 0).any(0).any(0)
    before = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
    after = torch.tensor([[0, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0]], dtype=torch.bool)
    assert torch.equal(seen, after if backward else before)


def test_two_masked_ones_see_all_sides() -> None:
    """The receptive field of an emerging convolution has pixels before and after its own."""
    middle = matrix(moved(ref.EmergingConvolution(CHANNELS))).view(*EVENT, *EVENT)[0, 1, 1]
    assert (middle != 0).any(0)[:, :3].all()


@pytest.mark.parametrize(
    "layer",
    [ref.PeriodicConvolution(2), ref.MaskedConvolution(2)],
    ids=lambda layer: type(layer).__name__,
)
def test_other_images_are_refused(layer: Any) -> None:
    """Another number of channels, and vectors."""
    for shape in ((2, 3, 4, 4), (2, 2)):
        with pytest.raises(ValueError, match=r"expected \(N, 2, H, W\)"):
            layer(torch.zeros(shape))


def test_kernels_that_do_not_fit_are_refused() -> None:
    """A kernel larger than the image, and one without a middle."""
    with pytest.raises(ValueError, match="for a kernel of 3; expected no fewer pixels"):
        ref.PeriodicConvolution(1)(torch.zeros(1, 1, 2, 4))
    with pytest.raises(ValueError, match="got size=2; expected an odd number"):
        ref.MaskedConvolution(1, 2)
