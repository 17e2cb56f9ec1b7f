"""Accuracy of a call in a precision in which people run it.

The reference is double precision at points that single precision represents. The error to be
expected of a precision is the change of the reference when inputs, contexts and parameters move by
one unit roundoff of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flowref.laws.common.amounts import sparing
from flowref.laws.common.arithmetic import rows_max
from flowref.laws.common.end_rounding import representable
from flowref.laws.common.outcomes import attempt, finite_outcome_rows, row_log_dets
from flowref.laws.common.probes import Probe
from flowref.model import (
    REAL,
    Array,
    Mapped,
    Support,
    Undecidable,
    Unsupported,
    draw_points,
    seed_of,
)
from flowref.model.abilities import Flow, Living, Parametric, Rounded, offers
from flowref.model.call import OPPOSITE, How
from flowref.model.steps import State


@dataclass(frozen=True)
class Format:
    """A precision. ``how``: the manner of a call in it, of an object in single precision;
    ``unit``: unit roundoff; ``digits``: the relative error that counts as few digits left;
    ``needless``: the multiple of the error caused by one unit that rounding cannot explain.
    """

    name: str
    how: How
    unit: float
    digits: float
    needless: float


SINGLE = Format("single precision", "plain", 2.0**-24, 0.01, 1024.0)
HALVES = (
    Format("autocast to float16", "float16", 2.0**-11, 0.1, 64.0),
    Format("autocast to bfloat16", "bfloat16", 2.0**-8, 0.5, 64.0),
)
# The multiple of the unavoidable error that a stable algorithm may make, and the number of random
# moves of points and parameters.
PATIENCE, TRIALS = 64.0, 6
# For larger results one number no longer describes the errors of all coordinates.
LARGEST = 1e4
# Entries of an event for which `LOG_DET` is a large log-det.
ORDINARY = 16
# Ordinary data have coordinates in [LEAST, DATA] or zero, latents up to four standard deviations,
# log-dets up to LOG_DET, images up to `LARGEST`: no precision overflows in between.
LEAST, DATA, LATENTS, LOG_DET = 1e-12, 10.0, 4.0, 60.0
# Units by which points are moved to both sides, and the share of an ordinary number that these are
# units of.
UNITS, SHARE = 4.0, 0.125
# At most this many conspicuous points are examined; if a call raises, this many other points are
# tried.
EXAMINED, OTHERS = 16, 4
# A pair of arrays ``(n,)``: of the values, and of the log-dets.
Both = tuple[Array, Array]


@dataclass(frozen=True)
class PrecisionComparison:
    """A call at ordinary points, in a lower precision and in double precision.

    ``rows``: the compared rows of the batch; ``exact``: the result in double precision; ``found``:
    the result in the lower precision, None if it raised ``error``; ``errors``, ``sizes``: of
    values and log-dets, ``(rows, 2)``; an error is inf where the lower precision gave no finite
    number.
    """

    flow: Flow
    probe: Probe
    seed: int
    form: Format
    rows: Array
    exact: Mapped
    found: Mapped | None
    errors: Array
    sizes: Array
    error: str = ""

    @property
    def conspicuous(self) -> Array:
        """The rows with a larger error than the format has in any case, ``(rows,)``."""
        return np.asarray((self.errors > self.form.digits * (1 + self.sizes)).any(1))

    def needless(self) -> Array:
        """The rows that lose digits which the input and the parameters determine, ``(rows,)``."""
        lost = np.zeros(len(self.rows), dtype=bool)
        rows = np.flatnonzero(self.conspicuous)
        if len(rows) > EXAMINED:
            rows = rows[np.linspace(0, len(rows) - 1, EXAMINED).astype(int)]
        for row in rows:
            lost[row] = self._needless(int(row))
        return lost

    def _needless(self, row: int) -> bool:
        index, form = slice(row, row + 1), self.form
        moved, refused = attempt(necessary, self.flow, self.probe.rows(index), self.seed, form.unit)
        if refused:  # one unit moves the point out of the set that the call accepts
            return False
        error, size = self.errors[row], 1 + self.sizes[row]
        with np.errstate(invalid="ignore"):
            lost = (error > form.digits * size) & (
                error > form.needless * (moved + form.unit * size)
            )
            lost &= moved <= np.where(self._refused(row), 1.0, form.digits) * size
        return bool(lost.any()) and not (np.isinf(error).any() and self._leaves_support(index))

    def _refused(self, row: int) -> bool:
        """Whether the call raises or gives nan at a row, which is wrong at any precision."""
        if self.found is None:
            return True
        given = self.found.value[row], row_log_dets(self.found, len(self.rows))[row]
        return any(bool(np.isnan(one).any()) for one in given)

    def _leaves_support(self, index: slice) -> bool:
        """Whether rounding moves the image out of the support of the base. One unit in the point
        need not do so if the map is nearly flat.
        """
        if self.probe.name != "log_prob" or not offers(self.flow, Rounded):
            return False
        point = self.probe.rows(index)
        for run in range(TRIALS):
            with self.flow.noise(seed_of(self.seed, "support", run), self.form.unit):
                out, refused = attempt(point)
            if refused or not np.isfinite(out.value).all():
                return True
        return False

    def under(self, form: Format) -> PrecisionComparison | None:
        """The comparison in another precision, without the rows that lose digits in this one. None
        if nothing is computed differently. Raises `Unsupported` if the call does not run in
        ``form``.
        """
        rows = np.flatnonzero(~self.conspicuous)
        probe, exact = self.probe.rows(rows), outcome_rows(self.exact, rows)
        if self.found is None or not len(rows):
            return None
        there = replace(
            self, probe=probe, form=form, exact=exact, rows=self.rows[rows], sizes=self.sizes[rows]
        )
        there = there.made()
        same = there.found is not None and not np.max(
            distance(there.found, outcome_rows(self.found, rows), len(rows))
        )
        return None if same else there

    def made(self) -> PrecisionComparison:
        """The comparison with the call evaluated. Raises `Unsupported` if it does not run in this
        precision.
        """
        form, count = self.form, len(self.rows)
        found, raised = attempt(self.probe, form.how, dtype="float32")
        errors = np.zeros((count, 2))
        if raised:
            if not runs(self.flow, self.probe, form):
                raise Unsupported(f"it does not run in {form.name} ({raised})")
            guilty, raised = refused_row(self.probe, form)
            errors[guilty] = np.inf
        elif np.shape(found.value) != np.shape(self.exact.value):
            raise Unsupported(f"it does not run in {form.name} (another shape)")
        else:
            errors = np.stack(distance(self.exact, found, count), 1)
            errors[np.isnan(errors)] = np.inf
        return replace(self, found=found, errors=errors, error=raised)

    def note(self, row: int) -> str:
        """A sentence with both results at a row."""
        if self.found is None:
            return f"{self.probe.name} raises {self.error} in {self.form.name}"
        count = len(self.rows)
        worse = np.argmax(np.nan_to_num(self.errors[row] / (1 + self.sizes[row]), posinf=1e300))
        if worse:
            what, pair = (
                "log-det",
                [row_log_dets(one, count)[row] for one in (self.found, self.exact)],
            )
        else:
            values = [
                np.ravel(np.asarray(one.value, np.float64)[row]) for one in (self.found, self.exact)
            ]
            with np.errstate(invalid="ignore"):
                entry = int(np.argmax(np.nan_to_num(np.abs(values[0] - values[1]), nan=np.inf)))
            what, pair = "value", [value[entry] for value in values]
        given, exact = (f"{number:.6g}" for number in pair)
        return f"the {what} of {self.probe.name} is {given} in {self.form.name} and {exact} in double precision"


def compare_precision(flow: Flow, probe: Probe, seed: int) -> PrecisionComparison | None:
    """A call in single precision at its ordinary points: data up to `DATA`, or given data, latents
    up to `LATENTS`, values up to `LARGEST`, log-dets up to `LOG_DET` per sixteen entries. None if
    no point is ordinary. Raises `Unsupported` if it does not run in single precision.
    """
    support, probe = _taken_from(flow, probe), in_float32(probe)
    size = np.abs(probe.points.reshape(len(probe.points), -1))
    latents = (probe.name == "inverse") == (
        flow.normalizing == "forward"
    ) and probe.name in OPPOSITE
    reach = LATENTS if latents else DATA
    near = (((size >= LEAST) & (size <= reach)) | (size == 0)).all(1) | flow.facts.at_data
    near &= representable(probe.points, support) & ~at_an_end(support, probe.points)
    rows = np.flatnonzero(near)
    exact, refused = attempt(probe.rows(rows))
    if (
        refused or exact is None or not len(rows)
    ):  # rounding moved a point out of the set that the call accepts
        return None
    sizes = np.stack([rows_max(exact.value), np.abs(row_log_dets(exact, len(rows)))], 1)
    most = LOG_DET * max(1.0, probe.points[0].size / ORDINARY)
    density = exact.ladj is None and probe.name == "log_prob"
    moderate = (sizes <= (most if density else LARGEST, most)).all(1)
    index = np.flatnonzero(finite_outcome_rows(exact, len(rows)) & moderate)
    if not len(index):
        return None
    rows, exact = rows[index], outcome_rows(exact, index)
    sizes = sizes[index]
    return PrecisionComparison(
        flow, probe.rows(rows), seed, SINGLE, rows, exact, None, sizes, sizes
    ).made()


def _taken_from(flow: Flow, probe: Probe) -> Support:
    return flow.codomain or REAL if probe.name == "inverse" else flow.domain


def necessary(flow: Flow, probe: Probe, seed: int, unit: float) -> Array:
    """The change of value and log-det of one point, ``(2,)``, when inputs, contexts and parameters
    move by ``unit``: by random signs as in `rounding_sensitivity`, and all coordinates to both
    sides.
    """
    exact, nothing, endless = probe(), (np.zeros(1),) * 2, (np.full(1, np.inf),) * 2
    moved = np.concatenate(rounding_sensitivity(flow, seed, probe, exact, endless, nothing, unit))
    step = UNITS * unit * room(_taken_from(flow, probe), probe.points)
    for side in (-step, step):
        beside = probe.at(probe.points + side)()
        moved = np.maximum(moved, np.concatenate(distance(exact, beside, 1)))
    return moved


def rounding_sensitivity(
    flow: Flow,
    seed: int,
    probe: Probe,
    exact: Mapped,
    errors: Both,
    floors: Both,
    unit: float = SINGLE.unit,
) -> Both:
    """The change of values and log-dets, ``(n,)`` each, when inputs, contexts and parameters move
    by ``unit``. The maximum over several moves; heavy calls stop once it exceeds all ``errors``.
    """
    rows, rng = len(probe.points), np.random.default_rng(seed)
    value, ladj = np.zeros(rows), np.zeros(rows)
    size = largest_parameter(flow) if offers(flow, Parametric) else 0.0
    for _ in range(TRIALS):
        moved = probe.mapped(
            lambda array: array * (1 + 2 * unit * rng.choice((-1.0, 1.0), array.shape))
        )
        outs = [moved()]
        if offers(flow, Parametric):
            direction = int(rng.integers(2**31))
            outs.append(flow.along(probe.name, *probe.inputs, direction, 2 * unit * size))
        for out in outs:
            apart, other = distance(exact, out, rows)
            value, ladj = np.maximum(value, apart), np.maximum(ladj, other)
        allowed = allowances((value, ladj), floors, unit)
        if sparing(flow) and all(
            (one <= most).all() for one, most in zip(errors, allowed, strict=True)
        ):
            break
    return value, ladj


def allowances(moved: Both, floors: Both, unit: float = SINGLE.unit) -> Both:
    """The allowed errors of values and log-dets, ``(n,)`` each, for a stable algorithm."""
    value, ladj = (
        PATIENCE * (one + unit * floor) for one, floor in zip(moved, floors, strict=True)
    )
    return value, ladj


def in_float32(probe: Probe) -> Probe:
    """A probe at inputs that float32 represents, so that both precisions start from the same
    numbers.
    """
    return probe.mapped(lambda array: array.astype(np.float32).astype(np.float64))


def largest_parameter(flow: Flow) -> float:
    """The magnitude that rounding of parameters is relative to: at least 1."""
    if not offers(flow, Living):
        return 1.0
    (state,) = flow.play([State()])
    floats = [
        np.abs(array).max()
        for array in state.values()
        if array.size and np.issubdtype(array.dtype, np.floating)
    ]
    return float(max([1.0, *(size for size in floats if np.isfinite(size))]))


def distance(first: Mapped, second: Mapped, rows: int) -> Both:
    """The largest difference of the values, and of the log-dets, per row, ``(rows,)`` each."""
    with np.errstate(all="ignore"):
        one, two = (np.asarray(out.value, dtype=np.float64) for out in (first, second))
        return rows_max(one - two), np.abs(row_log_dets(first, rows) - row_log_dets(second, rows))


def at_an_end(support: Support, points: Array) -> Array:
    """Which points have a coordinate within a few units of the end of their support, ``(n,)``:
    rounding moves their images onto the image of the end, or past it.
    """
    flat, near = points.reshape(len(points), -1), np.zeros(len(points), dtype=bool)
    for end in map(np.ravel, support.ends):
        units = np.where(np.isfinite(end), PATIENCE * SINGLE.unit * np.abs(end), -1.0)
        near |= (np.abs(flat - end) <= units).any(1)
    return near


def room(support: Support, points: Array) -> Array:
    """The magnitude by which a unit is multiplied, ``(n, ...)`` per coordinate: their own and a
    share of ordinary numbers, at most their distance from the end of the support.
    """
    flat = points.reshape(len(points), -1)
    sizes = [np.abs(flat) + SHARE * np.maximum(1.0, rows_max(points))[:, None]]
    sizes += [np.abs(flat - np.ravel(end)) for end in support.ends]
    return np.asarray(np.minimum.reduce(sizes).reshape(points.shape))


def runs(flow: Flow, probe: Probe, form: Format) -> bool:
    """Whether a call accepts at least one of some ordinary points in a precision."""
    points = draw_points(
        flow.domain,
        (OTHERS, *flow.event_shape),
        np.random.default_rng(seed_of(1, "others") % 2**63),
    )
    given = Probe(
        probe.call,
        (points, *(None if one is None else one[[0] * OTHERS] for one in probe.inputs[1:])),
    )
    if probe.name == "inverse" or (probe.name == "log_prob" and flow.normalizing == "inverse"):
        images, refused = attempt(flow.calls["forward"], *given.inputs)
        if refused:
            return False
        given = given.at(np.asarray(images.value))
    others = (given.rows(slice(row, row + 1)) for row in range(OTHERS))
    return not all(attempt(one, form.how, dtype="float32")[1] for one in others)


def refused_row(probe: Probe, form: Format) -> tuple[int, str]:
    """The index of a row at which a call raises in a precision, and the error."""

    def refusal(index: Array) -> str:
        return attempt(probe.rows(index), form.how, dtype="float32")[1]

    guilty = np.arange(len(probe.points))
    while len(guilty) > 1:
        half, other = np.array_split(guilty, 2)
        guilty = half if refusal(half) else other
    alone = refusal(guilty)
    if not alone:
        raise Undecidable(
            f"in {form.name} it raises for several points, and for none of them alone"
        )
    return int(guilty[0]), alone


def outcome_rows(out: Mapped, index: Array) -> Mapped:
    """The rows ``index`` of what a call of points returned."""
    ladj = None if out.ladj is None else row_log_dets(out, len(out.value))[index]
    return Mapped(np.asarray(out.value)[index], ladj)
