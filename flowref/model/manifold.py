"""Manifolds: sets on which a density is per area, with coordinates in which it is per volume. All functions
take arrays of numpy, torch or JAX.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model.support import REAL, Support, draw_points

# Tolerances for the distance from a manifold, in double precision and after half precision.
NEAR, HALF = 1e-4, 0.1
PI = math.pi


@dataclass(frozen=True)
class Manifold:
    """A manifold with coordinates that cover all of it but a null set.

    ``name``: in sentences; ``words``: its coordinates, on the line of a target;
    ``event``: shape of a point; ``shape``: of its coordinates; ``support``: the set of coordinates;
    ``point(u)``: ``(batch, *shape)`` to ``(batch, *event)``; ``coordinates(x)``: its inverse, NaN off the
        manifold;
    ``log_area(u)`` ``(batch,)``: the log of the area element;
    ``off(x)`` ``(batch,)``: the distance from the manifold;
    ``kind``: the `Support` whose uniform points are uniform on it, empty if none; ``log_volume``: log of
        its area;
    ``origin``: a point for `seen_from`, with isometries there and back from ``turned``;
    ``center``, ``factor``: position and size relative to the set of that kind.
    """

    name: str
    words: str
    event: tuple[int, ...]
    shape: tuple[int, ...]
    point: Callable[[Any], Any]
    coordinates: Callable[[Any], Any]
    log_area: Callable[[Any], Any]
    off: Callable[[Any], Any]
    support: Support = REAL
    kind: str = ""
    log_volume: float = 0.0
    origin: Any = None
    center: Any = 0.0
    factor: float = 1.0
    turned: Callable[[Any], tuple[Callable[[Any], Any], Callable[[Any], Any]]] | None = None

    @property
    def size(self) -> int:
        """The dimension."""
        return math.prod(self.shape)

    def uniform(self, count: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Coordinates of uniform points ``(count, *shape)``, and the log-density of these coordinates
        ``(count,)``.
        """
        if self.kind == "torus":
            low, high = (np.broadcast_to(end, self.size) for end in self.support.ends)
            flat = low + (high - low) * rng.random((count, self.size))
            u = flat.reshape(count, *self.shape)
        else:
            drawn = draw_points(Support.parse(self.kind), (count, *self.event), rng)
            u = self.coordinates(self.center + self.factor * drawn)
        return u, self.log_area(u) - self.log_volume

    def holds(self, x: Any) -> bool:
        """Whether all points ``(batch, *event)`` lie on it."""
        return tuple(x.shape[1:]) == self.event and bool((self.off(x) <= NEAR).all())

    def seen_from(self, image: Any) -> Manifold:
        """The same manifold in coordinates rotated by an isometry: ``image``, a point ``event``, gets the
        coordinates of ``origin``. A map of spheres that takes ``origin`` to ``image`` is smooth in these
        coordinates.
        """
        if self.turned is None:
            return self
        there, back = self.turned(image)
        return replace(
            self,
            point=partial(_after, first=self.point, then=back),
            coordinates=partial(_after, first=there, then=self.coordinates),
        )

    def moved(self, center: Any, factor: float, name: str) -> Manifold:
        """The manifold $c + r M$ with the coordinates of M, under another name."""

        def back(x: Any) -> Any:
            return (x - alike(center, x)) / factor

        def there(x: Any) -> Any:
            return alike(center, x) + factor * x

        grown = self.size * math.log(factor)
        return replace(
            self,
            name=name,
            words=self.words.replace(self.name, name),
            point=partial(_after, first=self.point, then=there),
            coordinates=partial(_after, first=back, then=self.coordinates),
            log_area=partial(_after, first=self.log_area, then=lambda area: area + grown),
            off=partial(_after, first=back, then=self.off),
            log_volume=self.log_volume + grown,
            center=center,
            factor=factor,
            origin=None,
            turned=None,
        )


def _after(x: Any, *, first: Callable[[Any], Any], then: Callable[[Any], Any]) -> Any:
    return then(first(x))


