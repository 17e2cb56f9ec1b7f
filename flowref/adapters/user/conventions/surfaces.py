"""Maps and densities on a manifold, in coordinates: there the Jacobian is square, and densities per area
are per volume. The manifold is declared, or found as the one that samples or images lie on.
"""

from __future__ import annotations

import contextlib
import copy
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.user.conventions.single_calls import Once
from flowref.adapters.user.conventions.volumes import FEW as LARGEST_JACOBIAN
from flowref.adapters.user.conventions.volumes import agrees
from flowref.model import CURVED, Array, Dialect, Shape, Support, TargetError, draw_points
from flowref.model import manifold as manifolds
from flowref.model.manifold import NEAR, Manifold

# Number of points, relative singular values that count as zero in single and double precision,
# maximal entries of an event, and the minimal share of distinct samples.
POINTS, NONE, ROUNDED, FEW, DISTINCT = 512, 1e-6, 1e-10, 96, 0.9
# Factors that move a point off a manifold, and the maximal drop of the log-density of a proper
# density there.
OFF, FALLEN = (0.5, 1.6), 5.0
# Points for estimating a mass, their spread relative to samples, the clipping of weights, and the
# tolerance for mass one.
DRAWN, WIDER, CLIPPED, MASS = 20_000, 1.3, 5.0, 0.05
# Full turns in usual units; multiples of a turn that change nothing, and a shift that is no period.
PERIODS = (2 * math.pi, math.pi, 360.0, 180.0, 24.0, 2.0, 1.0)
TURNS, NO_PERIOD = (1, 2, -1), (0.731, -1.377)


def surface_of(obj: Any, dialect: Dialect, x: Any, domain: Support) -> Manifold | None:
    """The manifold on which an object is defined; None if it has full dimension. ``x``: a batch of ordinary
    points; ``domain``: the declared or found support. Raises `TargetError` in one sentence if samples or
    images are off the declared manifold.
    """
    event = tuple(x.shape[1:])
    if domain.kind in CURVED or (domain.kind == "simplex" and dialect.forward is None):
        return _declared_manifold(Once(obj), dialect, x, domain.kind)
    if domain.kind != "real" or len(event) > 3 or not 1 <= math.prod(event) <= FEW:
        return None
    with contextlib.suppress(Exception):  # exceptions are reported by laws
        if dialect.forward is not None:
            return _of_map(Once(obj), dialect.forward, x)
        if dialect.log_prob is not None:
            return _of_density(Once(obj), dialect, x)
    return None


def in_coordinates(dialect: Dialect, within: Manifold, image: Manifold) -> Dialect:
    """The dialect in coordinates of a manifold; ``image``: the same manifold in the coordinates of its
    images.
    """
    there, back = {"within": within, "image": image}, {"within": image, "image": within}
    data, latents = (within, image) if dialect.normalizing == "forward" else (image, within)
    if dialect.forward is None:
        data = within
    said = {
        "forward": partial(surface_map, **there),
        "inverse": partial(surface_map, **back),
        "log_prob": partial(surface_log_prob, within=data),
        "base_log_prob": partial(surface_log_prob, within=latents),
        "sample": partial(sample_coordinates, within=data),
        "rsample": partial(sample_coordinates, within=data),
        "base_sample": partial(sample_coordinates, within=latents),
        "sample_log_prob": partial(drawn_with, within=data),
    }
    calls: dict[str, Any] = {
        name: partial(one, call=call)
        for name, one in said.items()
        if (call := getattr(dialect, name)) is not None
    }
    plain = Dialect(normalizing=dialect.normalizing, repair=dialect.repair)
    return replace(plain, **calls)


def surface_map(
    obj: Any, u: Any, context: Any = None, *, call: Any, within: Manifold, image: Manifold
) -> Any:
    """A map of the manifold in coordinates, with the log-det of coordinate volumes."""
    y, ladj = call(obj, _point(within, u), context)
    v = image.coordinates(y)
    if ladj is None:
        return v, None
    gained = within.log_area(u) - image.log_area(v)
    entries = math.prod(tuple(getattr(ladj, "shape", ()))) // max(1, len(u))
    return v, (ladj.reshape(len(u), -1).sum(-1) if entries > 1 else ladj.reshape(-1)) + gained


def surface_log_prob(obj: Any, u: Any, context: Any = None, *, call: Any, within: Manifold) -> Any:
    """A log-density per volume of coordinates, detached if the object records no graph."""
    density = call(obj, _point(within, u), context)
    recorded = getattr(density, "requires_grad", True)
    return density + within.log_area(u if recorded else u.detach())


