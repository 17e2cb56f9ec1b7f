"""Log-dets of events too large for a dense Jacobian: from verified structure, or from the parts of
a map, each at the points that reach it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from flowref.laws.common.amounts import call_work, planned
from flowref.laws.common.arithmetic import finite_rows, rows_max
from flowref.laws.common.differences import EXPONENTS, FINE, derivative
from flowref.laws.common.entries import entry_by_entry, entrywise_refusal
from flowref.laws.common.structure import (
    LARGE,
    StructuredLogDet,
    copies,
    dense_log_det,
    in_two_steps,
    one_entry_each,
    position_by_position,
)
from flowref.model import Array, Pieces, Stage, Undecidable, Unsupported, seed_of
from flowref.model.abilities import Flow, Pulling, Walked, offers

# Up to this many entries the Jacobian is computed at every point, and again under noise.
NOISED = 512
# Lines along which autograd is verified (one for heavy calls), and the allowed multiple of the
# error of differences.
LINES, DOUBTED = 3, 20.0
# An inverse with this many times the work of forward is not differentiated; the relative error up
# to which it counts as having returned to its input.
STEPS, RETURNED = 8.0, 1e-9
# Relative error up to which the composition of the pieces counts as the whole, in values and
# cotangents.
ALIKE = 1e-6
TOO_LARGE = (
    "its Jacobian has {0} x {0} entries, and no structure of it or of its parts was found; {1}"
)
SMALLER = "build it with at most a thousand"


class NoStructuredLogDet(Undecidable):
    """Raised if no method gives the log-det of a call."""


@dataclass(frozen=True)
class LogDetVisitor:
    """A visitor that computes the log-det of a call: by its structure, by that of its pieces, or
    entry by entry. ``kept``: mask of the entries that a coupling is declared to keep. ``steady``:
    Jacobians of more than a few hundred entries are computed, at one point. Raises `NoStructuredLogDet` if no
    method applies.
    """

    kept: Array | None = None
    steady: bool = False

    def __call__(self, call: Stage, pieces: Callable[[], Pieces | None]) -> StructuredLogDet:
        """The log-det of a call; see `Visitor`."""
        found = by_structure(call, self.kept)
        if found is None:
            with contextlib.suppress(NoStructuredLogDet):
                return self.by_pieces(call, pieces())
        return together([found or self.made(call)])

    def by_pieces(self, call: Stage, pieces: Pieces | None) -> StructuredLogDet:
        """From the structure of the pieces, if their composition is the call."""
        if pieces is not None:
            parts = [found for run in pieces.runs for found in self.in_run(pieces, run)]
            chained = pieces.chained
            if parts and (chained is None or composed(call, chained)):
                return together(parts)
        raise NoStructuredLogDet("it cannot be cut")

    def in_run(self, pieces: Pieces, run: range) -> list[StructuredLogDet]:
        """Of successive pieces: jointly if possible, else by bisection."""
        stage = pieces.rest(run)
        if stage is None:
            return []
        found = by_structure(stage)
        if found is None and len(run) > 1:
            half = len(run) // 2
            return self.in_run(pieces, run[:half]) + self.in_run(pieces, run[half:])
        return [found or self.made(stage)]

    def made(self, stage: Stage) -> StructuredLogDet:
        """From the dense Jacobian."""
        size, found, refused = stage.x.shape[1], None, ""
        if size <= NOISED:
            found = dense_log_det(stage)
        elif self.steady:
            refused = entrywise_refusal(stage)
            found = None if refused else entry_by_entry(stage)
        if found is None:
            raise NoStructuredLogDet(TOO_LARGE.format(size, refused or SMALLER))
        return found


def by_structure(stage: Stage, kept: Array | None = None) -> StructuredLogDet | None:
    """The log-det of a coupling (with mask ``kept``), of an elementwise map, or of one that mixes
    the channels of each position; None for other maps.
    """
    rng = np.random.default_rng(seed_of("structure") % 2**63)
    for halves in copies(stage, rng) or ([] if kept is None else [(kept, kept)]):
        found = in_two_steps(stage, *halves, rng)
        if found is not None:
            return found
    return one_entry_each(stage, rng) or position_by_position(stage, rng)


def composed(call: Stage, chained: Stage) -> bool:
    """Whether the pieces compose to the call: values agree, and random cotangents pull back to the
    same gradients, so that the Jacobians multiply.
    """
    rng = np.random.default_rng(seed_of("composed") % 2**63)
    if chained.y.shape != call.y.shape or not _agree_where_finite(call.y, chained.y):
        return False
    cotangents = rng.standard_normal((len(call.y), 1, call.y.shape[1]))
    return _agree_where_finite(call.pull(cotangents), chained.pull(cotangents))


def together(parts: Sequence[StructuredLogDet]) -> StructuredLogDet:
    """The log-det of a composition: the sum over its parts, with the names of the methods."""
    hows = Counter(one.how for one in parts)
    if len(parts) == 1:
        by = "the Jacobian" if "entry by entry" in hows else "by structure:"
        how = f"{by} {parts[0].how}"
    else:
        kinds = ", ".join(f"{count} {kind}" for kind, count in hows.most_common())
        how = f"by {len(parts)} parts: {kinds}"
    log_dets, errors, known = (
        np.stack([getattr(one, name) for one in parts]) for name in ("log_det", "error", "known")
    )
    return StructuredLogDet(log_dets.sum(0), errors.sum(0), np.logical_and.reduce(known), how)


def _agree_where_finite(first: Array, second: Array) -> bool:
    with np.errstate(all="ignore"):
        first, second = first.reshape(len(first), -1), second.reshape(len(second), -1)
        finite = np.isfinite(first).all(1) & np.isfinite(second).all(1)
        gap = np.abs(first - second).max(1) <= ALIKE * (1e-30 + np.abs(first).max(1))
    return bool(gap[finite].all())


def log_det_at_points(
    flow: Walked, which: str, x: Array, context: Array | None
) -> StructuredLogDet:
    r"""$\log|\det J|$ of a call per point, ``(n,)``. Raises `Undecidable` if no method applies.

    The log-det of a sequential inverse is minus that of forward at the points that the inverse
    returned, if forward maps these back.
    """
    if which == "inverse" and in_steps(flow):
        back = np.asarray(flow.calls["inverse"](x, context).value) + 0.0
        there = np.asarray(flow.forward(back, context).value)
        returned = there.shape == x.shape and finite_rows(back, there)
        found = log_det_at_points(flow, "forward", back, context)
        known = found.known & returned & (rows_max((there - x) / (1 + np.abs(x))) <= RETURNED)
        return StructuredLogDet(
            -found.log_det, found.error, known, f"{found.how}, of the map that it inverts"
        )
    coupling = flow.facts.coupling
    kept = None
    if coupling is not None and len(coupling.kept) == x[0].size:
        kept = np.asarray(coupling.kept) == 1
    with contextlib.suppress(NoStructuredLogDet):
        return flow.walk(which, x, context, LogDetVisitor(kept))
    first = None if context is None else context[:1]
    return flow.walk(which, x[:1], first, LogDetVisitor(kept, steady=True), steady=True).first_of(
        len(x)
    )


def refuse_to_walk_back(flow: Flow, size: int) -> None:
    """Raise `Unsupported`, before the call, if an inverse of ``size`` entries would not be
    differentiated.
    """
    if size > LARGE and in_steps(flow):
        raise Unsupported("its inverse takes too many steps to be differentiated at this size")


def in_steps(flow: Flow) -> bool:
    """Whether the inverse takes many times the work of forward."""
    there, back = (call_work(flow, name, 1) for name in ("forward", "inverse"))
    return back > STEPS * there > 0


def vjp_agrees_with_differences(flow: Walked, which: str, x: Array, context: Array | None) -> bool:
    """Whether autograd's cotangents at one point agree with differences of the values along random
    lines.
    """
    if not offers(flow, Pulling):
        return True
    rng = np.random.default_rng(seed_of("lines", which) % 2**63)
    call, exponents = flow.calls[which], planned(flow, EXPONENTS, FINE)
    for _ in range(planned(flow, LINES, 1)):
        line = rng.standard_normal(x.shape) * (1 + np.abs(x)) / np.sqrt(x[0].size)
        weights = rng.standard_normal(np.shape(call(x, context).value))

        def along(t: float, line: Array = line, weights: Array = weights) -> float:
            return float((np.asarray(call(x + t * line, context).value) * weights).sum())

        claimed = float((flow.vjp(which, x, context, weights, None) * line).sum())
        try:
            measured, error = derivative(along, claimed, DOUBTED, exponents)
        except Exception:  # a step off the point is rejected
            continue
        if abs(claimed - measured) > DOUBTED * error + 1e-6 * (abs(claimed) + abs(measured)):
            return False
    return True
