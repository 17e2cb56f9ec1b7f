"""Inputs: memory layouts, batches of one and of none, nan, extreme values, and wrong shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from flowref.laws.common.outcomes import attempt, finite_outcome_rows, flags, outcome_gap
from flowref.laws.common.probes import (
    BATCHED,
    POINTWISE,
    Outcomes,
    Probe,
    absent,
    agree,
    echo_of,
    probe_of,
    probes,
    random,
)
from flowref.laws.common.requirements import in_space, not_estimator, repeatable
from flowref.model import (
    ADVICE,
    CONTRACT,
    EXACT,
    GIVEN,
    Array,
    Batch,
    Mapped,
    Residual,
    law,
    requires,
    seed_of,
)
from flowref.model.abilities import Bijection, Flow
from flowref.model.call import Layout

POINTED = (*POINTWISE, *BATCHED)
APART = 1e-9
LAYOUTS: tuple[Layout, ...] = ("transposed", "strided", "channels_last")
# The message for a point that is not finite alone; the number of its perturbations, and their
# largest size in roundings.
NOT_FINITE, MOVES, ROUNDINGS = "not finite", 8, 2.0**10
VIEW_ERROR = "view size is not compatible"
EXTREMES: tuple[float, ...] = (0.0, -0.0, 1e-30, 1e30, 5e-324, np.finfo(np.float64).max / 4)


def layouts_of(points: Array) -> tuple[Layout, ...]:
    """The memory layouts that differ for points of this shape."""
    return LAYOUTS if points.ndim == 4 else LAYOUTS[:2]


@law(
    "same/manner[strides]",
    key="hygiene/strides-agree",
    effort=4,
    echo=echo_of(POINTED, complete=False),
    applies=repeatable,
    source="a tensor's values are its meaning; strides are storage",
    pointwise=True,
)
def strides_agree(flow: Flow, batch: Batch) -> Residual:
    """Values and log-dets are the same for transposed, strided, channels-last, expanded and
    contiguous inputs.
    """

    def outcomes(probe: Probe) -> Outcomes:
        plain = probe()
        others = [attempt(probe, layout=layout)[0] for layout in layouts_of(probe.points)]
        if any(one and outcomes_differ(plain, one) for one in others) and random(flow, probe):
            return  # random numbers are laid out as the input is
        yield from ((plain, one) for one in others)
        # An expanded input repeats its first row.
        repeated = probe.at(np.repeat(probe.points[:1], len(probe.points), 0))
        yield at_first(repeated(), attempt(repeated, layout="expanded")[0])

    note = "the result depends on the memory layout of the input"
    return agree(probes(flow, batch, complete=False, calls=POINTED), outcomes, note)


def at_first(first: Mapped, second: Mapped | None) -> tuple[Mapped, Mapped | None]:
    """Two outcomes of a repeated point with their largest difference placed in the first row, so
    that it is compared with the noise of that point.
    """
    if second is None or np.shape(second.value) != np.shape(first.value):
        return first, second
    return first, Mapped(_at_first(first.value, second.value), _at_first(first.ladj, second.ladj))


def _at_first(one: Array | float | None, other: Array | float | None) -> Any:
    if one is None or other is None or np.shape(one) != np.shape(other) or not np.ndim(one):
        return other
    rows, others = np.array(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # both may be infinite
        off = np.abs(others - rows).reshape(len(rows), -1).max(1)
    rows[0] = others[int(np.nan_to_num(off, nan=np.inf).argmax())]
    return rows


def outcomes_differ(first: Mapped, second: Mapped) -> bool:
    """Whether two outcomes differ by more than rounding."""
    rows = len(first.value) if np.ndim(first.value) else 0
    return bool((np.nan_to_num(outcome_gap(first, second, rows)) > APART).any()) if rows else False


@law(
    "same/manner-accepted",
    key="hygiene/strides-accepted",
    tolerance=EXACT,
    effort=2,
    source="Tensor.view asks for a contiguous tensor; reshape does not",
)
def strides_accepted(flow: Flow, batch: Batch) -> Residual:
    """A non-contiguous input (transposed, strided or expanded) is accepted."""
    seen = [
        f"{probe.name} of a {layout} input"
        for probe in probes(flow, batch, complete=False, calls=POINTED)
        for layout in layouts_of(probe.points)
        # Channels last is an opt-in format; rejecting it is permitted.
        if layout != "channels_last" and VIEW_ERROR in attempt(probe, layout=layout)[1]
    ]
    note = "{} raised that a view is not compatible with its strides"
    return absent(seen, len(batch.x), note)


@law(
    "shape/any-batch[no-rows]",
    key="hygiene/empty-batch",
    force=CONTRACT,
    promise="empty-batch",
    tolerance=EXACT,
    effort=1,
    source="the last batch of a filtered data set may be empty",
)
def empty_batch(flow: Flow, batch: Batch) -> Residual:
    """A batch of no points returns no points, in the right shape."""
    wrong = []
    for probe in probes(flow, batch, complete=False, calls=POINTWISE):
        expected = (0, *probe().value.shape[1:])
        out, error = attempt(probe.rows(slice(0)))
        got = None if error else out.value.shape
        if got != expected:
            wrong.append(f"{probe.name}: {error or f'shape {got}, expected {expected}'}")
    return flags(bool(wrong), len(batch.x), "; ".join(wrong))


@law(
    "shape/any-batch[one-row]",
    key="hygiene/batch-one",
    tolerance=EXACT,
    effort=4,
    applies=repeatable,
    source="squeeze() drops a batch axis of length one along with the rest",
)
def batch_one(flow: Flow, batch: Batch) -> Residual:
    """A point alone in its batch has a result of the same shape, and finite like next to a copy of
    itself; it is not rejected if it is accepted next to another point. Exempt are points at which
    a few roundings decide whether the result is finite.
    """
    rows = len(batch.x)
    bad, notes = np.zeros(rows), []
    # Include a point with all coordinates far out, where a formula may have nothing to do.
    farthest = int(np.abs(batch.x).reshape(rows, -1).min(1).argmax())
    for probe in probes(flow, batch, complete=False, calls=POINTWISE):
        taken = -1
        for row in dict.fromkeys([*range(min(rows, 3)), min(3, rows - 1), farthest]):
            pair, refused = attempt(probe.rows(np.array([row, row])))
            if refused and _accepted_next_to(probe, row, taken):
                bad[row] = 1
                notes.append(
                    f"{probe.name} rejects a point that it accepts next to another: {refused}"
                )
            taken = taken if refused else row
            if refused or not finite_outcome_rows(pair, 2).all():
                continue
            alone, error = attempt(probe.rows(np.array([row])))
            wrong = error or _wrong_alone(pair, alone)
            if wrong == NOT_FINITE and _rounding_decides(probe, row, batch.seed):
                continue
            if wrong:
                bad[row] = 1
                notes.append(f"{probe.name} of a single point: {wrong}")
    return flags(bad, rows, "; ".join(notes[:1]))


def _accepted_next_to(probe: Probe, row: int, other: int) -> bool:
    """Whether a rejected point is accepted next to another one."""
    return other >= 0 and not attempt(probe.rows(np.array([row, other])))[1]


def _wrong_alone(pair: Mapped, alone: Mapped) -> str:
    """The error message for the outcome of one point compared with that of the same point twice;
    empty if it is right.
    """
    if alone.value.shape != (1, *pair.value.shape[1:]):
        return f"shape {alone.value.shape}, expected {(1, *pair.value.shape[1:])}"
    two, one = ladj_shape(pair), ladj_shape(alone)
    # A log-det without batch axis has the same shape in both.
    if one != two and one != (1, *two[1:]):
        return f"log-det of shape {one}, expected {(1, *two[1:])}"
    return "" if finite_outcome_rows(alone, 1).all() else NOT_FINITE


def _rounding_decides(probe: Probe, row: int, seed: int) -> bool:
    """Whether a point some roundings away is finite alone, or not finite next to a copy of itself:
    far out rounding decides about overflow, and a batch of one is rounded differently.
    """
    if not np.issubdtype(probe.points.dtype, np.floating):
        return False
    rng = np.random.default_rng(seed_of(seed, "alone"))
    one, two = probe.rows(np.array([row])), probe.rows(np.array([row, row]))
    for _ in range(MOVES):
        noise = rng.uniform(-1, 1, one.points.shape) * ROUNDINGS * np.finfo(one.points.dtype).eps
        point = (one.points * (1 + noise)).astype(one.points.dtype)
        alone, error = attempt(one.at(point))
        pair, refused = attempt(two.at(np.repeat(point, 2, 0)))
        if not error and finite_outcome_rows(alone, 1).all():
            return True
        if not refused and not finite_outcome_rows(pair, 2).all():
            return True
    return False


def ladj_shape(out: Mapped) -> tuple[int, ...]:
    """The shape of a log-det as returned; empty for numbers or without log-det."""
    return () if out.ladj is None else np.shape(out.ladj)


@law(
    "map/finite[nan-row]",
    key="hygiene/nan-containment",
    tolerance=EXACT,
    effort=4,
    applies=not_estimator,
    source="one broken data point must not spoil the likelihoods of its batch",
)
def nan_containment(flow: Flow, batch: Batch) -> Residual:
    """In eval mode a nan in one point leaves the results of the other points finite."""
    rows = len(batch.x)
    bad, judged = np.zeros(rows), np.zeros(rows, dtype=bool)
    row = batch.seed % rows
    others = np.arange(rows) != row
    for probe in probes(flow, batch, complete=False, calls=POINTWISE):
        spoilt = probe.points.astype(np.float64)
        spoilt[row] = np.nan
        clean = probe()
        # Rejecting a nan is permitted, and a log-det without batch axis is not judged.
        dirty, refused = attempt(probe.at(spoilt))
        if refused:
            judged |= others
            continue
        if ladj_shape(dirty) != ladj_shape(clean) or len(dirty.value) != rows:
            continue
        judged |= others & finite_outcome_rows(clean, rows)
        dirt = dirty if ladj_shape(dirty)[:1] == (rows,) else Mapped(dirty.value, None)
        bad = np.maximum(
            bad, others & finite_outcome_rows(clean, rows) & ~finite_outcome_rows(dirt, rows)
        )
    return flags(bad, rows, "a nan in one point reached another", trivial=~judged)


def one_by_one(probe: Probe) -> Iterator[Mapped | None]:
    """Outcomes of points called one at a time; None for a call that raises."""
    for row in range(len(probe.points)):
        yield attempt(probe.rows(np.array([row])))[0]


@law(
    "map/finite-far-out[outside]",
    key="hygiene/outside-domain",
    points="beyond",
    force=ADVICE,
    tolerance=EXACT,
    effort=2,
    size=7,
    source="a point outside the domain is an error to report, and nan does not report it",
)
def outside_domain(flow: Bijection, batch: Batch) -> Residual:
    """Outside the domain a call raises or returns a number, never a silent nan."""
    beyond = probe_of(flow, "forward", batch.x, batch.context)
    bad = [out is not None and has_nan(out) for out in one_by_one(beyond)]
    return flags(bad, len(batch.x), "nan was returned for a point outside the domain")


@law(
    "map/finite-far-out[extremes]",
    key="hygiene/extremes",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    applies=in_space,
    source="zero of either sign, subnormal, tiny and huge numbers are numbers",
)
def extremes(flow: Bijection, batch: Batch) -> Residual:
    """At extreme points of the domain a call returns numbers, or raises: never nan."""
    rows = len(batch.x)
    points = np.array(batch.x, dtype=np.float64)
    chosen: tuple[float, ...] = EXTREMES
    if rows < len(EXTREMES):  # points inside the domain come first
        held = [flow.domain.holds(np.full_like(points[:1], value)).all() for value in EXTREMES]
        chosen = tuple(sorted(EXTREMES, key=lambda value: not held[EXTREMES.index(value)]))
    for row in range(rows):
        points[row] = chosen[row % len(chosen)]
    outs = one_by_one(probe_of(flow, "forward", points, batch.context))
    # Infinity is right if the true value exceeds the largest number.
    bad = [out is not None and has_nan(out) for out in outs]
    note = "nan was returned for an extreme point"
    return flags(bad, rows, note, decidable=flow.domain.holds(points))


def has_nan(out: Mapped) -> bool:
    """Whether a value or a log-det is nan, ``(n,)``."""
    ladj = np.zeros(0) if out.ladj is None else np.asarray(out.ladj, dtype=np.float64)
    return bool(np.isnan(np.asarray(out.value, dtype=np.float64)).any() or np.isnan(ladj).any())


@requires("its domain is declared, so that a refusal in it is an error")
def undeclared(flow: Flow) -> bool:
    """No domain is declared."""
    return not flow.facts.declared


@law(
    "map/domain[undeclared]",
    key="conduct/domain-told",
    force=ADVICE,
    tolerance=EXACT,
    effort=2,
    scales=GIVEN,
    applies=undeclared,
    source="where no domain is declared, all finite points are in it",
)
def domain_declared(flow: Bijection, batch: Batch) -> Residual:
    """A map without a declared domain accepts every finite point: rejected points lie outside a
    domain that should be declared.
    """
    probe = probe_of(flow, "forward", batch.x, batch.context)
    rows = len(batch.x)
    if not attempt(probe)[1]:
        return flags(False, rows)
    seen = [attempt(probe.rows(np.array([row])))[1] for row in range(rows)]
    refused = np.array([bool(error) for error in seen])
    # Report the rejected point nearest to the origin.
    far = np.abs(batch.x).reshape(rows, -1).max(1)
    note = ""
    if refused.any():
        nearest = int(np.where(refused, far, np.inf).argmin())
        refused = np.arange(rows) == nearest
        point = ", ".join(f"{value:.4g}" for value in batch.x[nearest].reshape(-1)[:4])
        note = f"forward refuses ({point}) with {seen[nearest]}; declare ?domain= if it is meant"
    return flags(refused, rows, note)


@requires("its events are scalars")
def has_features(flow: Flow) -> bool:
    """Events have several features along their last axis."""
    return bool(flow.event_shape) and flow.event_shape[-1] > 1


# Advice: broadcasting may be intended, and accepted shapes are a matter of the interface.
@law(
    "shape/wrong-refused[features]",
    key="hygiene/wrong-shape-refused",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    size=3,
    scales=GIVEN,
    applies=has_features,
    source="a wrong number of features that is broadcast silently is a wrong likelihood",
)
def wrong_shape_refused(flow: Bijection, batch: Batch) -> Residual:
    """Points with one feature, or one too many, are rejected or mapped as such, never broadcast to
    the number of features of the map.
    """
    silent = []
    for points in (batch.x[..., :1], np.concatenate([batch.x, batch.x[..., :1]], -1)):
        out, _ = attempt(flow.forward.under, points, batch.context)
        # A coordinatewise map takes any number of features, and returns as many.
        if (
            out is not None
            and out.value.shape != points.shape
            and flow.latent_shape == flow.event_shape
        ):
            silent.append(f"{points.shape[-1]} features were mapped to shape {out.value.shape}")
    return absent(silent, len(batch.x), "{}")