def _point(within: Manifold, u: Any) -> Any:
    """The points of coordinates ``(n, *shape)``; wrong numbers of coordinates raise."""
    return within.point(u.reshape(len(u), *within.shape))


def sample_coordinates(obj: Any, count: int, *given: Any, call: Any, within: Manifold) -> Any:
    """The coordinates of samples, with the axis of contexts in front if there are several per context."""
    x = call(obj, count, *given)
    lead = len(x.shape) - len(within.event)
    if lead == 1:
        return within.coordinates(x)
    flat = within.coordinates(x.reshape(-1, *within.event))
    return flat.reshape(*x.shape[:lead], *within.shape)


def drawn_with(obj: Any, count: int, *given: Any, call: Any, within: Manifold) -> Any:
    """The coordinates of samples, and their log-densities."""
    x, log_p = call(obj, count, *given)
    u = within.coordinates(x)
    return u, log_p + within.log_area(u).reshape(log_p.shape)


def seen_from_images(dialect: Dialect, obj: Any, within: Manifold, x: Any) -> Manifold:
    """The manifold in coordinates in which images are ordinary where points are."""
    if dialect.forward is None or within.origin is None:
        return within
    with contextlib.suppress(Exception):
        one = np.broadcast_to(np.asarray(within.origin), within.event)
        image = dialect.forward(obj, manifolds.alike(one, x)[None], None)[0]
        array = _plain(image)
        if within.holds(array):
            return within.seen_from(array[0])
    return within


def _fitting(event: Shape) -> Iterator[tuple[str, Manifold]]:
    """Manifolds for events of a shape, smallest first."""
    if event[-2:] == (3, 3):
        yield "so3", manifolds.rotations(event)
    if event and event[-1] > 1:
        yield "sphere", manifolds.sphere(event)
        yield "simplex", manifolds.simplex(event)


def _uniform(kind: str, x: Any, scale: float = 1.0) -> Any:
    """Uniform points of a manifold, as many as in ``x``, times ``scale``."""
    points = draw_points(Support.parse(kind), tuple(x.shape), np.random.default_rng(0))
    return manifolds.alike(scale * points, x)


# Declared manifolds.


def refuse_event(kind: str, event: Shape) -> None:
    """Raise `TargetError` if events of a shape cannot be points of a declared manifold."""
    shaped = {
        "so3": (event[-2:] == (3, 3), "3,3"),
        "sphere": (len(event) > 0 and event[-1] > 1, "3"),
        "axes": (len(event) > 0 and event[-1] > 1, "4"),
        "simplex": (len(event) > 0 and event[-1] > 1, "3"),
        "centred": (len(event) > 0 and event[0] > 1, "5,3"),
    }
    fits, example = shaped.get(kind, (True, ""))
    if not fits:
        raise TargetError(
            f"its domain is {kind}, and no event of shape {event} is a point of that; of those of shape "
            f"({example}{',' * (',' not in example)}) some are, as ?event={example} says"
        )


def _declared_manifold(once: Once, dialect: Dialect, x: Any, kind: str) -> Manifold:
    event = tuple(x.shape[1:])
    points = _samples(once, dialect, x)
    if kind == "subspace":
        return _declared_subspace(once, dialect, x, points)
    found = _of_kind(kind, event)
    if points is not None:
        _refuse_others(found, points, "samples")
        if kind in ("so3", "simplex"):
            found = _measured(once, dialect, found, points, kind)
    elif dialect.forward is not None:
        with contextlib.suppress(ArithmeticError, RuntimeError, ValueError):
            on = manifolds.alike(
                draw_points(Support.parse(kind), tuple(x.shape), np.random.default_rng(0)), x
            )
            y = once(dialect.forward, on, None)[0]
            if tuple(y.shape) == tuple(x.shape):
                _refuse_others(found, _plain(y), "images")
    return found


def _of_kind(kind: str, event: Shape) -> Manifold:
    made: dict[str, Callable[[Shape], Manifold]] = {
        "so3": manifolds.rotations,
        "sphere": manifolds.sphere,
        "axes": manifolds.axes,
        "simplex": manifolds.simplex,
        "centred": manifolds.centred,
    }
    return made.get(kind, manifolds.torus)(event)


def _refuse_others(found: Manifold, points: Any, what: str) -> None:
    off = np.asarray(found.off(points), dtype=np.float64)
    if not (off <= NEAR).all():
        raise TargetError(
            f"its domain is {found.name}, and {int((~(off <= NEAR)).sum())} of {len(off)} {what} do not lie on it: they are "
            f"off by up to {np.nanmax(off, initial=0.0):.3g}"
        )