def namespace(x: Any) -> Any:
    """The module of array functions: numpy, torch or jax.numpy."""
    own = getattr(x, "__array_namespace__", None)
    return sys.modules["torch"] if own is None else own()


def alike(constant: Any, x: Any) -> Any:
    """A constant as an array of the type of ``x``."""
    if hasattr(x, "new_tensor"):
        return x.new_tensor(constant)
    return namespace(x).asarray(constant, dtype=x.dtype)


def total(x: Any) -> Any:
    """The sum over an event: ``(batch, *event)`` -> ``(batch,)``."""
    return x.reshape(len(x), math.prod(x.shape[1:])).sum(-1)


def worst(x: Any) -> Any:
    """The largest entry of an event, ``(batch,)``; NaN if one is NaN."""
    xp = namespace(x)
    return xp.amax(abs(x).reshape(len(x), math.prod(x.shape[1:])), -1)


# The unit sphere, along the last axis of an event.


def sphere(event: tuple[int, ...]) -> Manifold:
    """Unit vectors along the last axis of an event, by stereographic projection from $-e_n$; one sphere for
    each position of the other axes.
    """
    *lead, size = event
    name = "circle" if size == 2 else f"sphere S^{size - 1}"
    name = f"unit {name}" if math.prod(lead) == 1 else f"product of {math.prod(lead)} unit {name}s"
    return Manifold(
        f"the {name}",
        f"on the {name}, in stereographic coordinates",
        event,
        (*lead, size - 1),
        sphere_point,
        partial(checked, read=stereographic, off=unit_off),
        stereographic_area,
        unit_off,
        kind="sphere",
        log_volume=math.prod(lead) * log_sphere(size),
        origin=[0.0] * (size - 1) + [-1.0],
        turned=reflected,
    )


def log_sphere(size: int) -> float:
    r"""Log area of the unit sphere of $R^n$: $\log(2 \pi^{n/2} / \Gamma(n/2))$."""
    return math.log(2) + size / 2 * math.log(PI) - math.lgamma(size / 2)


def unit_off(x: Any) -> Any:
    """The deviation of norms from one, ``(batch,)``."""
    return worst((x * x).sum(-1) ** 0.5 - 1)


def around(u: Any) -> Any:
    """One plus the mean magnitude of entries: dividing by it keeps squares from overflowing."""
    return 1 + (abs(u) / u.shape[-1]).sum(-1)


def sphere_point(u: Any) -> Any:
    """$(2u, 1 - |u|^2) / (1 + |u|^2)$, with both divided by the square of `around`."""
    xp = namespace(u)
    t = 1 / around(u)[..., None]
    v = u * t
    square = (v * v).sum(-1)[..., None]
    return xp.concatenate([2 * v * t, t * t - square], -1) / (t * t + square)


def stereographic(x: Any) -> Any:
    """$x / (1 + x_n)$; on the lower half as $x (1 - x_n) / |x|^2$, to avoid cancellation."""
    xp = namespace(x)
    first, last = x[..., :-1], x[..., -1:]
    upper = last >= 0
    square = (first * first).sum(-1)[..., None]
    below = xp.where(upper, xp.ones_like(square), square)
    return xp.where(upper, first / (1 + abs(last)), first * (1 - last) / below)


def stereographic_area(u: Any) -> Any:
    r"""$\log (2 / (1 + |u|^2))^{n-1}$."""
    xp = namespace(u)
    s = around(u)
    v = u / s[..., None]
    each = math.log(2) - 2 * xp.log(s) - xp.log((1 / s) ** 2 + (v * v).sum(-1))
    return u.shape[-1] * total(each[..., None])


