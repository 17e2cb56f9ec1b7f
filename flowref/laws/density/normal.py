"""Normal distributions, and hidden standard normal bases, recognized by log-densities, latents and
log-dets: each has one constant.
"""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import exact_density, exact_log_det, in_double
from flowref.laws.density.balance import comparable
from flowref.laws.density.base import LOG_2_PI, MappedDensity
from flowref.laws.density.draws import answered
from flowref.model import (
    NEARBY,
    VOLUME,
    Array,
    Batch,
    Mapped,
    Residual,
    Undecidable,
    Unsupported,
    law,
    per_point,
    requires,
)
from flowref.model.abilities import Density, Flow

# The largest number of entries: the quadratic form has a number for each pair.
ENTRIES = 16
# Relative error up to which a log-density is a quadratic form at all points; a deviation near its
# mode may change the mass by at most this multiple of the error, or the floor.
SAME, NEAR, FLOOR = 1e-9, 100.0, 1e-10
# Points that test for a deviation, at each of these distances in standard deviations.
LOOKED, DISTANCES = 6, (0.5, 2.0, 6.0, 30.0)
# The least number of points that determine a constant, and the relative accuracy to which they must
# agree.
FEWEST, ALIKE = 3, 1e-7
# Distance up to which a number counts as an integer number of levels.
WHOLE = 1e-6


@requires(f"its events have more than {ENTRIES} entries")
def few_stencil_entries(flow: Flow) -> bool:
    """The stencil of second differences has a point for each pair of entries."""
    return 0 < math.prod(flow.density_shape) <= ENTRIES


@requires("its support is not the whole space")
def unbounded(flow: Flow) -> bool:
    """A normal distribution has the whole space as support."""
    return not flow.density_support.has_end and flow.density_support.kind == "real"


@law(
    "density/base-constant[quadratic-form]",
    key="density/normal-constant",
    nats=True,
    about=VOLUME,
    points="data",
    local=False,
    size=7,
    scales=NEARBY,
    effort=2,
    applies=comparable & unbounded & few_stencil_entries & in_double,
    source="the normal density: a quadratic form whose constant is half the log-determinant of its matrix",
)
def normal_constant(flow: Density, batch: Batch) -> Residual:
    r"""A log-density that is a quadratic form, $c - \frac12 (x - m)^T \Lambda (x - m)$, has the
    constant of the normal distribution: $c = \frac12 \log\det\Lambda - \frac D2 \log 2\pi$.

    $c$, $m$ and $\Lambda$ are determined from values alone. Densities that are no quadratic form
    at ordinary points, or far out, are skipped.
    """
    size = math.prod(flow.density_shape)
    origin, slope, matrix = form(flow, batch, size)
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise Unsupported("its log-density is no quadratic form", blocked=False) from None
    middle = np.linalg.solve(matrix, slope)
    rng = np.random.default_rng(batch.seed)
    length = np.repeat(DISTANCES, LOOKED)[:, None]
    unit = rng.standard_normal((len(length), size))
    unit *= length / np.linalg.norm(unit, axis=1, keepdims=True)
    x = np.concatenate([middle + np.linalg.solve(factor.T, unit.T).T, batch.x.reshape(-1, size)])
    expected = origin + x @ slope - 0.5 * ((x @ matrix) * x).sum(1)
    terms = (
        abs(origin) + np.abs(x) @ np.abs(slope) + ((np.abs(x) @ np.abs(matrix)) * np.abs(x)).sum(1)
    )
    apart = np.abs(values(flow, batch, x) - expected)
    if not (apart <= SAME * (1 + terms)).all():
        raise Unsupported("its log-density is no quadratic form", blocked=False)
    top = origin + 0.5 * float(slope @ middle)
    constant = float(np.log(np.diagonal(factor)).sum()) - 0.5 * size * LOG_2_PI
    rows = len(batch.x)
    near = float(apart[: LOOKED * 2].max())
    return Residual(
        np.full(rows, top - constant),
        scale=4 + size + abs(origin) + 0.5 * float(np.abs(slope) @ np.abs(middle)),
        allowed=FLOOR * (1 + size) + NEAR * near,
        observed={
            "log-density at its mode": np.full(rows, top),
            "that of the normal distribution": np.full(rows, constant),
        },
    )


def form(flow: Density, batch: Batch, size: int) -> tuple[float, Array, Array]:
    """Value, gradient and negative Hessian at the origin by differences, which are exact for a
    quadratic form: a number, ``(size,)``, ``(size, size)``.
    """
    one = np.eye(size)
    pairs = [(i, j) for i in range(size) for j in range(i)]
    both = np.array([one[i] + one[j] for i, j in pairs]).reshape(-1, size)
    f = values(flow, batch, np.concatenate([np.zeros((1, size)), one, -one, both]))
    origin, ahead, behind, mixed = (
        f[0],
        f[1 : size + 1],
        f[size + 1 : 2 * size + 1],
        f[2 * size + 1 :],
    )
    matrix = np.diag(2 * origin - ahead - behind)
    for (i, j), value in zip(pairs, mixed, strict=True):
        matrix[i, j] = matrix[j, i] = ahead[i] + ahead[j] - origin - value
    return float(origin), (ahead - behind) / 2, matrix


