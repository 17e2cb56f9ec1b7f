"""Matrices of residues: products, convolutions, determinants, triangular systems."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flowref.proving.arrangements import (
    add_at_places,
    constant_pad_nd,
    expand,
    indexed_entries,
    permute,
    select,
    slice_along_axis,
    squeeze,
    transpose,
    unsqueeze,
    view,
)
from flowref.proving.exact.arithmetic import absolute, both, sign, sum_of_residues
from flowref.proving.exact.fields import Pair, Words, plus
from flowref.proving.exact.residues import Residues
from flowref.proving.numbers import NotModelled, add, concatenate_numbers, lifted, mul


def matmul(a: Any, b: Any) -> Residues:
    """Matrix products, with one batch axis or none."""
    one, other = both(a, b)
    field = one.field
    p = field.p(one.axes)
    first = field.first(one.axes)
    pair = _products(one.pair, other.pair, p)
    parts = []
    if one.d is not None:
        parts.append(_products((one.d, one.d_im), other.top, first))
    if other.d is not None:
        parts.append(_products(one.top, (other.d, other.d_im), first))
    d = plus(parts[0], parts[1], first) if len(parts) == 2 else parts[0] if parts else (None, None)
    return Residues(field, pair[0], pair[1], d[0], d[1])


def _products(a: Pair, b: Pair, p: Words) -> Pair:
    re = _modular_matmul(a[0], b[0], p)
    if a[1] is None and b[1] is None:
        return re, None
    zero = np.zeros((1,) * a[0].ndim, np.uint64)
    a_im, b_im = zero + 0 * a[0] if a[1] is None else a[1], 0 * b[0] if b[1] is None else b[1]
    im = (_modular_matmul(a[0], b_im, p) + _modular_matmul(a_im, b[0], p)) % p
    return (re + (p - _modular_matmul(a_im, b_im, p)) % p) % p, im


def _modular_matmul(a: Words, b: Words, p: Words) -> Words:
    """Matrix products modulo primes below 2^31, by products of 16-bit halves, which are exact in
    float64.
    """
    low = np.uint64(0xFFFF)
    halves = [(part >> np.uint64(16)).astype(float) for part in (a, b)] + [
        (part & low).astype(float) for part in (a, b)
    ]
    a_high, b_high, a_low, b_low = halves
    high = (a_high @ b_high).astype(np.uint64) % p
    middle = (a_high @ b_low + a_low @ b_high).astype(np.uint64) % p
    lowest = (a_low @ b_low).astype(np.uint64) % p
    found: Words = (((high << np.uint64(16)) + middle) % p * np.uint64(1 << 16) + lowest) % p
    return found


def addmm(c: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Residues:
    """beta c + alpha ab."""
    found = matmul(a, b)
    found = found if alpha == 1 else mul(found, alpha)
    whole: Residues = add(found, c if beta == 1 else mul(c, beta))
    return whole


@dataclass(frozen=True)
class Patches:
    """The entries of a padded image in each patch of a convolution.

    ``counts``: positions, by axis; ``pads``: padding, by axis; ``padded``: the shape of the padded
    image; ``groups``: for each group of channels the entries of every patch, (batch and positions,
    entries of a kernel).
    """

    counts: tuple[int, ...]
    pads: tuple[int, ...]
    padded: tuple[int, ...]
    groups: tuple[Any, ...]

    @classmethod
    def of(
        cls, image: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Patches:
        """The patches of a convolution; ``image``, ``kernel``: shapes."""
        batch, channels, *inner = image
        _, ins, *window = kernel
        sides = len(inner)
        stride, pads, dilation = (
            list(one) * sides if len(one) == 1 else list(one) for one in (stride, padding, dilation)
        )
        sizes = [size + 2 * pad for size, pad in zip(inner, pads, strict=True)]
        counts = [
            (size - dilate * (wide - 1) - 1) // step + 1
            for size, wide, step, dilate in zip(sizes, window, stride, dilation, strict=True)
        ]
        # The index in the image of each entry of each patch: (counts..., window...), by axis.
        places = np.ix_(
            *(np.arange(count) for count in counts), *(np.arange(wide) for wide in window)
        )
        at = [
            places[axis] * stride[axis] + places[sides + axis] * dilation[axis]
            for axis in range(sides)
        ]
        padded = batch, channels, *sizes
        flat = np.arange(math.prod(padded)).reshape(padded)[(slice(None), slice(None), *at)]
        order = [0, *range(2, 2 + sides), 1, *range(2 + sides, 2 + 2 * sides)]
        patches = flat.transpose(order).reshape(
            batch * math.prod(counts), channels, math.prod(window)
        )
        own = tuple(
            patches[:, group * ins : (group + 1) * ins].reshape(len(patches), -1)
            for group in range(groups)
        )
        return cls(tuple(counts), tuple(pads), padded, own)


def convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    products: Callable[[Any, Any], Any] = matmul,
    sums: Callable[[Any, Any], Any] = add,
) -> Any:
    """Convolutions, as matrix products with the patches of an input; a transposed one adds to the
    patches of its output.
    """
    image, kernel = both(x, weight)
    sides = image.axes - 2
    if transposed and products is not matmul:
        raise NotModelled("a transposed convolution")
    if transposed:
        more = list(output_padding) * (sides if len(output_padding) == 1 else 1)
        whole = [image.shape[0], kernel.shape[1] * groups]
        for axis in range(sides):
            step, pad, dilate = (one[axis % len(one)] for one in (stride, padding, dilation))
            wide = dilate * (kernel.shape[2 + axis] - 1)
            whole.append((image.shape[2 + axis] - 1) * step - 2 * pad + wide + more[axis] + 1)
        of = Patches.of(whole, kernel.shape, stride, padding, dilation, groups)
        found = _transposed_convolution(
            _channel_rows(image, groups), _kernels(kernel, groups), of, image
        )
        return found if bias is None else add(found, view(bias, [1, -1, *(1 for _ in of.counts)]))
    of = Patches.of(image.shape, kernel.shape, stride, padding, dilation, groups)
    flat, rows = _padded_image(image, of), _kernels(kernel, groups)
    parts = [
        products(indexed_entries(flat, (own,)), transpose(row, 0, 1))
        for own, row in zip(of.groups, rows, strict=True)
    ]
    found = _channels_first(concatenate_numbers(parts, -1), image.shape[0], of.counts)
    return found if bias is None else sums(found, view(bias, [1, -1, *(1 for _ in of.counts)]))


def convolution_backward(
    gradient: Any,
    x: Any,
    weight: Any,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    wanted: Any,
) -> tuple[Any, Any, Any]:
    """The gradients of a convolution by its input, its weight and its bias."""
    if transposed:
        raise NotModelled("the gradient of a transposed convolution")
    image, kernel = both(x, weight)
    gradient = lifted(gradient, image)
    of = Patches.of(image.shape, kernel.shape, stride, padding, dilation, groups)
    back, flat, kernels = (
        _channel_rows(gradient, groups),
        _padded_image(image, of),
        _kernels(kernel, groups),
    )
    by_image = _transposed_convolution(back, kernels, of, image)
    by_weight = [
        matmul(transpose(rows, 0, 1), indexed_entries(flat, (own,)))
        for own, rows in zip(of.groups, back, strict=True)
    ]
    by_bias = (
        concatenate_numbers([sum_of_residues(rows, 0) for rows in back], 0) if wanted[2] else None
    )
    return by_image, view(concatenate_numbers(by_weight, 0), kernel.shape), by_bias


def _channel_rows(x: Residues, groups: int) -> list[Any]:
    """Channels at all positions, (batch and positions, channels), by group."""
    each = x.shape[1] // groups
    rows = view(permute(x, [0, *range(2, x.axes), 1]), [-1, x.shape[1]])
    return [slice_along_axis(rows, -1, group * each, (group + 1) * each) for group in range(groups)]


def _transposed_convolution(
    rows: Sequence[Any], kernels: Sequence[Any], of: Patches, like: Residues
) -> Any:
    """Numbers at positions times kernels, summed over overlapping patches, without the padding."""
    found = lifted(np.zeros(math.prod(of.padded)), like)
    for own, row, kernel in zip(of.groups, rows, kernels, strict=True):
        found = add_at_places(found, view(matmul(row, kernel), [-1]), own.ravel())
    image = view(found, of.padded)
    for axis, pad in enumerate(of.pads):
        image = slice_along_axis(image, 2 + axis, pad, of.padded[2 + axis] - pad)
    return image


def _padded_image(image: Residues, of: Patches) -> Any:
    pads = [pad for one in reversed(of.pads) for pad in (one, one)]
    return view(constant_pad_nd(image, pads), [math.prod(of.padded)])


def _kernels(kernel: Residues, groups: int) -> list[Any]:
    outs = kernel.shape[0] // groups
    parts = [
        slice_along_axis(kernel, 0, group * outs, (group + 1) * outs) for group in range(groups)
    ]
    return [view(part, [outs, -1]) for part in parts]


def _channels_first(rows: Residues, batch: int, counts: tuple[int, ...]) -> Any:
    found = view(rows, [batch, *counts, rows.shape[-1]])
    return permute(found, [0, len(found.shape) - 1, *range(1, len(found.shape) - 1)])


def slogdet(a: Residues) -> tuple[Residues, Residues, None, None]:
    """The sign of a determinant and its logarithm, without the factors for gradients."""
    det = determinant(a)
    return sign(det), absolute(det).log(), None, None


def determinant(a: Residues) -> Residues:
    """The determinant by elimination, with derivatives."""
    size = a.shape[-1]
    found: Residues | None = None
    rest = a
    for step in range(size):
        pivot = select(select(rest, -2, 0), -1, 0)
        found = pivot if found is None else found * pivot
        if step == size - 1:
            break
        row = slice_along_axis(slice_along_axis(rest, -2, 0, 1), -1, 1, None)
        column = slice_along_axis(slice_along_axis(rest, -2, 1, None), -1, 0, 1)
        inner = slice_along_axis(slice_along_axis(rest, -2, 1, None), -1, 1, None)
        by = column / unsqueeze(unsqueeze(pivot, pivot.axes), pivot.axes + 1)
        rest = inner - by * row
    assert found is not None
    return found


def solve(a: Any, b: Any, left: bool = True, check_errors: bool = False) -> Residues:
    """The solution of a linear system, by elimination in the order of its rows."""
    a, b = both(a, b)
    if not left:
        turned: Residues = transpose(solve(*(transpose(one, -1, -2) for one in (a, b))), -1, -2)
        return turned
    if b.axes == a.axes - 1 and b.shape == a.shape[:-1]:
        of_vectors: Residues = squeeze(solve(a, unsqueeze(b, b.axes)), -1)
        return of_vectors
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (expand(one, (*batch, *one.shape[-2:])) for one in (a, b))
    rest, rows = concatenate_numbers([a, b], -1), []
    for _ in range(a.shape[-1]):
        top, below = slice_along_axis(rest, -2, 0, 1), slice_along_axis(rest, -2, 1, None)
        row = slice_along_axis(top, -1, 1, None) / slice_along_axis(top, -1, 0, 1)
        rows.append(row)
        rest = slice_along_axis(below, -1, 1, None) - slice_along_axis(below, -1, 0, 1) * row
    found: list[Residues] = []
    for row in reversed(rows):
        one = slice_along_axis(row, -1, len(found), None)
        for at, other in enumerate(reversed(found)):
            one = one - slice_along_axis(row, -1, at, at + 1) * other
        found.append(one)
    return concatenate_numbers(found[::-1], -2)


def solve_triangular(
    a: Residues, b: Residues, upper: bool, left: bool = True, unitriangular: bool = False
) -> Residues:
    """The solution of a triangular system."""
    a, b = both(a, b)
    if not left:
        turned = transpose(a, -1, -2), transpose(b, -1, -2)
        found: Residues = transpose(
            solve_triangular(*turned, not upper, True, unitriangular), -1, -2
        )
        return found
    size = a.shape[-1]
    rows: dict[int, Residues] = {}
    for at in reversed(range(size)) if upper else range(size):
        found = slice_along_axis(b, -2, at, at + 1)
        for other, row in rows.items():
            factor = slice_along_axis(slice_along_axis(a, -2, at, at + 1), -1, other, other + 1)
            found = found - factor * row
        if not unitriangular:
            found = found / slice_along_axis(slice_along_axis(a, -2, at, at + 1), -1, at, at + 1)
        rows[at] = found
    return concatenate_numbers([rows[at] for at in range(size)], -2)
