"""Train mode on a whole batch: one matrix with its log-det, and rows of equal weight."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.arithmetic import reported
from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.common.requirements import exact_log_det, in_double
from flowref.laws.conduct.train_mode import has_modes
from flowref.laws.conduct.training_batches import LivingBijection, ordinary_probe, played
from flowref.model import (
    EXACT,
    GIVEN,
    NEARBY,
    VOLUME,
    Array,
    Batch,
    Mapped,
    Residual,
    Unsupported,
    law,
)
from flowref.model.steps import Eval, State, Step, Train

# The largest number of features for which a matrix is fitted, rows per feature, the relative
# residual of the fit, and the tolerance of a log-det.
FEATURES, ROWS_EACH, LEFT, APART = 12, 3, 1e-9, 1e-6
# Rows of a batch that is permuted, and the relative rounding of sums in another order.
ORDERED, ROUNDED = 5, 1e-7


@law(
    "map/log-det[batch-matrix]",
    key="mode/train-log-det-of-matrix",
    about=VOLUME,
    applies=has_modes & exact_log_det & in_double,
    tolerance=EXACT,
    effort=1,
    size=3,
    scales=NEARBY,
    source="Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 3.7: the log-det of a batch is that of one affine map",
)
def train_log_det_of_matrix(flow: LivingBijection, batch: Batch) -> Residual:
    r"""If train mode maps a batch of vectors differently from eval mode, and all rows by one
    affine map $A x + b$, the log-det of every row is $\log|\det A|$.
    """
    if len(flow.event_shape) != 1 or flow.event_shape[0] > FEATURES:
        raise Unsupported("its events are no short vectors", blocked=False)
    count = ROWS_EACH * (flow.event_shape[0] + 2)
    asked = ordinary_probe(flow, batch.seed, "forward", count)
    run = asked.step()
    fixed, out = played(flow, [Eval(), run])[-1], played(flow, [Train(), run])[-1]
    if np.array_equal(fixed.value, out.value):
        raise Unsupported("train mode maps a batch like eval mode", blocked=False)
    if out.ladj is None:
        raise Unsupported("train mode returns no log-det", blocked=False)
    return of_matrix(flow, asked.points, out, len(batch.x))


def of_matrix(flow: LivingBijection, x: Array, out: Mapped, rows: int) -> Residual:
    """The log-dets of a batch minus that of its matrix. Raises `Unsupported` if the map is not
    affine.
    """
    y = np.asarray(out.value, dtype=np.float64)
    if y.shape != x.shape or not np.isfinite(y).all():
        raise Unsupported("its outputs are not affine in the input", blocked=False)
    known = np.concatenate([x, np.ones((len(x), 1))], 1)
    solved, *_ = np.linalg.lstsq(known, y, rcond=None)
    if np.abs(known @ solved - y).max() > LEFT * np.abs(y).max():
        raise Unsupported("its outputs are not affine in the input", blocked=False)
    expected = float(np.linalg.slogdet(solved[:-1])[1])
    log_dets = np.asarray(reported(flow, out, len(x)), dtype=np.float64)
    if not np.isfinite(expected) or not np.isfinite(log_dets).all():
        raise Unsupported("the batch is mapped to a smaller space", blocked=False)
    odd = log_dets[np.abs(log_dets - expected).argmax()]
    note = (
        f"in train mode a row has the log-det {odd:.6g}, and the matrix of the batch {expected:.6g}"
    )
    return flags(abs(odd - expected) > APART * (1 + abs(expected)), rows, note)


@law(
    "same/rows-in-train[state]",
    key="mode/rows-count-alike",
    applies=has_modes & in_double,
    tolerance=EXACT,
    effort=1,
    size=3,
    scales=GIVEN,
    source="statistics of a batch are symmetric in its samples",
)
def rows_count_alike(flow: LivingBijection, batch: Batch) -> Residual:
    """The state after a train-mode batch does not depend on which row is first or last, if the
    order of the others does not matter.
    """
    asked = ordinary_probe(flow, batch.seed, flow.normalizing, ORDERED)
    first = list(range(ORDERED))
    ends, between = [first[-1], *first[1:-1], first[0]], [0, 2, 3, 1, *first[4:]]
    steps: list[Step[object]] = [Train(), asked.step(), State()]
    before, after = played(flow, [Train(), State()])[-1], played(flow, steps)[-1]
    names = [name for name, value in after.items() if counts(before.get(name), value)]
    if not names:
        raise Unsupported("a batch does not change its state", blocked=False)
    again, error = attempt(flow.play, [Train(), asked.step(draws=2), State()])
    others = [
        played(flow, [Train(), asked.rows(order).step(), State()])[-1] for order in (ends, between)
    ]
    if error or any(tensors_differ(after[name], again[-1][name]) for name in names):
        raise Unsupported("the state after a batch is random", blocked=False)
    led = [
        name
        for name in names
        if tensors_differ(after[name], others[0][name])
        and not tensors_differ(after[name], others[1][name])
    ]
    note = f"the first or last row of a batch decides its effect on {', '.join(led)}"
    return flags(bool(led), len(batch.x), note)


def counts(before: Array | None, after: Array) -> bool:
    """Whether a floating tensor of the state was changed."""
    return (
        before is not None
        and before.shape == after.shape
        and np.issubdtype(after.dtype, np.floating)
        and bool((before != after).any())
    )


def tensors_differ(one: Array, other: Array) -> bool:
    """Whether two values of a tensor differ by more than rounding."""
    return one.shape != other.shape or bool(
        (np.abs(one - other) > ROUNDED * (1e-3 + np.abs(one).max(initial=0.0))).any()
    )
