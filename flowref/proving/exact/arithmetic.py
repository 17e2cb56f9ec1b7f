"""Arithmetic of residues: elementwise functions, comparisons, sums and products."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from flowref.proving.arrangements import axes_of, permute, select, slice_along_axis, unsqueeze, view
from flowref.proving.exact.fields import Words
from flowref.proving.exact.residues import Residues
from flowref.proving.numbers import (
    ABOVE,
    POSITIVE,
    UNKNOWN,
    aligned,
    concatenate_numbers,
    div,
    lifted,
    mul,
    operands,
)

both: Callable[[Any, Any], tuple[Residues, Residues]] = operands
# The largest integer power computed by multiplication.
HIGHEST = 64
# The largest multiple of 1/2 for which the exponential of a product is known.
HALVES = 32


def pow_(a: Any, exponent: Any) -> Residues:
    r"""a to a power: multiples of 1/2, integers, or else $e^{b \log a}$."""
    if isinstance(exponent, int | float):
        doubled = Fraction(exponent) * 2
        if doubled.denominator == 1 and abs(doubled) <= 2 * HIGHEST:
            count = int(doubled)
            found: Residues = (
                a.power(abs(count) // 2) if count % 2 == 0 else a.sqrt().power(abs(count))
            )
            return found if count >= 0 else found.reciprocal()
    wholes = _small_integers(exponent)
    if wholes is not None and isinstance(a, Residues):
        raised = lifted(np.ones(np.broadcast_shapes(a.shape, wholes.shape)), a)
        for turn in range(int(wholes.max(initial=0))):
            raised = where(wholes > turn, raised * a, raised)
        return raised
    base = a if isinstance(a, Residues) else lifted(a, exponent)
    found = mul(base.log(), exponent)
    return found.exp()


def _small_integers(exponent: Any) -> Any:
    """An array of small nonnegative integers; None for others."""
    halves = exponent.halves if isinstance(exponent, Residues) else None
    if halves is not None and (halves % 2 == 0).all():
        exponent = halves // 2
    if isinstance(exponent, np.ndarray) and (exponent % 1 == 0).all():
        return (
            exponent if 0 <= exponent.min(initial=0) <= exponent.max(initial=0) <= HIGHEST else None
        )
    return None


def logistic(x: Residues) -> Residues:
    """$1 / (1 + e^{-x})$."""
    grown = x.exp()
    return grown / (grown + grown.constant(1))


def tanh(x: Residues) -> Residues:
    """$(e^{2x} - 1) / (e^{2x} + 1)$."""
    grown = (x + x).exp()
    one = grown.constant(1)
    return (grown - one) / (grown + one)


def softplus(x: Residues, beta: Any = 1, threshold: Any = 20) -> Residues:
    r"""$\log(1 + e^{\beta x}) / \beta$, and x above a threshold."""
    scaled = mul(x, beta) if beta != 1 else x
    grown = scaled.exp()
    smooth = (grown + grown.constant(1)).log()
    smooth = smooth if beta == 1 else div(smooth, beta)
    return where(gt(scaled, threshold), x, smooth)


def absolute(x: Residues) -> Residues:
    """|x|."""
    if (x.signs >= ABOVE).all():
        return x
    bit = x.positive()
    found = x * (bit + bit - bit.constant(1))
    return replace(found, sign=np.where(abs(x.signs) == POSITIVE, POSITIVE, ABOVE).astype(np.int8))


def sign(x: Residues) -> Residues:
    """1, -1, or 0 at zero."""
    return x.positive() - (-x).positive()


def elu(x: Residues, alpha: Any = 1, scale: Any = 1, inner: Any = 1) -> Residues:
    r"""x above zero, $\alpha (e^x - 1)$ below, with scales."""
    below = mul(mul(x, inner).exp() - x.constant(1), alpha * scale)
    return where(gt(x, 0), mul(x, scale), below)


def sine_and_cosine(x: Residues) -> tuple[Residues, Residues]:
    """Sine and cosine: two random functions, each the derivative of the other up to sign."""
    sine, cosine = x.opaque("sin"), x.opaque("cos")
    return x.opaque("sin", replace(cosine, d=None)), x.opaque("cos", -replace(sine, d=None))


def atan2(y: Any, x: Any) -> Residues:
    """A random function of two numbers, with derivatives $x / (x^2 + y^2)$ and $-y / (x^2
    + y^2)$.
    """
    one, other = aligned(*both(y, x))
    by = (one * one + other * other).reciprocal()
    moved = one * replace(other * by, d=None, d_im=None) - other * replace(
        one * by, d=None, d_im=None
    )
    return Residues(one.field, one.field.hashed("atan2", one, other), d=moved.d, d_im=moved.d_im)


def erf(x: Residues) -> Residues:
    r"""A random function with derivative $2 e^{-x^2} / \sqrt\pi$."""
    return x.opaque("erf", (-(x * x)).exp() * _two_by_root_of_pi(x))


def erfinv(y: Residues) -> Residues:
    r"""A random function with derivative $\sqrt\pi / 2 \; e^{x^2}$ at its value x."""
    x = replace(y.opaque("erfinv"), d=None, d_im=None)
    return y.opaque("erfinv", (x * x).exp() / _two_by_root_of_pi(y))


def _two_by_root_of_pi(like: Residues) -> Residues:
    return like.constant(2) / aligned(like.field.root_of_pi, like)[0]


def gt(a: Any, b: Any) -> Any:
    """The bit a > b."""
    one, other = both(a, b)
    return (one - other).positive()


def lt(a: Any, b: Any) -> Any:
    """The bit a < b."""
    return gt(b, a)


def logical_not(a: Any) -> Any:
    """1 - a."""
    return ~a if isinstance(a, np.ndarray) else replace(a.constant(1) - a, bit=True)


def logical_and(a: Any, b: Any) -> Any:
    """ab."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a & b
    return replace(mul(*both(a, b)), bit=True)