def _declared_subspace(once: Once, dialect: Dialect, x: Any, points: Any) -> Manifold:
    what = "samples"
    if points is None and dialect.forward is not None:
        points, what = _plain(once(dialect.forward, _more(x), None)[0]), "images"
    if points is None:
        raise TargetError(
            "its domain is a subspace, and neither samples nor images show which: say ?domain=centred for configurations "
            "whose sum is zero, or give a sample method"
        )
    found = _subspace(points)
    if found is None:
        raise TargetError(f"its domain is a subspace, and its {what} fill the whole space")
    if what == "images":
        return found
    return _measured(once, dialect, found, points, "subspace")


def _more(x: Any) -> Any:
    noise = np.random.default_rng(0).standard_normal((POINTS, *x.shape[1:]))
    return manifolds.alike(noise, x)


# Manifolds found by calls.


def _samples(once: Once, dialect: Dialect, x: Any) -> Any:
    """Samples in the form of points; None if there are none."""
    if dialect.sample is None:
        return None
    jax: Any = sys.modules.get("jax")
    keys: list[tuple[Any, ...]] = [()] if jax is None else [(), (jax.random.PRNGKey(0),)]
    for key in keys:
        with contextlib.suppress(Exception):
            points = dialect.sample(once.obj, POINTS, None, *key)
            points = points.detach() if hasattr(points, "detach") else points
            array = _plain(points)
            if array.shape == (POINTS, *x.shape[1:]) and np.isfinite(array).all():
                return points if manifolds.namespace(points) is manifolds.namespace(x) else None
    return None


def _plain(x: Any) -> Array:
    return np.asarray(x.detach() if hasattr(x, "detach") else x, dtype=np.float64)


def _of_map(once: Once, call: Callable[..., Any], x: Any) -> Manifold | None:
    """The manifold that a map preserves, if its log-det is not that of full-dimensional volume: it maps
    points off the manifold onto it, or does not preserve scaled copies, or its log-det is per area; also a
    subspace with all images.
    """
    event = tuple(x.shape[1:])
    if math.prod(event) > LARGEST_JACOBIAN:  # nothing would contradict it where volumes are full
        return None
    for kind, found in _fitting(event):
        if kind == "simplex":
            continue
        on = _uniform(kind, x)
        with contextlib.suppress(Exception):
            y, ladj = once(call, on, None)
            if not found.holds(y):
                continue
            beside = once(call, _uniform(kind, x, OFF[1]), None)[0]
            if found.holds(beside):
                return found
            if ladj is None or math.prod(tuple(ladj.shape)) != len(x):
                continue
            if agrees(once.obj, partial(_flat, call=call, event=event), on.reshape(len(x), -1)):
                continue
            flat = partial(
                _flat,
                call=in_coordinates(Dialect(forward=call), found, found).forward,
                event=found.shape,
            )
            coordinates = found.coordinates(on).reshape(len(x), -1)
            lengths = (beside.reshape(len(x), -1) ** 2).sum(-1) ** 0.5
            multiple = bool((abs(lengths - lengths[0]) <= NEAR * lengths[0]).all())
            if not multiple or agrees(once.obj, flat, coordinates):
                return found
    return None


def _flat(obj: Any, x: Any, context: Any = None, *, call: Any, event: Shape) -> Any:
    """A map with events flattened."""
    y, ladj = call(obj, x.reshape(len(x), *event), context)
    return y.reshape(len(x), -1), ladj


def _of_density(once: Once, dialect: Dialect, x: Any) -> Manifold | None:
    """The manifold on which all samples lie, unless the density drops off a sphere as one of full dimension
    does; the sphere if it is constant along rays; the torus if it is periodic.
    """
    log_prob, points = dialect.log_prob, _samples(once, dialect, x)
    assert log_prob is not None
    if points is None:
        if dialect.sample is None and (alone := _alone(once, log_prob, x)):
            return alone
        return _periodic(once, log_prob, x, None)
    for kind, found in _fitting(tuple(x.shape[1:])):
        if not found.holds(points):
            continue
        if kind == "sphere":
            return None if _falls(once, log_prob, points) else _half(once, log_prob, found, points)
        return _measured(once, dialect, found, points, kind)
    if (elsewhere := _sphere_through(points)) is not None and _steady(once, dialect, elsewhere):
        return None if _falls(once, log_prob, points) else elsewhere
    if (within := _subspace(points)) is not None:
        return (
            _measured(once, dialect, within, points, "subspace")
            if _steady(once, dialect, within)
            else None
        )
    return _periodic(once, log_prob, points, points)


