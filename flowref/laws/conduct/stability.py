"""The law of stability: how much worse than necessary float32 may be."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.amounts import sparing
from flowref.laws.common.cases import MANY_OFTEN
from flowref.laws.common.outcomes import attempt, finite, log_det
from flowref.laws.common.probes import MAPS, Probe, probes
from flowref.laws.common.requirements import in_double, not_estimator
from flowref.model import (
    ADVICE,
    BOUND,
    NEARBY,
    Array,
    Batch,
    Mapped,
    Residual,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Bijection, Composite, Flow, Living, Parametric, offers
from flowref.model.steps import State

UNIT = 2.0**-24
# How many times the necessary error a stable algorithm may make.
PATIENCE = 64.0
TRIALS = 6
# Beyond this, saturated functions amplify what no input perturbation shows; of so many entries some lie
# farther out, however ordinary they are.
REACH, LARGE, FARTHER = 8.0, 512, 16.0
# Results larger than this leave the range in which one number describes the errors of all
# coordinates.
LARGEST = 1e4
# Entries of an event of which a log-det so large is a large one.
ORDINARY = 16
# Something of the values, and the same of the log-dets, per row.
Both = tuple[Array, Array]


@requires("it is a composite; its parts are judged on their own")
def single(flow: Flow) -> bool:
    """A single map: the rounding of what is handed from part to part is nobody's instability."""
    return not offers(flow, Composite)


def spread(flow: Flow, seed: int, probe: Probe, exact: Mapped, errors: Both, floors: Both) -> Both:
    """How far value and log-det move when inputs, contexts and parameters move by one float32 unit. More
    moves allow more: what is heavy is not moved again once that allows the errors of all points.
    """
    rows, rng = len(probe.points), np.random.default_rng(seed)
    value, ladj = np.zeros(rows), np.zeros(rows)
    size = largest_parameter(flow) if offers(flow, Parametric) else 0.0
    for _ in range(TRIALS):
        moved = probe.mapped(
            lambda array: array * (1 + 2 * UNIT * rng.choice((-1.0, 1.0), array.shape))
        )
        outs = [moved()]
        if offers(flow, Parametric):
            direction = int(rng.integers(2**31))
            outs.append(flow.along(probe.name, *probe.inputs, direction, 2 * UNIT * size))
        for out in outs:
            apart, other = distance(exact, out, rows)
            value, ladj = np.maximum(value, apart), np.maximum(ladj, other)
        allowed = allowances((value, ladj), floors)
        if sparing(flow) and all(
            (one <= most).all() for one, most in zip(errors, allowed, strict=True)
        ):
            break
    return value, ladj


def allowances(moved: Both, floors: Both) -> Both:
    """The errors of value and log-det that are no instability."""
    value, ladj = (
        PATIENCE * (one + UNIT * floor) for one, floor in zip(moved, floors, strict=True)
    )
    return value, ladj


def in_float32(probe: Probe) -> Probe:
    """A probe at inputs that float32 represents, so that both evaluations start from the same
    numbers.
    """
    return probe.mapped(lambda array: array.astype(np.float32).astype(np.float64))


def largest_parameter(flow: Flow) -> float:
    """The magnitude that parameter rounding is relative to: at least 1."""
    if not offers(flow, Living):
        return 1.0
    (state,) = flow.play([State()])
    floats = [
        np.abs(array).max()
        for array in state.values()
        if array.size and np.issubdtype(array.dtype, np.floating)
    ]
    return float(max([1.0, *(size for size in floats if np.isfinite(size))]))


def distance(first: Mapped, second: Mapped, rows: int) -> tuple[Array, Array]:
    """The largest difference of the values, and that of the log-dets, per row."""
    with np.errstate(all="ignore"):
        apart = np.asarray(first.value, dtype=np.float64) - np.asarray(
            second.value, dtype=np.float64
        )
        return np.abs(apart.reshape(rows, -1)).max(1, initial=0.0), np.abs(
            log_det(first, rows) - log_det(second, rows)
        )


# Advice: an unstable formula is correct mathematics, and where it saturates no bound tells it from
# a saturating map.
@law(
    "dtype/accurate",
    key="hygiene/float32-agrees",
    force=ADVICE,
    tolerance=BOUND,
    effort=4,
    size=16,
    scales=NEARBY,
    applies=in_double & single & not_estimator,
    source="Higham, Accuracy and Stability of Numerical Algorithms, section 1.5: mixed forward-backward stability",
    pointwise=True,
    version=2,
    cases=(MANY_OFTEN,),
)
def float32_agrees(flow: Bijection, batch: Batch) -> Residual:
    """In float32 the error is at most 64 times what moving inputs, parameters and results by one
    float32 unit does.
    """
    rows = len(batch.x)
    residual, bound, good = (
        np.zeros((rows, 2)),
        np.full((rows, 2), np.inf),
        np.zeros(rows, dtype=bool),
    )
    unstable = []
    reach = FARTHER if batch.x[0].size >= LARGE else REACH
    for probe in probes(flow, batch, complete=False, calls=MAPS):
        if probe.tolerance:  # it iterates, to an accuracy of its own
            continue
        probe = in_float32(probe)
        if not (magnitude(probe.points) <= reach).any():
            continue
        exact, refused = attempt(probe)
        if refused:
            # Rounding to float32 took a point out of the set that the call accepts.
            continue
        single, error = attempt(probe, dtype="float32")
        if error or np.shape(single.value) != np.shape(exact.value):
            raise Unsupported(f"it does not run in float32 ({error or 'another shape'})")
        floors = (
            np.maximum(np.maximum(1, magnitude(probe.points)), magnitude(np.asarray(exact.value))),
            4 + np.abs(log_det(exact, rows)),
        )
        errors = distance(exact, single, rows)
        moved, refused = attempt(spread, flow, batch.seed, probe, exact, errors, floors)
        if refused:
            # One float32 unit takes a point out of the set that the call accepts.
            continue
        here = (
            finite(exact, rows)
            & finite(single, rows)
            & (magnitude(probe.points) <= reach)
            & np.isfinite(moved[0] + moved[1])
        )
        here &= (magnitude(np.asarray(exact.value)) <= LARGEST) & (
            np.abs(log_det(exact, rows)) <= LARGEST * max(1.0, batch.x[0].size / ORDINARY)
        )
        for column, (apart, allowed) in enumerate(
            zip(errors, allowances(moved, floors), strict=True)
        ):
            worse = here & (apart * bound[:, column] > residual[:, column] * allowed)
            worse |= here & ~np.isfinite(bound[:, column])
            residual[worse, column], bound[worse, column] = apart[worse], allowed[worse]
            if (here & (apart > allowed)).any():
                unstable.append(f"the {('value', 'log-det')[column]} of {probe.name}")
        good |= here
    with np.errstate(all="ignore"):
        ratio = np.where(np.isfinite(bound), residual / bound, 0.0).max(1)
    note = (
        f"{', '.join(unstable)} is unstable in float32, though not wrong in float64"
        if unstable
        else ""
    )
    return Residual(ratio, allowed=1.0, decidable=good, note=note)


def magnitude(array: Array) -> Array:
    """The largest absolute coordinate of each row."""
    return np.asarray(np.abs(array.astype(np.float64)).reshape(len(array), -1).max(1, initial=0.0))
