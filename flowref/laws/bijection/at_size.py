"""Log-dets of events that are too large for a Jacobian entry by entry: told by structure, or by the
parts of a map, each at the points that reach it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flowref.laws.common.amounts import planned, taken
from flowref.laws.common.arithmetic import finite_rows, rows_max
from flowref.laws.common.differences import EXPONENTS, FINE, derivative
from flowref.laws.common.entries import entry_by_entry, refusal
from flowref.laws.common.structure import (
    LARGE,
    Told,
    copies,
    in_two_steps,
    one_entry_each,
    position_by_position,
    two_halves,
    whole,
)
from flowref.model import Array, Stage, Undecidable, Unsupported, seed_of
from flowref.model.abilities import Flow, Pulling, Walked, offers

# From so many entries on, halves are tried before the Jacobian is taken whole.
COSTLY = 256
# Up to so many entries the Jacobian is made at every point, and again under noise.
NOISED = 512
# Lines along which autograd is doubted, one where calls are heavy, and how many times the error of
# differences it may be off.
LINES, DOUBTED = 3, 20.0
# An inverse that takes so many times the work of forward is not differentiated; it comes back to
# where it began up to this.
STEPS, RETURNED = 8.0, 1e-9
# Parts, one after the other, are the whole up to this, in what they give and what they pull back.
ALIKE, CHAINED = 1e-6, 1
TOO_LARGE = (
    "its Jacobian has {0} x {0} entries, and no structure of it or of its parts was found; {1}"
)
SMALLER = "build it with at most a thousand, or of modules that return a value and a log-det"


@dataclass
class Ledger:
    """A visitor that writes down the log-det of every stage. ``kept``: the entries that a coupling is
    declared to keep. ``steady``: Jacobians of more than a few hundred entries are made, at one point.
    """

    rows: int
    kept: Array | None = None
    seed: int = 0
    steady: bool = False
    refused: str = ""
    entries: list[tuple[bool, Told]] = field(default_factory=list)

    def told(self, stage: Stage) -> bool:
        """See `Visitor`: elementwise, a coupling, or position by position."""
        rng = np.random.default_rng(seed_of(self.seed, stage.name, "structure") % 2**63)
        if stage.between:
            return self._written(stage, one_entry_each(stage, rng))
        return self._written(
            stage,
            self._coupled(stage, rng)
            or one_entry_each(stage, rng)
            or position_by_position(stage, rng),
        )

    def insist(self, stage: Stage) -> bool:
        """See `Visitor`: couplings of usual halves, or the Jacobian entry by entry."""
        rng = np.random.default_rng(seed_of(self.seed, stage.name, "halves") % 2**63)
        halves = stage.x.shape[1] > COSTLY and not stage.between
        told = two_halves(stage, rng) if halves else None
        small = stage.x.shape[1] <= NOISED
        return self._written(stage, told or (whole(stage) if small else self._made(stage)))

    def _made(self, stage: Stage) -> Told | None:
        """A large Jacobian without structure, if it may be made."""
        if not self.steady:
            return None
        self.refused = refusal(stage)
        return None if self.refused else entry_by_entry(stage)

    def mark(self) -> int:
        """See `Visitor`."""
        return len(self.entries)

    def forget(self, mark: int) -> None:
        """See `Visitor`."""
        del self.entries[mark:]

    def notes(self) -> Any:
        """See `Visitor`."""
        return tuple(self.entries), self.refused

    def recall(self, notes: Any) -> None:
        """See `Visitor`."""
        entries, self.refused = notes
        self.entries = list(entries)

    def composed(self, whole: Stage, parts: list[Stage]) -> bool:
        """See `Visitor`: where parts give what the whole gives, and pull random cotangents back to
        the same gradients, their Jacobians multiply to that of the whole.
        """
        rng = np.random.default_rng(seed_of(self.seed, whole.name, "composed") % 2**63)
        if parts[-1].y.shape != whole.y.shape:
            return False
        pulled = rng.standard_normal((len(whole.y), CHAINED, whole.y.shape[1]))
        expected = whole.pull(pulled)
        for part in reversed(parts):
            pulled = part.pull(pulled)
        return alike(whole.y, parts[-1].y) and alike(expected, pulled)

    def _coupled(self, stage: Stage, rng: np.random.Generator) -> Told | None:
        found = copies(stage, rng)
        if found is None and self.kept is not None and not stage.name:
            found = self.kept, self.kept
        return None if found is None else in_two_steps(stage, *found, rng)

    def _written(self, stage: Stage, told: Told | None) -> bool:
        if told is not None:
            self.entries.append((not stage.between, told))
        return told is not None

    def total(self) -> Told:
        """The log-det of the call: the sum of those of its stages."""
        stages = [told for _, told in self.entries]
        return Told(
            np.sum([told.log_det for told in stages], axis=0),
            np.sum([told.error for told in stages], axis=0),
            np.logical_and.reduce([told.known for told in stages]),
            self.road,
        )

    @property
    def road(self) -> str:
        """How the log-det was told, in words."""
        parts = [told.how for is_map, told in self.entries if is_map]
        if len(parts) == 1:
            by = "the Jacobian" if parts[0] == "entry by entry" else "by structure:"
            return f"{by} {parts[0]}"
        kinds = ", ".join(f"{count} {how}" for how, count in Counter(parts).most_common())
        return f"by {len(parts)} parts: {kinds}"


def alike(first: Array, second: Array) -> bool:
    """Whether two arrays ``(batch, ...)`` agree at every point where both are finite."""
    with np.errstate(all="ignore"):
        first, second = first.reshape(len(first), -1), second.reshape(len(second), -1)
        finite = np.isfinite(first).all(1) & np.isfinite(second).all(1)
        gap = np.abs(first - second).max(1) <= ALIKE * (1e-30 + np.abs(first).max(1))
    return bool(gap[finite].all())


def log_det_of(flow: Walked, which: str, x: Array, context: Array | None) -> Told:
    """log|det| of a call at each point. Raises `Undecidable` where no road leads there.

    An inverse that takes one step after the other is told by the map that it goes back, at the
    points that it gives, where that map takes these to where the inverse began.
    """
    if which == "inverse" and in_steps(flow):
        back = np.asarray(flow.calls["inverse"](x, context).value) + 0.0
        there = np.asarray(flow.forward(back, context).value)
        returned = there.shape == x.shape and finite_rows(back, there)
        told = log_det_of(flow, "forward", back, context)
        known = told.known & returned & (rows_max((there - x) / (1 + np.abs(x))) <= RETURNED)
        return Told(-told.log_det, told.error, known, f"{told.how}, of the map that it goes back")
    coupling = flow.facts.coupling
    kept = None
    if coupling is not None and len(coupling.kept) == x[0].size:
        kept = np.asarray(coupling.kept) == 1
    ledger = Ledger(len(x), kept)
    if flow.walk(which, x, context, ledger):
        return ledger.total()
    one = Ledger(1, kept, steady=True)
    if flow.walk(which, x[:1], None if context is None else context[:1], one):
        return one.total().first_of(len(x))
    raise Undecidable(TOO_LARGE.format(x[0].size, one.refused or SMALLER))


def refuse_to_walk_back(flow: Flow, size: int) -> None:
    """Raise `Unsupported` where an inverse of so many entries would not be differentiated: before it is
    called.
    """
    if size > LARGE and in_steps(flow):
        raise Unsupported("its inverse takes too many steps to be differentiated at this size")


def in_steps(flow: Flow) -> bool:
    """Whether the inverse takes many times the work of forward."""
    there, back = (taken(flow, name, 1) for name in ("forward", "inverse"))
    return back > STEPS * there > 0


def pulled_truly(flow: Walked, which: str, x: Array, context: Array | None) -> bool:
    """Whether what autograd pulls back at one point is the derivative along random lines, as far as
    differences of the values can tell.
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
        except Exception:  # a step beside the point is refused
            continue
        if abs(claimed - measured) > DOUBTED * error + 1e-6 * (abs(claimed) + abs(measured)):
            return False
    return True