def _falls(once: Once, log_prob: Callable[..., Any], points: Any) -> bool:
    """Whether a density is finite off a sphere, and much smaller than on it."""
    here = _plain(log_prob(once.obj, points, None))
    try:
        beside = [_plain(log_prob(once.obj, share * points, None)) for share in OFF]
    except Exception:  # it accepts unit vectors only
        return False
    most = np.max(beside, axis=0)
    return bool((np.isfinite(most) & (most < here - FALLEN)).mean() > 0.5)


def _half(once: Once, log_prob: Callable[..., Any], found: Manifold, points: Any) -> Manifold:
    """Axes, if all samples lie on a half sphere and antipodal points have equal density; else the sphere."""
    last = points[..., -1]
    sides = [
        side for side in (points[..., 0], last) if bool((side >= 0).all() or (side <= 0).all())
    ]
    if len(points.shape) != 2 or not sides:
        return found
    here, there = (_plain(log_prob(once.obj, side * points, None)) for side in (1.0, -1.0))
    same = bool((abs(here - there) <= NEAR * (1 + abs(here))).all())
    return manifolds.axes(found.event) if same else found


def _alone(once: Once, log_prob: Callable[..., Any], x: Any) -> Manifold | None:
    """The manifold outside of which a density is not finite, or the sphere if it is constant along rays and
    varies otherwise; else None.
    """

    def density(points: Any) -> Array:
        return _plain(log_prob(once.obj, points, None))

    event, here = tuple(x.shape[1:]), density(x)
    if not np.isfinite(here).any():
        fitting = _fitting(event)
        return next(
            (one for kind, one in fitting if np.isfinite(density(_uniform(kind, x))).all()), None
        )
    if len(event) != 1 or event[0] < 2 or not np.isfinite(here).all():
        return None
    same = all(np.allclose(density(share * x), here, NEAR, NEAR) for share in OFF)
    return manifolds.sphere(event) if same and np.ptp(here) > NEAR else None


def _real(points: Any) -> Array | None:
    """Points as ``(n, entries)``, if entries are few and rows are distinct; else None."""
    array = _plain(points)
    flat = array.reshape(len(array), -1)
    if not 1 < flat.shape[1] <= FEW or len(np.unique(flat, axis=0)) < DISTINCT * len(flat):
        return None
    return None if (flat == np.round(flat)).all() else flat


def _sphere_through(points: Any) -> Manifold | None:
    """The sphere through vectors, by least squares: $|x|^2 = 2 c x + r^2 - |c|^2$; None if they lie on
    none.
    """
    flat = _real(points) if len(points.shape) == 2 else None
    if flat is None:
        return None
    squares, terms = (flat**2).sum(1), np.concatenate([2 * flat, np.ones((len(flat), 1))], 1)
    (*center, rest), _, rank, _ = np.linalg.lstsq(terms, squares, rcond=None)
    square = float(rest + np.square(center).sum())
    if rank < terms.shape[1] or square <= 0:
        return None
    radius = float(f"{math.sqrt(square):.12g}")
    near = np.where(np.abs(center) <= NONE * radius, 0.0, center)
    unit = manifolds.sphere(flat.shape[1:])
    at = f" around {[float(f'{one:.6g}') for one in near]}" if near.any() else ""
    found = unit.moved(near, radius, f"{unit.name.replace('unit ', '')} of radius {radius:.6g}{at}")
    return found if found.holds(flat) else None


def _subspace(points: Any) -> Manifold | None:
    """The subspace of points; None if they have full dimension, or are not real."""
    array, flat = _plain(points), _real(points)
    if flat is None:
        return None
    center = flat.mean(0)
    _, values, ways = np.linalg.svd(flat - center, full_matrices=False)
    single = (flat.astype(np.float32) == flat).all()
    size = int((values > (NONE if single else ROUNDED) * values[0]).sum())
    if not 0 < size < flat.shape[1]:
        return None
    basis = ways[:size].T.copy()
    if np.abs(center - basis @ (basis.T @ center)).max() <= NONE * values[0]:
        center = np.zeros_like(center)  # a subspace through the origin
    return manifolds.subspace(array.shape[1:], basis, center)


