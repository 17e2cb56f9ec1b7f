"""Arithmetic of the laws themselves, in extended precision, so that their own rounding causes no
violation.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Undecidable, Unsupported, per_point
from flowref.model.abilities import Bijection, Flow

# Up to this size log-determinants are eliminated in extended precision; larger ones by LAPACK, with
# an error term.
EXTENDED_SIZE = 96
# Supports with an edge, and the distance from it, relative to 1 + |edge|, that rounding may bridge.
EDGED, EDGE = ("unit", "positive", "interval", "product"), 1e-12
# Entries below this are close to the subnormal range, where rounding is no longer relative.
TINY = 1e-280


def rows_max(value: Any) -> Array:
    """The largest absolute entry of each row: ``(n, ...)`` to ``(n,)``."""
    flat = np.abs(np.asarray(value, dtype=np.float64)).reshape(len(value), -1)
    return np.asarray(flat.max(1) if flat.shape[1] else np.zeros(len(flat)))


def finite_rows(*values: Any) -> Array:
    """The rows that are finite in every array: bool ``(n,)``."""
    every = [np.isfinite(np.asarray(v, float).reshape(len(v), -1)).all(1) for v in values]
    return np.asarray(np.logical_and.reduce(every))


# Reason given by laws about both directions if no point is recovered by the inverse.
NOT_BACK = "its inverse recovers no point: see map/inverse"


def reported(flow: Flow, out: Mapped, batch: int) -> Array:
    """The log-det of a call, one number per row, ``(n,)``.

    Negated if the subject declares that it returns the log-det of the opposite direction. Raises
    `Unsupported` if none is returned.
    """
    sign = -1.0 if flow.promises.get("ladj") == "inverse" else 1.0
    return sign * returned(out, batch)


def returned(out: Mapped, batch: int) -> Array:
    """The log-det as the call returned it, ``(n,)``. Raises `Unsupported` if there is none."""
    if out.ladj is None:
        raise Unsupported("it returns no log-det")
    return per_point(out.ladj, batch)


def inverse_inputs(flow: Bijection, x: Array, context: Array | None) -> Array:
    """Inputs of the inverse, ``(n, *latent)``: the drawn points if a codomain is declared, else
    their images under forward.
    """
    if flow.codomain is not None:
        return x
    return np.asarray(flow.forward(x, context).value + 0.0)


def invertible_images(flow: Flow, y: Array) -> tuple[Array, Array]:
    """Images that the inverse accepts, ``(n, *latent)``, and which are unchanged, ``(n,)``.

    Rounding moves images of a saturating map onto the edge of an open codomain, which an inverse
    may reject; these rows are replaced by another image so that the rest of the batch can be
    measured. Raises `Undecidable` if no image is usable.
    """
    usable = finite_rows(y)
    if flow.codomain is not None and flow.codomain.kind in EDGED:
        usable = usable & flow.codomain.holds(y)
    if not usable.any():
        raise Undecidable("every image lies on the edge of the codomain, or is not finite")
    return _replaced(y, usable)


def back_inside(flow: Flow, x: Array) -> tuple[Array, Array]:
    """Preimages that forward accepts, ``(n, *event)``, and which are unchanged, ``(n,)``.

    Points outside the domain by no more than rounding are replaced by another point; points far
    outside stay, and forward rejects them. Raises `Undecidable` if no point is usable.
    """
    domain = flow.domain
    if domain.kind not in EDGED:
        return x + 0.0, np.ones(len(x), dtype=bool)
    flat, (low, high) = x.reshape(len(x), -1), domain.ends
    near = np.zeros(flat.shape, dtype=bool)
    for end in (low, high):
        with np.errstate(invalid="ignore"):
            near |= np.isfinite(end) & (np.abs(flat - end) <= EDGE * (1 + np.abs(end)))
    beyond = (flat <= low) | (flat >= high)
    usable = np.asarray(~(near & beyond).any(1))
    if not usable.any():
        raise Undecidable("every point that the inverse gives lies on the edge of the domain")
    return _replaced(x, usable)


def _replaced(values: Array, usable: Array) -> tuple[Array, Array]:
    kept = values + 0.0
    kept[~usable] = values[usable][0]
    return kept, usable


def square_matrices(jacobian: Array) -> Array:
    """A Jacobian ``(n, *out, *in)`` as extended-precision matrices ``(n, d, d)``. Raises
    `Unsupported` if it is not square.
    """
    if jacobian.shape[1] != jacobian.shape[2]:
        raise Unsupported("its Jacobian is not square")
    return jacobian.astype(np.longdouble)


def log_abs_det(jacobian: Array) -> Array:
    r"""$\log|\det J|$ of matrices ``(n, d, d)``, shape ``(n,)``: Gaussian elimination with
    complete pivoting in extended precision.

    Singular matrices give -inf, non-finite ones nan. Source: Higham, Accuracy and Stability of
    Numerical Algorithms, chapter 9.
    """
    count, size = jacobian.shape[0], jacobian.shape[1]
    if size > EXTENDED_SIZE:
        return np.asarray(np.linalg.slogdet(jacobian.astype(np.float64))[1])
    work = square_matrices(jacobian)
    broken = ~np.isfinite(work).all((1, 2))
    work[broken] = np.eye(size)
    total = np.zeros(count, dtype=np.longdouble)
    every = np.arange(count)
    for left in range(size, 0, -1):
        # The pivot is chosen in double precision, at a fraction of the time.
        with np.errstate(over="ignore", under="ignore"):
            sizes = np.abs(work.astype(np.float64)).reshape(count, -1)
        largest = sizes.argmax(1)
        if not sizes[every, largest].all():
            largest = np.abs(work).reshape(count, -1).argmax(1)
        row, column = largest // left, largest % left
        pivot = work[every, row, column]
        total += np.log(np.abs(pivot))
        if left == 1:
            break
        across = work[every, row]
        work[every, row] = work[:, 0]
        across[every, column] = across[:, 0]
        down = work[every, :, column]
        work[every, :, column] = work[:, :, 0]
        factor = down[:, 1:] / np.where(pivot == 0, 1, pivot)[:, None]
        work = work[:, 1:, 1:] - factor[:, :, None] * across[:, None, 1:]
    total[broken] = np.nan
    return total.astype(np.float64)


def resolvable(jacobian: Array, log_det: Array) -> Array:
    """The rows whose log-det can be compared, ``(n,)``: the Jacobian is finite and regular, with
    no entry near the subnormal range, and pivots do not cancel beyond extended precision.
    """
    size = np.abs(jacobian.reshape(len(jacobian), -1))
    smallest = np.where(size > 0, size, np.inf).min(1)
    with np.errstate(all="ignore"):
        canceled = np.log(np.abs(jacobian).max(2)).sum(1) - log_det
    return np.asarray(np.isfinite(log_det) & (smallest > TINY) & (canceled < 24.0))


def richardson_jacobian(
    call: Callable[..., Mapped], x: Array, context: Array | None
) -> tuple[Array, float]:
    """The Jacobian at one point by central differences with Richardson's extrapolation, and its
    error estimate.

    Three step sizes, each extrapolated from the next; the error is the largest disagreement of the
    last two estimates.
    Shapes: x ``(1, *event)``; result ``(1, outputs, inputs)`` and a number.
    """
    inputs = x.size
    flat = x.reshape(-1)
    estimates = []
    for exponent in (-10, -12, -14):
        step = 2.0**exponent * (1 + np.abs(flat))
        moves = np.concatenate([np.diag(s * step) for s in (1.0, -1.0, 0.5, -0.5)])
        contexts = None if context is None else np.repeat(context[:1], len(moves), axis=0)
        images = call((flat + moves).reshape(-1, *x.shape[1:]), contexts).value
        values = images.reshape(len(moves), -1)
        plus, minus, half_plus, half_minus = values.reshape(4, inputs, -1)
        wide = (plus - minus) / (2 * step)[:, None]
        narrow = (half_plus - half_minus) / step[:, None]
        estimates.append(((4 * narrow - wide) / 3).T)
    gaps = [float(np.abs(a - b).max()) for a, b in pairwise(estimates)]
    best = int(np.argmin(gaps))
    return estimates[best + 1][None], gaps[best]
