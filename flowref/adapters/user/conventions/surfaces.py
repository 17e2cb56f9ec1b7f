"""Maps and densities of points of a surface, of a sphere or of a subspace, in coordinates of it: in these
a Jacobian is square, and what is with respect to an area is with respect to a volume.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from flowref.adapters.user.conventions.once import Once
from flowref.adapters.user.conventions.volumes import agrees
from flowref.model import Dialect, Shape

# Points that are looked at; how near to one lengths are, relative to which singular values are none, and entries
# of an event up to which a surface is looked for.
POINTS, NEAR, NONE, FEW = 512, 1e-4, 1e-6, 32
# By how much a point is moved off a sphere, and how far a density that means its area falls there at most.
OFF, FALLEN = (0.5, 1.6), 5.0
# Points by which the mass of a density on a subspace is estimated, what they spread beside its samples, and how
# far that may be from one.
DRAWN, WIDER, MASS = 20_000, 1.3, 0.05


class Chart(NamedTuple):
    """Coordinates of a surface: ``point`` from these and ``coordinates`` back, and ``log_area``, the logarithm of
    the area of a unit of them. ``size``: how many there are; ``words``: what the line of a target says.
    """

    size: int
    words: str
    point: Callable[[Any], Any]
    coordinates: Callable[[Any], Any]
    log_area: Callable[[Any], Any]


def of_sphere(size: int) -> Chart:
    """The unit sphere of so many dimensions, seen from its pole."""
    words = "on the unit sphere, in stereographic coordinates"
    return Chart(size, words, sphere_point, stereographic, stereographic_area)


def sphere_point(u: Any) -> Any:
    """$(2u, 1 - |u|^2) / (1 + |u|^2)$."""
    import torch

    square = (u * u).sum(-1, keepdim=True)
    return torch.cat([2 * u, 1 - square], -1) / (1 + square)


def stereographic(x: Any) -> Any:
    """The coordinates of a point of the sphere, seen from $-e_n$."""
    last = x.shape[-1] - 1
    return x.narrow(-1, 0, last) / (1 + x.narrow(-1, last, 1))


def stereographic_area(u: Any) -> Any:
    r"""$\log (2 / (1 + |u|^2))^{n-1}$."""
    return u.shape[-1] * (math.log(2) - (u * u).sum(-1).log1p())


def of_subspace(basis: Any, center: Any, shape: Shape, area: float) -> Chart:
    """A subspace of events of a shape, by an orthonormal basis $(n, k)$ and a point of it. ``area``: the logarithm
    of what a density on it counts of a unit of the coordinates.
    """
    size = int(basis.shape[1])
    return Chart(
        size,
        f"on a subspace of {size} dimensions, in coordinates of it",
        partial(subspace_point, basis=basis, center=center, shape=shape),
        partial(subspace_coordinates, basis=basis, center=center),
        partial(constant_area, area=area),
    )


def subspace_point(u: Any, *, basis: Any, center: Any, shape: Shape) -> Any:
    """The point of some coordinates."""
    return (u @ basis.to(u).T + center.to(u)).reshape(len(u), *shape)


def subspace_coordinates(x: Any, *, basis: Any, center: Any) -> Any:
    """The coordinates of a point."""
    return (x.flatten(1) - center.to(x)) @ basis.to(x)


def constant_area(u: Any, *, area: float) -> Any:
    """The same everywhere."""
    return u.sum(-1) * 0 + area


def surface_of(obj: Any, dialect: Dialect, x: Any) -> Chart | None:
    """The surface on which an object is what it says that it is, or means to be; None where it is one of volumes,
    as most are. ``x``: a batch of ordinary points.
    """
    with contextlib.suppress(Exception):  # what calls raise is the laws' affair
        if dialect.forward is not None:
            return _of_map(Once(obj), dialect.forward, x)
        if dialect.log_prob is not None and dialect.sample is not None:
            return _of_density(Once(obj), dialect.log_prob, dialect.sample, x)
    return None


def in_coordinates(dialect: Dialect, chart: Chart) -> Dialect:
    """How an object speaks of the coordinates of a surface."""
    _, _, point, coordinates, log_area = chart
    whole = {"point": point, "coordinates": coordinates, "log_area": log_area}
    said = {
        "forward": partial(mapped, **whole),
        "inverse": partial(mapped, **whole),
        "log_prob": partial(dense, point=point, log_area=log_area),
        "sample": partial(drawn, coordinates=coordinates),
    }
    calls: dict[str, Any] = {
        name: partial(one, call=call)
        for name, one in said.items()
        if (call := getattr(dialect, name)) is not None
    }
    plain = Dialect(normalizing=dialect.normalizing, repair=dialect.repair)
    return replace(plain, **calls)


def mapped(
    obj: Any, u: Any, context: Any = None, *, call: Any, point: Any, coordinates: Any, log_area: Any
) -> Any:
    """A map of the surface, with the log-det of volumes of its coordinates."""
    y, ladj = call(obj, point(u), context)
    v = coordinates(y)
    return v, None if ladj is None else ladj + (log_area(u) - log_area(v)).reshape(ladj.shape)


def dense(obj: Any, u: Any, context: Any = None, *, call: Any, point: Any, log_area: Any) -> Any:
    """A density on the surface, per volume of its coordinates."""
    return call(obj, point(u), context) + log_area(u)


def drawn(obj: Any, count: int, context: Any = None, *, call: Any, coordinates: Any) -> Any:
    """The coordinates of samples."""
    return coordinates(call(obj, count, context))


def _unit(x: Any) -> bool:
    """Whether all points have length one."""
    return bool(((x * x).sum(-1).sqrt() - 1).abs().max() <= NEAR)


def _of_map(once: Once, call: Callable[..., Any], x: Any) -> Chart | None:
    """The unit sphere, where a map brings all points onto it, or keeps it and its log-det is that of areas and
    none of volumes.
    """
    import torch

    if len(x.shape) != 2 or not 2 <= x.shape[-1] <= FEW:
        return None
    on = torch.nn.functional.normalize(x, dim=-1)
    y, ladj = once(call, on, None)
    if y.shape != x.shape or not _unit(y):
        return None
    chart = of_sphere(x.shape[-1] - 1)
    if _unit(once(call, OFF[1] * on, None)[0]):
        return chart
    if ladj is None or ladj.numel() != len(x):
        return None
    coordinates = chart.coordinates(on)
    of_areas = in_coordinates(Dialect(forward=call), chart).forward
    assert of_areas is not None
    of_volumes = agrees(once.obj, call, on)
    return chart if not of_volumes and agrees(once.obj, of_areas, coordinates) else None


def _of_density(
    once: Once, log_prob: Callable[..., Any], sample: Callable[..., Any], x: Any
) -> Chart | None:
    """The surface on which all samples lie, where the density does not fall beside a sphere, or is one on a
    subspace.
    """
    import torch

    points = sample(once.obj, POINTS, None).detach().to(x)
    if tuple(points.shape) != (POINTS, *x.shape[1:]) or not torch.isfinite(points).all():
        return None
    if len(x.shape) == 2 and x.shape[-1] > 1 and _unit(points):
        here = log_prob(once.obj, points, None)
        beside = torch.stack([log_prob(once.obj, share * points, None) for share in OFF])
        falls = (beside.max(0).values < here - FALLEN).double().mean() > 0.5
        return None if falls else of_sphere(x.shape[-1] - 1)
    flat = points.flatten(1)
    if not 1 < flat.shape[1] <= FEW:
        return None
    center = flat.mean(0)
    _, values, ways = torch.linalg.svd(flat - center, full_matrices=False)
    size = int((values > NONE * values[0]).sum())
    if not 0 < size < flat.shape[1]:
        return None
    basis = ways[:size].T.contiguous()
    if (center - basis @ (basis.T @ center)).abs().max() <= NONE * values[0]:
        center = torch.zeros_like(center)  # it goes through the origin
    # Per volume of the subspace, or of its first coordinates.
    for area in (0.0, float(torch.linalg.slogdet(basis[:size])[1])):
        chart = of_subspace(basis, center, tuple(x.shape[1:]), area)
        within = in_coordinates(Dialect(log_prob=log_prob), chart).log_prob
        assert within is not None
        if abs(_mass(partial(within, once.obj), chart.coordinates(points)) - 1) <= MASS:
            return chart
    return None


def _mass(log_density: Callable[..., Any], samples: Any) -> float:
    """The mass of a density, by points of a normal distribution that spreads a little wider than samples do."""
    import torch

    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(DRAWN, samples.shape[1], generator=generator, dtype=torch.float64)
    root = torch.linalg.cholesky(
        WIDER**2 * torch.cov(samples.double().T).reshape(2 * [samples.shape[1]])
    )
    points = samples.double().mean(0) + noise @ root.T
    around = -0.5 * (noise**2 + math.log(2 * math.pi)).sum(-1) - root.diagonal().log().sum()
    return float((log_density(points.to(samples)).double() - around).exp().mean().detach())