def values(flow: Density, batch: Batch, x: Array) -> Array:
    """The log-density at points under the first context, ``(n,)``. Raises `Unsupported` if it is
    not finite.
    """
    context = None if batch.context is None else batch.context[:1].repeat(len(x), 0)
    out, error = attempt(flow.log_prob, x.reshape(len(x), *flow.density_shape), context)
    if error or np.size(out) != len(x) or not np.isfinite(out).all():
        raise Unsupported("its log-density is no quadratic form", blocked=False)
    return np.asarray(out, dtype=np.float64).reshape(len(x))


@law(
    "density/base-constant[latents]",
    key="density/normal-base",
    nats=True,
    about=VOLUME,
    points="data",
    local=False,
    scales=NEARBY,
    effort=2,
    fewest=FEWEST,
    applies=exact_log_det & exact_density,
    version=3,
    source="change of variables with the density of the standard normal distribution in D dimensions",
)
def normal_base(flow: MappedDensity, batch: Batch) -> Residual:
    r"""If log-density minus log-det is $-\frac12 \|z\|^2$ plus a constant, the constant is
    $-\frac{D}{2} \log 2\pi$: the base is a standard normal distribution in D dimensions. A count
    of levels per entry, $D \log k$ with integer k, is permitted.
    """
    rows, size = len(batch.x), math.prod(flow.density_shape)
    if flow.normalizing != "forward" or math.prod(flow.latent_shape) != size:
        raise Unsupported("its forward does not take data to as many latents")
    log_p, refused = answered(flow, batch.x, batch.context)
    given = np.isfinite(log_p)
    if given.sum() < FEWEST:
        why = f" (log_prob raises {refused})" if refused else ""
        raise Undecidable(f"fewer points have a finite log-density than determine a constant{why}")
    index = np.where(given, np.arange(rows), np.flatnonzero(given)[0])  # rejected in a batch, too
    taken = batch.rows(index)
    out = flow.forward(taken.x, taken.context)
    if out.ladj is None:
        raise Unsupported("it returns no log-det")
    with np.errstate(all="ignore"):
        _, constant, scale = _normalizing_constants(log_p, out)
        usable = np.isfinite(constant)
    if usable.sum() < FEWEST:
        raise Undecidable("its log-dets are not finite")
    middle = float(np.median(constant[usable]))
    if (np.abs(constant - middle) > ALIKE * scale)[usable].any():
        raise Unsupported("its base is no standard normal distribution")
    expected = -0.5 * size * LOG_2_PI
    if counts_levels((middle - expected) / size):
        raise Unsupported("it counts levels of its data besides")
    if number := particles(size, middle):
        raise Undecidable(
            f"its constant is that of {number} particles whose center does not move; its law is one of "
            "events without their center"
        )
    return Residual(
        np.where(usable, constant - expected, 0.0),
        np.where(usable, scale, 1.0),
        decidable=usable,
        observed={"constant": constant, "of a normal base": np.full(rows, expected)},
    )


def takes_to_normal(flow: MappedDensity, x: Array) -> bool:
    """Whether forward maps data to latents: log-density minus log-det has the normal form of its
    outputs, with one constant.
    """
    rows = len(x)
    out, refused = attempt(flow.forward, x, None)
    if refused or out.ladj is None or rows < FEWEST:
        return False
    square, constant, scale = _normalizing_constants(answered(flow, x, None)[0], out)
    # Latents at equal distances from the origin decide nothing.
    varies = np.ptp(square) > 1 and np.isfinite(constant).all()
    return bool(varies and (np.abs(constant - constant[0]) <= ALIKE * scale).all())


def _normalizing_constants(log_p: Array, out: Mapped) -> tuple[Array, Array, Array]:
    """Half the squared latents, the constant per point, and its magnitude, ``(n,)`` each."""
    ladj = per_point(out.ladj, len(log_p))
    square = 0.5 * (np.asarray(out.value, dtype=np.float64).reshape(len(log_p), -1) ** 2).sum(1)
    return square, log_p - ladj + square, 4 + np.abs(log_p) + np.abs(ladj) + square


def particles(size: int, constant: float) -> int:
    """The number of particles in two or three dimensions for which a constant excludes the center
    of mass, as in molecular flows; 0 if there is none.
    """
    for axes in (2, 3):
        if abs(constant + 0.5 * (size - axes) * LOG_2_PI) <= WHOLE * size:
            return size // axes if size % axes == 0 and size >= FEWEST * axes else 0
    return 0


def counts_levels(each: float) -> bool:
    """Whether the extra constant per entry is the logarithm of an integer or its reciprocal."""
    levels = math.exp(min(abs(each), 20.0))
    return levels > 1.5 and abs(levels - round(levels)) <= WHOLE * levels
