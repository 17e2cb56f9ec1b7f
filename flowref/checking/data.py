"""A user's data: a few hundred rows, the same in every process, at which laws are measured in
addition to drawn points.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from flowref import loading
from flowref.checking.examples import Example
from flowref.checking.points import example_batch
from flowref.checking.settings import Settings
from flowref.loading import Rows
from flowref.model import (
    STATISTICAL,
    Array,
    Batch,
    DataError,
    Law,
    Manifold,
    Shape,
    Subject,
    Target,
    one_line,
    seed_of,
)
from flowref.model.manifold import NEAR

# The most rows used, the coordinates of one call, and its rows times operations of a round trip.
PICKED, ENTRIES, ROW_OPERATIONS = 512, 2**16, 4_000_000
# The coordinates of one call of a law that differentiates by each of them.
DIFFERENTIATED = 2**12
# Events of at most this many axes are tried in other axis orders.
MOST_AXES = 4
# Example on data with 48 rows, and one on all rows in one call.
DATA = Example(0.0, 48, "data", 12)
ALL = Example(0.0, 0, "data", 21)


@dataclass(frozen=True)
class Data:
    """Rows of a user's data that a target accepts: ``x``, ``(n, *event)``, and ``context``, with
    their row ``numbers``. ``notes``: phrases about rows left out or transformed.
    """

    rows: Rows
    numbers: Array
    x: Array
    context: Array | None
    notes: tuple[str, ...]

    @property
    def words(self) -> str:
        """How many rows are used, of how many."""
        where = f"at {len(self.x):,} of {self.rows.count:,} rows of {self.rows.name}"
        return "; ".join((where, *self.notes))

    def seen(self, x: Array) -> str:
        """The row of the data that a point of ``x`` comes from, as text."""
        for point in x:
            found = np.flatnonzero((self.x == point).reshape(len(self.x), -1).all(1))
            if point.shape == self.x.shape[1:] and len(found):
                return f"seen at row {self.numbers[found[0]]} of {self.rows.name}"
        return f"first seen at a row of {self.rows.name}"


def data_of(target: Target, settings: Settings) -> Data | None:
    """Return the data of a measurement, None without data. Raises: `DataError` if the target does
    not accept them.
    """
    if not settings.data:
        return None
    return _fitted(target, loading.open_rows(settings.data), settings.seed)


def visits(law: Law) -> bool:
    """Whether a law is measured at data: it must use the points of the batch and the unperturbed
    weights.
    """
    looks = law.points != "beyond" and law.tolerance != STATISTICAL and law.size > 1
    return looks and 0.0 in law.scales


@functools.lru_cache(maxsize=16)
def _fitted(target: Target, rows: Rows, seed: int) -> Data:
    subject = loading.load(target)
    surface = subject.facts.surface
    event = subject.density_shape if surface is None else surface.event
    _refuse_other_shape(rows, event, target)
    numbers = picked(rows.count, rows.shape, seed)
    x = _read_rows(rows, numbers).reshape(-1, *event)
    context, notes = _contexts(rows, numbers, subject)
    if surface is not None:
        on = _lying_on(surface, x, rows)
        notes += (f"{(~on).sum()} more are off {surface.name}, and are left out",) * bool(
            (~on).any()
        )
        numbers, context = numbers[on], None if context is None else context[on]
        x = np.asarray(surface.coordinates(np.asarray(x[on], dtype=np.float64)))
    finite = np.asarray(np.isfinite(x).reshape(len(x), -1).all(1))
    if context is not None:
        finite &= np.isfinite(context).reshape(len(x), -1).all(1)
    if not finite.all():
        notes += (f"{(~finite).sum()} more hold nan or inf, and are left out",)
    x, leveled = _dequantized(x, finite, subject, seed)
    notes += leveled
    inside = subject.density_support.holds(x)
    outside = finite & ~inside
    support = subject.density_support
    if outside.any() and (inside & finite).any():
        notes += (f"{outside.sum()} more are not inside {support}, and are left out",)
    kept = finite & inside
    if not kept.any():
        what, way = "hold nan or inf", ""
        if finite.any():
            what, (low, high) = f"are not inside {support}", support.ends
            flat = x[finite].reshape(int(finite.sum()), -1)
            touching = ((flat >= low) & (flat <= high)).all()
            way = ": scale them, or declare the domain with ?domain="
            if touching and (flat % 1 == 0).any():
                way = ": they touch its ends; add noise to levels, as in (x + u) / 256"
        raise DataError(f"all {len(x)} rows of {rows.name} that were picked {what}{way}")
    return Data(rows, numbers[kept], x[kept], None if context is None else context[kept], notes)


def _lying_on(surface: Manifold, x: Array, rows: Rows) -> Array:
    """Mask ``(n,)`` of the rows on the manifold. Raises: `DataError` if none is."""
    off = np.asarray(surface.off(np.asarray(x, dtype=np.float64)))
    if not (off <= NEAR).any():
        least = np.nanmin(off, initial=np.inf)
        raise DataError(
            f"all {len(x)} rows of {rows.name} that were picked are off {surface.name}, by {least:.3g} at least: give points "
            "of it"
        )
    return np.asarray(off <= NEAR)


def picked(count: int, shape: Shape, seed: int) -> Array:
    """The numbers of the rows that are used, at most `PICKED`, in the order of measurement."""
    rng = np.random.default_rng(seed_of(seed, "data", count, *shape) % 2**63)
    return np.asarray(rng.choice(count, size=min(PICKED, count), replace=False))


def _read_rows(rows: Rows, numbers: Array) -> Array:
    """Read rows by number, in that order, from a file that is read sequentially."""
    order = np.argsort(numbers)
    try:
        values = rows.take(numbers[order])
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{rows.name} cannot be read: {one_line(error, 200)}") from error
    found = np.empty_like(values)
    found[order] = values
    return found


def _refuse_other_shape(rows: Rows, event: Shape, target: Target) -> None:
    """Raise `DataError` for points of another shape, with the reshape that fits if there is one."""
    given = rows.shape
    if given == event or (given == () and event == (1,)):
        return
    sizes = ", ".join(map(str, event))
    orders = permutations(range(len(given))) if len(given) == len(event) <= MOST_AXES else ()
    turned = next((order for order in orders if _permuted_shape(given, order) == event), None)
    if turned is not None:
        way = f"give them as x.transpose(0, {', '.join(str(axis + 1) for axis in turned)})"
    elif math.prod(given) == math.prod(event):
        way = f"give them as x.reshape(-1, {sizes})"
    elif len(given) == 1 == len(event) and rows.count == event[0]:
        way = "a row is a point; if a column is one here, give x.T"
    elif given == () and rows.count % math.prod(event) == 0:
        way = f"a row is a point; if they stand one after the other, give x.reshape(-1, {sizes})"
    elif loading.recipe_of(target).recognized.event_source:
        way = f"if it takes such points, say --event {','.join(map(str, given)) or 1}"
    else:
        way = "give points of its shape"
    raise DataError(
        f"{rows.name} has {rows.count:,} points of shape {given}, and {target} takes events of "
        f"shape {event}: {way}"
    )


def _permuted_shape(shape: Shape, order: tuple[int, ...]) -> Shape:
    return tuple(shape[axis] for axis in order)


def _contexts(rows: Rows, numbers: Array, subject: Subject) -> tuple[Array | None, tuple[str, ...]]:
    """The contexts of the points, and phrases about them."""
    wanted, given = subject.context_shape, rows.context
    if wanted is None:
        unused = given is not None and given.name.endswith("context")
        return None, (("their contexts are not used: the flow takes none",) if unused else ())
    if given is None:
        return None, ("with drawn contexts: an npz with x and context gives its own",)
    if given.shape != wanted and not (given.shape == () and wanted == (1,)):
        raise DataError(
            f"{given.name} has contexts of shape {given.shape}, and the flow takes {wanted}: give "
            "them in its shape, or declare theirs with ?context="
        )
    return _read_rows(given, numbers).reshape(-1, *wanted), ("with their contexts",)


def _dequantized(
    x: Array, finite: Array, subject: Subject, seed: int
) -> tuple[Array, tuple[str, ...]]:
    """Levels plus uniform noise if the flow dequantizes, and a phrase about it; other points
    unchanged.
    """
    width, scale = level_of(subject)
    if not width or not finite.any() or (x[finite] / (width / scale) % 1).any():
        return x, ()
    rng = np.random.default_rng(seed_of(seed, "levels", *x.shape) % 2**63)
    reals = x * scale + width * rng.random(x.shape)
    if not subject.density_support.holds(reals[finite]).any():
        return x, ()
    return reals, ("levels, dequantized by uniform noise",)


def level_of(subject: Subject) -> tuple[float, float]:
    """Return the distance between two levels of the data, 0 for continuous data, and the factor
    that levels are multiplied by.
    """
    declared = subject.preprocessing
    if declared is not None and declared.bins:
        return declared.bound / declared.bins, declared.bound / declared.bins
    return float(subject.promises.get("level") or 0.0), 1.0


def data_batch(
    subject: Subject, data: Data, example: Example, region: str, most: int | None = None
) -> Batch:
    """Return the batch of an example at data, ``(n, *event)``: latents of the rows if the law is
    measured on latents, and no rows if the subject has no latents. ``most``: as in `example_batch`.
    """
    plain = example_batch(subject, replace(example, reach="near"), region, most)
    count = min(len(plain.x), len(data.x))
    start = seed_of(example.seed, count) % len(data.x)
    chosen = (start + np.arange(count)) % len(data.x)
    return _placed(subject, data, chosen, plain.context, example.seed, region)


def all_rows(
    subject: Subject, data: Data, seed: int, region: str, differentiated: bool = False
) -> Batch:
    """Return as many rows as one call can take; fewer if the law is ``differentiated``."""
    entries = DIFFERENTIATED if differentiated else ENTRIES
    size = math.prod(subject.density_shape)
    affordable = ROW_OPERATIONS // max(1, subject.operations)
    count = min(len(data.x), affordable, entries // max(1, size))
    context = None
    if subject.context_shape is not None:
        rng = np.random.default_rng(seed_of(seed, "contexts") % 2**63)
        context = rng.standard_normal((count, *subject.context_shape))
    return _placed(subject, data, np.arange(count), context, seed, region)


def _placed(
    subject: Subject, data: Data, chosen: Array, drawn: Array | None, seed: int, region: str
) -> Batch:
    """Rows of data, mapped to latents if the law is measured there."""
    x = data.x[chosen]
    context = data.context[chosen] if data.context is not None else drawn
    context = None if context is None else context[: len(x)]
    batch = Batch(x, context, seed)
    if not len(x) or on_data_side(subject, region):
        return batch
    call = subject.calls.get(subject.normalizing)
    if call is None:
        return batch.rows(slice(0, 0))
    support, event = subject.drawn(region)
    with np.errstate(all="ignore"):
        try:
            latents = np.asarray(call(x, context).value, dtype=np.float64)
        except Exception:  # laws measured on data report what it raises
            return batch.rows(slice(0, 0))
    if latents.shape != (len(x), *event):
        return batch.rows(slice(0, 0))
    kept = np.isfinite(latents).reshape(len(x), -1).all(1) & support.holds(latents)
    return Batch(latents, context, seed).rows(kept)


def on_data_side(subject: Subject, region: str) -> bool:
    """Whether a law's points are data rather than latents."""
    if region == "data" or subject.forward is None:
        return True
    of_outputs = region == "latents" and subject.codomain is not None
    return of_outputs == (subject.normalizing == "inverse")