def reflected(image: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The reflections that exchange $-e_n$ and ``image``, one for each sphere of an event."""
    image = np.asarray(image, dtype=np.float64)
    axis = image.copy()
    axis[..., -1] += 1
    length = np.linalg.norm(axis, axis=-1, keepdims=True)
    axis = np.where(length > 1e-6, axis / np.maximum(length, 1e-6), 0.0)
    flip = partial(reflect, axis=axis.tolist())
    return flip, flip


def reflect(x: Any, *, axis: Any) -> Any:
    """The reflection $x - 2 (x a) a$."""
    a = alike(axis, x)
    return x - 2 * (x * a).sum(-1)[..., None] * a


# Half spheres with antipodal points identified: axes, and rotations as quaternions.


def axes(event: tuple[int, ...]) -> Manifold:
    """Unit vectors up to sign, by gnomonic projection; densities are per area of half a sphere."""
    *lead, size = event
    name = f"the half sphere S^{size - 1} of axes x = -x"
    return Manifold(
        name,
        f"on {name}, in gnomonic coordinates",
        event,
        (*lead, size - 1),
        axis_point,
        partial(checked, read=gnomonic, off=unit_off),
        gnomonic_area,
        unit_off,
        kind="axes",
        log_volume=math.prod(lead) * (log_sphere(size) - math.log(2)),
    )


def axis_point(u: Any) -> Any:
    r"""The axis $(u, 1) / \sqrt{1 + |u|^2}$."""
    xp = namespace(u)
    t = 1 / around(u)[..., None]
    whole = xp.concatenate([u * t, t], -1)
    return whole / (whole * whole).sum(-1)[..., None] ** 0.5


def gnomonic(x: Any) -> Any:
    """Gnomonic coordinates $x_{1:n-1} / x_n$."""
    return x[..., :-1] / x[..., -1:]


def gnomonic_area(u: Any) -> Any:
    r"""Log area element $-\tfrac{n}{2} \log(1 + |u|^2)$ for axes of $R^n$."""
    xp = namespace(u)
    s = around(u)
    v = u / s[..., None]
    each = 2 * xp.log(s) + xp.log((1 / s) ** 2 + (v * v).sum(-1))
    return -0.5 * (u.shape[-1] + 1) * total(each[..., None])


# Rotations of space.


def rotations(event: tuple[int, ...], log_volume: float = 0.0, per: str = "") -> Manifold:
    """Rotation matrices along the last two axes, with coordinates $v / w$ of their quaternions; densities
    are per Haar measure of total ``exp(log_volume)``.
    """
    lead = event[:-2]
    number = math.prod(lead)
    name = "the rotations SO(3)" if number == 1 else f"a product of {number} rotations SO(3)"
    volume = f", {per}" if per else ""
    return Manifold(
        name,
        f"on {name}{volume}, in Rodrigues coordinates",
        event,
        (*lead, 3),
        rotation_point,
        partial(checked, read=rodrigues, off=rotation_off),
        partial(rotation_area, log_volume=log_volume),
        rotation_off,
        kind="so3",
        log_volume=number * log_volume,
        origin=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        turned=multiplied,
    )


def rotation_off(x: Any) -> Any:
    """The deviation from orthogonality, or of the determinant from one."""
    xp = namespace(x)
    gram = worst(x @ x.swapaxes(-1, -2) - alike([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]], x))
    a, b, c = x[..., 0, :], x[..., 1, :], x[..., 2, :]
    one = (_cross(xp, a, b) * c).sum(-1)
    return xp.maximum(gram, worst(one[..., None] - 1))


def _cross(xp: Any, a: Any, b: Any) -> Any:
    i, j = (1, 2, 0), (2, 0, 1)
    return xp.stack(
        [a[..., p] * b[..., q] - a[..., q] * b[..., p] for p, q in zip(i, j, strict=True)], -1
    )


def rotation_point(u: Any) -> Any:
    """The rotation of the quaternion $(u, 1)$."""
    xp = namespace(u)
    q = axis_point(u)
    x, y, z, w = (q[..., i] for i in range(4))
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return xp.stack([xp.stack(row, -1) for row in rows], -2)


def quaternion(x: Any) -> Any:
    """A quaternion of a rotation, vector first, up to sign: the largest column of $4 q q^T$."""
    xp = namespace(x)
    m = [[x[..., i, j] for j in range(3)] for i in range(3)]
    (a, b, c), (d, e, f), (g, h, i) = m
    columns = [
        [1 + a - e - i, b + d, c + g, h - f],
        [b + d, 1 - a + e - i, f + h, c - g],
        [c + g, f + h, 1 - a - e + i, d - b],
        [h - f, c - g, d - b, 1 + a + e + i],
    ]
    best, taken = columns[0][0], xp.stack(columns[0], -1)
    for k in range(1, 4):
        larger = columns[k][k] > best
        best = xp.where(larger, columns[k][k], best)
        taken = xp.where(larger[..., None], xp.stack(columns[k], -1), taken)
    return taken / (taken * taken).sum(-1)[..., None] ** 0.5


def rodrigues(x: Any) -> Any:
    """Rodrigues parameters: the axis times the tangent of half the angle."""
    return gnomonic(quaternion(x))


def rotation_area(u: Any, *, log_volume: float) -> Any:
    r"""Log area element for a total of ``exp(log_volume)``; half of $S^3$ has area $\pi^2$."""
    spheres = math.prod(u.shape[1:-1])
    return gnomonic_area(u) + spheres * (log_volume - 2 * math.log(PI))


def multiplied(image: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The left multiplications that map ``image`` to the identity, and back."""
    image = np.asarray(image, dtype=np.float64)
    return (
        partial(product, left=image.swapaxes(-1, -2).tolist()),
        partial(product, left=image.tolist()),
    )


def product(x: Any, *, left: Any) -> Any:
    """The product ``left @ x`` with rotations ``(batch, ..., 3, 3)``."""
    return alike(left, x) @ x


# The simplex.


def simplex(event: tuple[int, ...], log_unit: float = 0.0) -> Manifold:
    r"""Positive entries summing to one along the last axis, with coordinates $\log(x_i / x_K)$.
    ``log_unit``: log volume of the density's unit; zero for the volume of all entries but the last.
    """
    *lead, size = event
    name = f"the simplex of {size} entries"
    per = ", per its own area" if log_unit else ""
    return Manifold(
        name,
        f"on {name}{per}, in log-ratios",
        event,
        (*lead, size - 1),
        simplex_point,
        partial(checked, read=log_ratios, off=simplex_off),
        partial(simplex_area, log_unit=log_unit),
        simplex_off,
        kind="simplex",
        log_volume=math.prod(lead) * (log_unit - math.lgamma(size)),
    )


def simplex_off(x: Any) -> Any:
    """The violation of nonnegativity, or the deviation of the sum from one."""
    xp = namespace(x)
    return xp.maximum(worst(x.sum(-1)[..., None] - 1), worst(abs(x) - x))


def _log_shares(u: Any) -> Any:
    xp = namespace(u)
    full = xp.concatenate([u, xp.zeros_like(u[..., :1])], -1)
    full = full - xp.amax(full, -1)[..., None]
    return full - xp.log(xp.exp(full).sum(-1))[..., None]


def simplex_point(u: Any) -> Any:
    """Softmax of $(u, 0)$."""
    return namespace(u).exp(_log_shares(u))


def log_ratios(x: Any) -> Any:
    r"""$\log (x_i / x_K)$."""
    logs = namespace(x).log(x)
    return logs[..., :-1] - logs[..., -1:]


def simplex_area(u: Any, *, log_unit: float) -> Any:
    r"""$\sum \log x_i$, plus ``log_unit`` for each simplex of an event."""
    return total(_log_shares(u)) + log_unit * math.prod(u.shape[1:-1])


# Tori, as angles.


def torus(event: tuple[int, ...], periods: Any = None) -> Manifold:
    r"""Angles in $(-T/2, T/2)$; ``periods``: T of each entry, infinite for entries on the line; $2 \pi$ by
    default.
    """
    given = np.full(event, 2 * PI) if periods is None else np.reshape(periods, event)
    around = np.isfinite(given).reshape(-1)
    sets = [
        Support.parse((-float(one) / 2, float(one) / 2)) if turns else REAL
        for one, turns in zip(given.reshape(-1), around, strict=True)
    ]
    circles = int(around.sum())
    name = "the circle" if circles == 1 else f"the torus of {circles} angles"
    name += f" and a line of {len(around) - circles} numbers" if circles < len(around) else ""
    long = sorted({round(float(one), 6) for one in given.reshape(-1)[around]})
    kept = np.where(np.isfinite(given), given, 0.0)
    return Manifold(
        name,
        f"on {name}, period {', '.join(f'{one:.6g}' for one in long)}",
        event,
        event,
        same,
        partial(wrapped, periods=kept),
        nowhere,
        nowhere,
        support=Support.product(sets),
        kind="torus" if around.all() else "",
        log_volume=float(np.log(given).sum()) if around.all() else 0.0,
    )


def same(u: Any) -> Any:
    """The identity: angles are their own coordinates."""
    return u


def wrapped(x: Any, *, periods: Any) -> Any:
    """Angles wrapped to one period around zero."""
    xp = namespace(x)
    periods = alike(periods, x)
    turns = periods + (periods == 0)
    inside = x - turns * xp.floor(x / turns + 0.5)
    return xp.where(periods == 0, x, xp.where(abs(x) * 2 < periods, x, inside))


def nowhere(u: Any) -> Any:
    """Zero distance at each point."""
    return total(u) * 0


# Subspaces.


def subspace(event: tuple[int, ...], basis: Any, center: Any, log_unit: float = 0.0) -> Manifold:
    """A subspace, by an orthonormal basis $(n, k)$ and a point ``center``. ``log_unit``: log volume of the
    density's unit.
    """
    count = int(basis.shape[1])
    within = {"basis": basis, "center": center}
    name = f"the subspace of {count} dimension{'s' * (count > 1)}"
    return Manifold(
        name,
        f"on a subspace of {count} dimension{'s' * (count > 1)}, in coordinates of it",
        event,
        (count,),
        partial(subspace_point, shape=event, **within),
        partial(
            checked,
            read=partial(subspace_coordinates, **within),
            off=partial(subspace_off, **within),
        ),
        partial(constant_area, log_unit=log_unit),
        partial(subspace_off, **within),
    )


def subspace_point(u: Any, *, basis: Any, center: Any, shape: tuple[int, ...]) -> Any:
    """$B u + c$, reshaped to ``shape``."""
    return (u @ alike(basis, u).T + alike(center, u)).reshape(len(u), *shape)


def subspace_coordinates(x: Any, *, basis: Any, center: Any) -> Any:
    """$B^T (x - c)$."""
    return (x.reshape(len(x), math.prod(x.shape[1:])) - alike(center, x)) @ alike(basis, x)


def subspace_off(x: Any, *, basis: Any, center: Any) -> Any:
    """The distance from the subspace, relative to the size of points."""
    flat = x.reshape(len(x), math.prod(x.shape[1:]))
    u = subspace_coordinates(x, basis=basis, center=center)
    return worst(flat - subspace_point(u, basis=basis, center=center, shape=flat.shape[1:])) / (
        1 + worst(flat)
    )


def constant_area(u: Any, *, log_unit: float) -> Any:
    """A constant area element."""
    return total(u) * 0 + log_unit


def centred(event: tuple[int, ...]) -> Manifold:
    """Configurations with zero center: events that sum to zero along the first axis."""
    n = event[0]
    rows = np.eye(n) - 1 / n
    basis = np.linalg.svd(rows)[0][:, : n - 1]
    each = math.prod(event[1:])
    whole = np.einsum("ik,jl->ijkl", basis, np.eye(each)).reshape(n * each, (n - 1) * each)
    return replace(
        subspace(event, whole, np.zeros(n * each)),
        name="the subspace of sum zero",
        words=f"on the subspace of sum zero, of {(n - 1) * each} dimensions, in coordinates of it",
    )


def checked(x: Any, *, read: Callable[[Any], Any], off: Callable[[Any], Any]) -> Any:
    """Coordinates of points; NaN for points off the manifold."""
    xp = namespace(x)
    u = read(x)
    near = NEAR if "float64" in str(x.dtype) else HALF
    on = (off(x) <= near).reshape(len(x), *[1] * (len(u.shape) - 1))
    return xp.where(on, u, alike(math.nan, u))