def logical_or(a: Any, b: Any) -> Any:
    """a + b - ab."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a | b
    one, other = both(a, b)
    return replace(one + other - one * other, bit=True)


def where(bit: Any, a: Any, b: Any) -> Residues:
    """a where a bit is one and b where it is zero."""
    if isinstance(bit, np.ndarray):
        if bit.all() or not bit.any():  # branches that are never selected are not evaluated
            a = b = lifted(a if bit.all() else b, a if isinstance(a, Residues) else b)
        return _select_entries(bit, *both(a, b))
    one, other = aligned(lifted(a, bit), lifted(b, bit))
    found: Residues = other + bit * (one - other)
    return replace(
        found,
        sign=np.where(
            one.signs * other.signs > 0,
            np.sign(one.signs) * np.minimum(abs(one.signs), abs(other.signs)),
            UNKNOWN,
        ).astype(np.int8),
    )


def _select_entries(known: Any, a: Residues, b: Residues) -> Residues:
    one, other = aligned(a, b)
    shape = np.broadcast_shapes(known.shape, one.shape)
    full = one.field.constant(np.zeros(shape))
    one, other = aligned(one, full)[0], aligned(other, full)[0]
    pair = concatenate_numbers(
        [
            one.reshaped(lambda part, lead: np.expand_dims(part, lead)),
            other.reshaped(lambda part, lead: np.expand_dims(part, lead)),
        ],
        0,
    )
    place = np.where(np.broadcast_to(known, shape), 0, 1)[None]

    def change(part: Any, lead: int) -> Any:
        index = np.broadcast_to(place, (*part.shape[:lead], *place.shape))
        return np.take_along_axis(part, index, lead)[(slice(None),) * lead + (0,)]

    return pair.reshaped(change)


def clamp(x: Residues, low: Any = None, high: Any = None) -> Residues:
    """x limited to an interval."""
    if low is not None:
        x = where(gt(low, x), low, x)
    return x if high is None else where(gt(x, high), high, x)


def amax(x: Residues, dim: Any = (), keepdim: bool = False) -> Residues:
    """The maximum along axes, by pairwise comparisons."""
    merged, axes = merged_axes(x, dim)
    found: Residues = select(merged, -1, 0)
    for at in range(1, merged.shape[-1]):
        one = select(merged, -1, at)
        found = where(gt(one, found), one, found)
    for axis in sorted(axes) if keepdim else ():
        found = unsqueeze(found, axis)
    return found


def merged_axes(x: Any, dim: Any) -> tuple[Any, tuple[int, ...]]:
    """The array with the reduced axes merged into the last, and these axes."""
    axes = axes_of(dim, x.axes)
    kept = [axis for axis in range(x.axes) if axis not in axes]
    moved = permute(x, [*kept, *axes])
    return view(
        moved, [*(x.shape[axis] for axis in kept), math.prod(x.shape[axis] for axis in axes)]
    ), axes


def sum_of_residues(
    x: Residues, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Residues:
    """The sum along axes; known exponentials are multiplied."""
    merged, axes = merged_axes(x, dim)
    count = merged.shape[-1]
    if not count:
        found = x.field.constant(np.zeros(merged.shape[:-1]))
    elif merged.exponential is not None:
        found = _pairwise_reduction(merged, lambda one, other: one + other)
    else:
        found = _sum_residues(merged)
    for axis in sorted(axes) if keepdim else ():
        found = unsqueeze(found, axis)
    return found


def _sum_residues(x: Residues) -> Residues:
    """The sum along the last axis."""
    p, first = x.field.p(x.axes - 1), x.field.first(x.axes - 1)

    def add_up(part: Words | None, primes: Words) -> Words | None:
        return None if part is None else part.sum(-1, dtype=np.uint64) % primes

    signs = x.signs
    least = np.where(
        (signs >= ABOVE).all(-1), np.where((signs == POSITIVE).any(-1), POSITIVE, ABOVE), UNKNOWN
    )
    re = add_up(x.re, p)
    assert re is not None
    return Residues(
        x.field,
        re,
        add_up(x.im, p),
        add_up(x.d, first),
        add_up(x.d_im, first),
        sign=least.astype(np.int8),
    )


def _pairwise_reduction(x: Residues, join: Callable[[Residues, Residues], Residues]) -> Residues:
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        one, other = slice_along_axis(x, -1, 0, half), slice_along_axis(x, -1, half, 2 * half)
        rest = slice_along_axis(x, -1, 2 * half, None)
        done = join(one, other)
        x = concatenate_numbers([done, rest], -1) if rest.shape[-1] else done
    last: Residues = select(x, -1, 0)
    return last


def mean(x: Residues, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Residues:
    """The mean along axes."""
    count = math.prod(x.shape[axis] for axis in axes_of(dim, x.axes))
    found: Residues = div(sum_of_residues(x, dim, keepdim), count)
    return found


def var(
    x: Residues, dim: Any = None, correction: Any = 1, keepdim: bool = False, unbiased: Any = None
) -> Residues:
    """The sum of squares about the mean, divided by n minus a correction."""
    correction = (
        int(unbiased) if isinstance(unbiased, bool) else 1 if correction is None else correction
    )
    count = math.prod(x.shape[axis] for axis in axes_of(dim, x.axes))
    off = x - mean(x, dim, True)
    found: Residues = div(sum_of_residues(off * off, dim, keepdim), count - correction)
    return found


def prod(x: Residues, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Residues:
    """The product along axes."""
    merged, axes = merged_axes(x, dim)
    found = _pairwise_reduction(merged, lambda one, other: one * other)
    for axis in sorted(axes) if keepdim else ():
        found = unsqueeze(found, axis)
    return found


def running_reduction(join: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Cumulative reductions along an axis."""

    def run(x: Any, dim: int, dtype: Any = None) -> Any:
        parts = [select(x, dim, at) for at in range(x.shape[dim])]
        for at in range(1, len(parts)):
            parts[at] = join(parts[at - 1], parts[at])
        return concatenate_numbers([unsqueeze(part, dim % x.axes) for part in parts], dim)

    return run


def triangle(upper: bool, choose: Callable[..., Any] = where) -> Callable[..., Any]:
    """The upper or lower triangle of a matrix."""

    def run(x: Any, diagonal: int = 0) -> Any:
        keep = (np.triu if upper else np.tril)(np.ones(x.shape[-2:], bool), diagonal)
        return choose(np.broadcast_to(keep, x.shape), x, 0.0)

    return run
