"""The limit of eval mode as train mode sees the same batch repeatedly."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from flowref.laws.common.amounts import call_work, measured_share, planned, sparing
from flowref.laws.common.outcomes import flags
from flowref.laws.common.probes import probe_of
from flowref.laws.common.requirements import in_double, repeatable
from flowref.laws.conduct.train_mode import has_modes
from flowref.laws.conduct.training_batches import LivingBijection, played
from flowref.model import EXACT, GIVEN, Array, Batch, Residual, Unsupported, law
from flowref.model.budget import current_budget
from flowref.model.steps import Eval, State, Step, Train
from flowref.model.structure.line_fits import by_entry, fit_lines

# Rows of a batch, its spread, and the factor and shift of other batches.
ROWS, SPREAD, LARGER, HIGHER = 16, 4.0, 4.0, 40.0
# Repetitions of a batch, and the larger number if averages still move.
SHOWN = (60, 600)
# Rows for a first glance at expensive objects.
FEW = 3
# Thresholds of shares: still moving, an integer, neither; and the relative residual of an affine
# fit.
MOVING, WHOLE, BETWEEN, BENT = 0.02, 0.05, 0.12, 1e-6
# Features of a vector up to which a matrix is fitted to the batch.
SHORT = 6
# Operations of a call beyond which slowly moving averages are not followed.
PATIENT = 2000


class Lines(NamedTuple):
    """The affine map of each output entry in the same input entry, ``(entries,)``: its slope, and
    the image of the mean of the batch.
    """

    slope: Array
    level: Array


class Course(NamedTuple):
    """The affine maps of an object that sees one batch repeatedly: the last in train mode, those
    in eval mode after two thirds and after all repetitions, and whether they still moved in
    between.
    """

    trained: Lines
    early: Lines
    late: Lines
    moving: bool


class Shares(NamedTuple):
    """How an output depends on the batch, per entry ``(entries,)``: the power of the spread that
    it is divided by, and the share of the level that is subtracted; nan if unknown.
    """

    spread: Array
    level: Array


@law(
    "batch-norm/modes-agree[many-batches]",
    key="mode/settled",
    version=2,
    applies=has_modes & repeatable & in_double,
    tolerance=EXACT,
    history="fresh",
    effort=2,
    size=3,
    scales=GIVEN,
    source="running statistics stand for those of the batches: fed one batch repeatedly, they become its own",
)
def settled(flow: LivingBijection, batch: Batch) -> Residual:
    """If train mode changes the affine map of eval mode per entry: fed one batch repeatedly, eval
    mode converges to subtracting its mean, or nothing, and dividing by its standard deviation, or
    nothing, as train mode does; never by a part or another power of it. If both modes normalize,
    by affine maps or by matrices, their outputs for that batch have the same width and location.
    """
    if flow.domain.kind != "real":
        raise Unsupported("its domain is not all reals", blocked=False)
    rng = np.random.default_rng(batch.seed)
    x = SPREAD * rng.standard_normal((ROWS, *flow.event_shape))
    context = None
    if flow.context_shape is not None:
        context = np.repeat(rng.standard_normal((1, *flow.context_shape)), ROWS, axis=0)
    if not sparing(flow) and matrices_alone(flow, x, context):
        return of_matrices(flow, batch, x)
    rows = planned(flow, ROWS, FEW)
    glance(flow, x[:rows], None if context is None else context[:rows])
    if sparing(flow):
        calls = 3 * (SHOWN[0] + 2)
        work = call_work(flow, flow.normalizing, ROWS, calls)
        current_budget().ask(f"{calls} batches in train mode", 0.0, work)
    for shown in SHOWN:
        if shown > SHOWN[0] and measured_share(flow, PATIENT) < 1:
            break
        found = [course(flow, points, context, shown) for points in (x, LARGER * x, x + HIGHER)]
        trained = batch_shares(*(one.trained for one in found))
        early, late = (
            batch_shares(*(one.early for one in found)),
            batch_shares(*(one.late for one in found)),
        )
        if np.nanmax(np.abs(np.array(early) - np.array(late)), initial=0.0) <= MOVING:
            note = eval_mode_fault(trained, late) or otherwise(
                trained, late, found[:2], (x, LARGER * x)
            )
            if note and not all(one.moving for one in found):
                raise Unsupported("train mode does not keep updating its statistics", blocked=False)
            return flags(bool(note), len(batch.x), note)
    raise Unsupported("older batches still have too much weight in its averages", blocked=False)


def glance(flow: LivingBijection, x: Array, context: Array | None) -> None:
    """Raise `Unsupported` if one train-mode batch moves nothing, or eval mode is not affine per
    entry, for a few rows.
    """
    run = probe_of(flow, flow.normalizing, x, context).step()
    life = played(flow, [Eval(), run, Train(), run, Eval(), run], fresh=True)
    before, after = (np.asarray(life[index].value, dtype=np.float64) for index in (1, -1))
    if np.array_equal(before, after, equal_nan=True):
        raise Unsupported("train mode does not change eval mode", blocked=False)
    entrywise_lines(x, after)


def matrices_alone(flow: LivingBijection, x: Array, context: Array | None) -> bool:
    """Whether train mode maps a batch of short vectors by one matrix, and not entry by entry."""
    if context is not None or len(flow.event_shape) != 1 or x[0].size > SHORT:
        return False
    run = probe_of(flow, flow.normalizing, x, None).step()
    y = np.asarray(played(flow, [Train(), run], fresh=True)[-1].value, dtype=np.float64)
    with contextlib.suppress(Unsupported):
        entrywise_lines(x, y)
        return False
    return matrix(x, y) is not None


def matrix(x: Array, y: Array) -> Array | None:
    """The matrix ``(d, d)`` of the affine map from x to y, both ``(n, d)``; None if it is not
    affine.
    """
    if x.shape != y.shape or not np.isfinite(y).all():
        return None
    known = np.concatenate([x - x.mean(0), np.ones((len(x), 1))], 1)
    solved, *_ = np.linalg.lstsq(known, y, rcond=None)
    bent = np.abs(known @ solved - y).max() > BENT * np.ptp(y)
    return None if bent else np.asarray(solved[:-1])


def of_matrices(flow: LivingBijection, batch: Batch, x: Array) -> Residual:
    """Whether eval mode converges to the matrix of train mode, up to a factor, for a shifted
    batch.
    """
    points = x + HIGHER
    outputs, _ = shown_to(flow, points, None, SHOWN[0])
    found = [one for out in outputs if (one := matrix(points, out)) is not None]
    if len(found) < len(outputs):
        raise Unsupported("its outputs are not affine in the input", blocked=False)
    trained, early, late = found
    size = np.linalg.norm(trained)
    if not size > 0 or np.linalg.norm(late - early) > MOVING * size:
        raise Unsupported("older batches still have too much weight in its averages", blocked=False)
    factor = float((late * trained).sum() / size**2)
    off = np.linalg.norm(late - factor * trained) > BETWEEN * size
    off |= abs(np.log(max(factor, 1e-300))) > BETWEEN
    note = "fed one batch repeatedly, eval mode and train mode map it by different matrices"
    return flags(bool(off), len(batch.x), note)


def shown_to(
    flow: LivingBijection, x: Array, context: Array | None, shown: int
) -> tuple[list[Array], bool]:
    """Outputs of a new object that sees one batch repeatedly: last in train mode, in eval mode
    after two thirds, and in eval mode at the end; and whether it still moved in between.
    """
    run = probe_of(flow, flow.normalizing, x, context).step()
    first: list[Step[object]] = [Train(), *[run] * (2 * shown // 3), Eval(), run, State()]
    steps = [*first, Train(), *[run] * (shown // 3), Eval(), run, State()]
    life = played(flow, steps, fresh=True)
    half = len(first)
    if np.allclose(life[1].value, life[-2].value, rtol=0, atol=0):
        raise Unsupported("train mode does not change eval mode", blocked=False)
    values = (life[-4], life[half - 2], life[-2])
    outputs = [np.asarray(out.value, dtype=np.float64) for out in values]
    return outputs, statistics_changed(life[half - 1], life[-1])


def course(flow: LivingBijection, x: Array, context: Array | None, shown: int) -> Course:
    """The affine maps of a new object that sees one batch repeatedly."""
    outputs, moving = shown_to(flow, x, context, shown)
    trained, early, late = (entrywise_lines(x, out) for out in outputs)
    return Course(trained, early, late, moving)


def statistics_changed(early: dict[str, Array], late: dict[str, Array]) -> bool:
    """Whether a floating number of the state still changes, other than a counter."""
    return any(
        value.dtype.kind == "f" and value.shape == late[name].shape and (value != late[name]).any()
        for name, value in early.items()
        if name in late
    )


def entrywise_lines(x: Array, y: Array) -> Lines:
    """The affine map per entry. Raises `Unsupported` if the output is not affine per entry."""
    if x.shape != y.shape or not np.isfinite(y).all():
        raise Unsupported(
            "its outputs are not affine in the same entry of the input", blocked=False
        )
    out = by_entry(y)
    slope, _, off = fit_lines(by_entry(x), out)
    spread = np.ptp(out, axis=1)
    if not (off <= BENT * spread).all() or not (spread > 0).all():
        raise Unsupported(
            "its outputs are not affine in the same entry of the input", blocked=False
        )
    return Lines(slope, out.mean(1))


def batch_shares(usual: Lines, larger: Lines, higher: Lines) -> Shares:
    """The dependence on the batch, from the affine maps for a batch, for a scaled and for a
    shifted one.
    """
    with np.errstate(all="ignore"):
        power = np.log(usual.slope / larger.slope) / np.log(LARGER)
        level = 1 - (higher.level - usual.level) / (HIGHER * usual.slope)
        same = np.abs(higher.slope / usual.slope - 1) <= MOVING
    return Shares(power, np.where(same, level, np.nan))


def eval_mode_fault(trained: Shares, late: Shares) -> str:
    """The error message for the limit of eval mode; empty if it is right."""
    for name, before, after in zip(("spread", "mean"), trained, late, strict=True):
        known = after[np.isfinite(after)]
        between = np.minimum(np.abs(known), np.abs(known - 1)) > BETWEEN
        if between.any():
            return (
                f"fed one batch repeatedly, eval mode follows its {name} by {known[between][0]:.3g}"
            )
        gone = (np.abs(before - 1) <= WHOLE) & (np.abs(after) <= WHOLE)
        if gone.any():
            return f"eval mode never converges to the {name} that train mode uses"
    return ""


def otherwise(
    trained: Shares, late: Shares, found: Sequence[Course], batches: Sequence[Array]
) -> str:
    """The error message if eval mode maps the repeated batch differently from train mode, both
    normalizing; else empty.
    """
    with np.errstate(invalid="ignore"):
        both = np.all([np.abs(one - 1) <= WHOLE for one in (*trained, *late)], axis=0)
    if not both.any():
        return ""
    for one, x in zip(found, batches, strict=True):
        with np.errstate(all="ignore"):
            wider = (one.late.slope / one.trained.slope)[both]
            spread = np.abs(one.trained.slope) * x.reshape(len(x), -1).std(0)
            beside = ((one.late.level - one.trained.level) / spread)[both]
        if (np.abs(np.log(np.abs(wider))) > BETWEEN).any() or (wider < 0).any():
            odd = wider[np.abs(wider - 1).argmax()]
            return (
                f"fed one batch repeatedly, eval mode maps it {odd:.3g} times as wide as train mode"
            )
        if (np.abs(beside) > BETWEEN).any():
            odd = beside[np.abs(beside).argmax()]
            return f"fed one batch repeatedly, eval mode maps it {odd:.3g} of its spread away from train mode"
    return ""
