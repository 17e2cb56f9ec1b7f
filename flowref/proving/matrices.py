"""Matrices of residues: products, convolutions, determinants, triangular systems."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.proving.arithmetic import absolute, add, both, mul, sign
from flowref.proving.arrangements import (
    constant_pad_nd,
    cut,
    permute,
    select,
    taken,
    transpose,
    unsqueeze,
    view,
)
from flowref.proving.fields import Pair, Words, plus
from flowref.proving.numbers import NotModelled, joined
from flowref.proving.residues import Residues


def matmul(a: Any, b: Any) -> Residues:
    """Products of matrices, with one batch axis or none."""
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
    re = _product(a[0], b[0], p)
    if a[1] is None and b[1] is None:
        return re, None
    zero = np.zeros((1,) * a[0].ndim, np.uint64)
    a_im, b_im = zero + 0 * a[0] if a[1] is None else a[1], 0 * b[0] if b[1] is None else b[1]
    im = (_product(a[0], b_im, p) + _product(a_im, b[0], p)) % p
    return (re + (p - _product(a_im, b_im, p)) % p) % p, im


def _product(a: Words, b: Words, p: Words) -> Words:
    """Matrix products modulo primes below 2^31, by those of halves of 16 bits, which are exact in double precision."""
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
    return add(found, c if beta == 1 else mul(c, beta))


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
    """Convolutions, as products of matrices with the patches of an input."""
    if transposed:
        raise NotModelled("a transposed convolution")
    image, kernel = both(x, weight)
    sides = image.axes - 2
    stride, padding, dilation = (
        list(one) * sides if len(one) == 1 else list(one) for one in (stride, padding, dilation)
    )
    image = constant_pad_nd(image, [pad for one in reversed(padding) for pad in (one, one)])
    batch, channels, *sizes = image.shape
    outs, ins, *window = kernel.shape
    counts = [
        (size - dilate * (wide - 1) - 1) // step + 1
        for size, wide, step, dilate in zip(sizes, window, stride, dilation, strict=True)
    ]
    # The place in the image of each entry of each patch: (counts..., window...), by axis.
    places = np.ix_(*(np.arange(count) for count in counts), *(np.arange(wide) for wide in window))
    at = [
        places[axis] * stride[axis] + places[sides + axis] * dilation[axis] for axis in range(sides)
    ]
    flat = np.arange(math.prod(image.shape)).reshape(image.shape)[(slice(None), slice(None), *at)]
    order = [0, *range(2, 2 + sides), 1, *range(2 + sides, 2 + 2 * sides)]
    patches = flat.transpose(order).reshape(batch * math.prod(counts), channels, math.prod(window))
    parts = []
    for group in range(groups):
        own = patches[:, group * ins : (group + 1) * ins].reshape(len(patches), -1)
        rows = cut(kernel, 0, group * outs // groups, (group + 1) * outs // groups)
        taken_in = taken(view(image, [math.prod(image.shape)]), (own,))
        parts.append(
            products(taken_in, transpose(view(rows, [outs // groups, own.shape[1]]), 0, 1))
        )
    found = view(joined(parts, -1), [batch, *counts, outs])
    found = permute(found, [0, len(found.shape) - 1, *range(1, len(found.shape) - 1)])
    return found if bias is None else sums(found, view(bias, [1, outs, *(1 for _ in counts)]))


def slogdet(a: Residues) -> tuple[Residues, Residues]:
    """The sign of a determinant and its logarithm."""
    det = determinant(a)
    return sign(det), absolute(det).log()


def determinant(a: Residues) -> Residues:
    """By elimination, with derivatives."""
    size = a.shape[-1]
    found: Residues | None = None
    rest = a
    for step in range(size):
        pivot = select(select(rest, -2, 0), -1, 0)
        found = pivot if found is None else found * pivot
        if step == size - 1:
            break
        row = cut(cut(rest, -2, 0, 1), -1, 1, None)
        column = cut(cut(rest, -2, 1, None), -1, 0, 1)
        inner = cut(cut(rest, -2, 1, None), -1, 1, None)
        by = column / unsqueeze(unsqueeze(pivot, pivot.axes), pivot.axes + 1)
        rest = inner - by * row
    assert found is not None
    return found


def solve_triangular(
    a: Residues, b: Residues, upper: bool, left: bool = True, unitriangular: bool = False
) -> Residues:
    """The solution of a triangular system."""
    if not left:
        turned = transpose(a, -1, -2), transpose(b, -1, -2)
        found: Residues = transpose(
            solve_triangular(*turned, not upper, True, unitriangular), -1, -2
        )
        return found
    size = a.shape[-1]
    rows: dict[int, Residues] = {}
    for at in reversed(range(size)) if upper else range(size):
        found = cut(b, -2, at, at + 1)
        for other, row in rows.items():
            factor = cut(cut(a, -2, at, at + 1), -1, other, other + 1)
            found = found - factor * row
        if not unitriangular:
            found = found / cut(cut(a, -2, at, at + 1), -1, at, at + 1)
        rows[at] = found
    return joined([rows[at] for at in range(size)], -2)