def _steady(once: Once, dialect: Dialect, found: Manifold) -> bool:
    """Whether samples stay on the manifold after parameters move."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(once.obj, torch.nn.Module) or dialect.sample is None:
        return True
    moved = copy.deepcopy(once.obj)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for one in moved.parameters():
            noise = torch.randn(one.shape, generator=generator, dtype=torch.float64)
            one.add_(0.1 * noise.to(one))
        try:
            return found.holds(dialect.sample(moved, POINTS, None))
        except Exception:  # exceptions after moving weights are reported by laws
            return True


def _periodic(once: Once, log_prob: Callable[..., Any], x: Any, samples: Any) -> Manifold | None:
    """The torus of a density that is periodic in a coordinate, with the smallest period that contains all
    samples, else a full turn; None if there is none.
    """
    x = x[:4]
    flat = x.reshape(len(x), -1)
    size = flat.shape[1]

    def shifted(shift: float, axis: int) -> Any:
        moved = flat + 0.0
        step = manifolds.alike(shift * np.eye(size)[axis], x)
        return _plain(log_prob(once.obj, (moved + step).reshape(x.shape), None))

    here = _plain(log_prob(once.obj, x, None))
    if not np.isfinite(here).all():
        return None

    def repeats(shift: float, axis: int) -> bool:
        return bool((abs(shifted(shift, axis) - here) <= 1e-5 * (1 + abs(here))).all())

    periods = np.full(size, np.inf)
    for axis in range(size):
        if any(repeats(shift, axis) for shift in NO_PERIOD):
            continue
        found = [one for one in PERIODS if all(repeats(turn * one, axis) for turn in TURNS)]
        if found:
            periods[axis] = _period(found, samples, axis)
    return manifolds.torus(tuple(x.shape[1:]), periods) if np.isfinite(periods).any() else None


def _period(found: list[float], samples: Any, axis: int) -> float:
    """The smallest period that contains all samples along an axis; a full turn if there are none."""
    if samples is not None:
        column = np.asarray(samples).reshape(len(samples), -1)[:, axis]
        within = [one for one in found if np.ptp(column) <= one * (1 + 1e-6)]
        if within:
            return min(within)
    return found[0]


def _measured(once: Once, dialect: Dialect, found: Manifold, points: Any, kind: str) -> Manifold:
    """The manifold with the usual measure under which the density has mass one; the first if none has."""
    others: list[Manifold] = []
    freedom = 1.0 if kind == "so3" else math.inf  # that of uniform rotations
    if kind == "so3":
        volumes = {"a volume of 8 pi^2": 8 * math.pi**2, "area of unit quaternions": math.pi**2}
        others = [
            manifolds.rotations(found.event, math.log(one), f"per {name}")
            for name, one in volumes.items()
        ]
    elif kind == "simplex":
        others = [manifolds.simplex(found.event, 0.5 * math.log(found.event[-1]))]
    elif kind == "subspace":
        basis, center = found.point.keywords["basis"], found.point.keywords["center"]  # type: ignore[attr-defined]
        sign, of_first = np.linalg.slogdet(basis[: basis.shape[1]])
        if sign:
            others = [manifolds.subspace(found.event, basis, center, float(of_first))]
    for one in (found, *others):
        within = partial(surface_log_prob, once.obj, call=dialect.log_prob, within=one)
        with contextlib.suppress(Exception):
            if abs(_importance_sampled_mass(within, one.coordinates(points), freedom) - 1) <= MASS:
                return one
    return found


def _importance_sampled_mass(
    log_density: Callable[..., Any], samples: Any, freedom: float
) -> float:
    """The mass of a density by importance sampling from a Student t distribution slightly wider than the
    samples.
    """
    flat = _plain(samples).reshape(len(samples), -1)
    size = flat.shape[1]
    low, middle, high = np.quantile(flat, (0.25, 0.5, 0.75), axis=0)
    spread = np.maximum(high - low, 1e-300) / 1.35
    scaled = np.clip((flat - middle) / spread, -CLIPPED, CLIPPED)
    root = spread[:, None] * np.linalg.cholesky(WIDER**2 * np.cov(scaled.T).reshape(size, size))
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((DRAWN, size))
    if math.isfinite(freedom):
        noise /= np.sqrt(rng.chisquare(freedom, (DRAWN, 1)) / freedom)
    square = (noise * noise).sum(-1)
    around = -0.5 * square - 0.5 * size * math.log(2 * math.pi)
    if math.isfinite(freedom):
        half = (freedom + size) / 2
        around = math.lgamma(half) - math.lgamma(freedom / 2) - half * np.log1p(square / freedom)
        around -= 0.5 * size * math.log(freedom * math.pi)
    around -= np.linalg.slogdet(root)[1]
    points = (middle + noise @ root.T).reshape(-1, *samples.shape[1:])
    density = _plain(log_density(manifolds.alike(points, samples)))
    return float(np.exp(density - around).mean())
