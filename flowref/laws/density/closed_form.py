"""Normal distributions, told by their log-density alone: a quadratic form has one constant."""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import in_double
from flowref.laws.density.balance import comparable
from flowref.model import VOLUME, Array, Batch, Residual, Unsupported, law, requires
from flowref.model.abilities import Density, Flow

LOG_2_PI = math.log(2 * math.pi)
# Events of so many entries: the form has a number for each pair.
ENTRIES = 16
# A log-density is a quadratic form if it is one to this share at all points; what it departs from
# one near its mode may change its mass by no more than so many times that.
SAME, NEAR, FLOOR = 1e-9, 100.0, 1e-10
# Points that look for a departure: so many at each of these distances, in deviations.
LOOKED, DISTANCES = 6, (0.5, 2.0, 6.0, 30.0)


@requires(f"its events have more than {ENTRIES} entries")
def few_entries(flow: Flow) -> bool:
    """So few that each pair of them is a point of the stencil."""
    return 0 < math.prod(flow.density_shape) <= ENTRIES


@requires("its support is not the whole space")
def unbounded(flow: Flow) -> bool:
    """A normal distribution lives everywhere."""
    return not flow.density_support.bounded and flow.density_support.kind == "real"


@law(
    "density/normal-constant",
    nats=True,
    about=VOLUME,
    points="data",
    local=False,
    size=7,
    scales=(0.0, 0.3),
    effort=2,
    applies=comparable & unbounded & few_entries & in_double,
    source="the normal density: a quadratic form whose constant is half the log-determinant of its matrix",
)
def normal_constant(flow: Density, batch: Batch) -> Residual:
    r"""A log-density that is a quadratic form, $c - \frac12 (x - m)^T \Lambda (x - m)$, is that of a
    normal distribution, and has its constant: $c = \frac12 \log\det\Lambda - \frac D2 \log 2\pi$.

    $c$, $m$ and $\Lambda$ are found from values alone. Of anything that is no quadratic form at
    ordinary points, or far out, nothing is said.
    """
    size = math.prod(flow.density_shape)
    origin, slope, matrix = form(flow, batch, size)
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise Unsupported("its log-density is no quadratic form", waits=False) from None
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
        raise Unsupported("its log-density is no quadratic form", waits=False)
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
    """The value, the gradient and the negative second derivatives at the origin of what is taken for
    a quadratic form, by differences, which are exact for one.
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
    """The log-density at points, all with the first context."""
    context = None if batch.context is None else batch.context[:1].repeat(len(x), 0)
    out, error = attempt(flow.log_prob, x.reshape(len(x), *flow.density_shape), context)
    if error or np.size(out) != len(x) or not np.isfinite(out).all():
        raise Unsupported("its log-density is no quadratic form", waits=False)
    return np.asarray(out, dtype=np.float64).reshape(len(x))
