r"""How a residual is judged: exactly, by a closed bound, or against what rounding was measured to
do.

Rounding laws: a residual r of a point with scale S is first screened, $|r| \le 16uS$. What is left
is measured again R times under Monte-Carlo arithmetic with noise $Mu$; with
$s = \mathrm{rms}_i(r_i - r)$ the residual is a violation iff $|r| > k\,(s/M + uS/4)$, and is then
confirmed with more runs and fresh noise. Where the response to the noise is no longer small (s >
S/100), only a residual k times the *amplified* response accuses; otherwise nothing can be said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flowref.model import (
    BOUND,
    EXACT,
    ROUNDING,
    STATISTICAL,
    Array,
    Batch,
    Evidence,
    Law,
    Residual,
    Subject,
    Undecidable,
    seed_of,
)

SCREEN = 16.0
RESPONSE_LIMIT = 0.01
# Points with coordinates up to here must not turn into nan or inf on the way back; farther out they
# may overflow.
FINITE_REACH, FINITE_SCALE = 16.0, 1e6


@dataclass(frozen=True)
class Precision:
    """A floating-point format to judge at: unit roundoff, noise amplification M, and the factor k."""

    unit: float
    amplify: float
    factor: float


DOUBLE = Precision(2.0**-53, 2.0**10, 64.0)
# Noise of nearly the size of rounding: it tells errors that have saturated from errors that nothing
# explains.
FINE = Precision(2.0**-53, 4.0, 64.0)
# Noise cannot be amplified below what float32 itself rounds to, so M = 1 there.
SINGLE = Precision(2.0**-24, 1.0, 32.0)
QUICK_REPLICAS, CONFIRM_REPLICAS, FINE_REPLICAS = 6, 32, 16
# After the glance a batch is measured so many times at once. Each row has noise of its own, but
# what is computed from the parameters alone is rounded once a run, and what a law averages over the
# batch is averaged over its copies as well (the response shrinks by the root of their number, of
# which k has room): copies are few, and runs stay several.
STACKED, STACKED_HIGH, STACKED_ROWS = 2, 3, 256
# The larger batch must give the residual of the batch itself, to this share and this many units in
# the last place.
ALIKE, ALIKE_UNITS = 0.25, 1024.0
# A first glance: this many runs settle residuals that are this many times smaller than what they
# allow, or larger.
GLANCE_REPLICAS, GLANCE_FACTOR, CLEAR_FACTOR = 2, 4.0, 1000.0

HELD, VIOLATED, UNDECIDED, DROPPED, TRIVIAL = "held", "violated", "undecided", "dropped", "trivial"


@dataclass(frozen=True)
class Judgement:
    """One outcome per point, with the numbers behind it; all arrays are ``(batch,)``."""

    outcome: Array
    residual: Array
    allowed: Array
    explained: Array
    scale: Array
    replicas: int
    precision: Precision
    reason: str = ""
    acquitted: bool = False  # by a second oracle, for the point that violated most

    @property
    def margin(self) -> Array:
        """Residual over allowed; inf where nothing is allowed or the residual is not finite."""
        with np.errstate(all="ignore"):
            ratio = self.residual / self.allowed
        return np.where(np.isfinite(ratio), ratio, np.where(self.residual == 0, 0.0, np.inf))

    def worst(self) -> int:
        """The violated point with the largest finite margin, else any violated point."""
        margin = np.where(self.outcome == VIOLATED, self.margin, -1.0)
        finite = np.where(np.isfinite(margin), margin, -1.0)
        return int(finite.argmax() if (finite > 0).any() else margin.argmax())

    def evidence(self, row: int) -> Evidence:
        """The numbers of one point."""
        return Evidence(
            residual=float(self.residual[row]),
            allowed=float(self.allowed[row]),
            scale=float(self.scale[row]),
            unit=self.precision.unit,
            explained=float(self.explained[row]),
            replicas=self.replicas,
        )


def judge(
    law: Law,
    subject: Subject,
    batch: Batch,
    residual: Residual,
    precision: Precision = DOUBLE,
    replicas: int = QUICK_REPLICAS,
    seed: int = 0,
) -> Judgement:
    """Judge every point of a measured residual."""
    size = residual.per_row()
    rows = len(size)
    scale = np.broadcast_to(np.asarray(residual.scale, dtype=np.float64), (rows,))
    extra = np.broadcast_to(np.asarray(residual.allowed, dtype=np.float64), (rows,))
    zero = np.zeros(rows)
    if law.tolerance in (EXACT, BOUND, STATISTICAL):
        allowed = extra if law.tolerance != EXACT else zero
        outcome = np.where(size <= allowed, HELD, VIOLATED)
        verdict = Judgement(outcome, size, allowed, zero, scale, 0, precision, residual.note)
        return _masked(verdict, residual)
    screened = size <= SCREEN * precision.unit * scale + extra
    allowed = SCREEN * precision.unit * scale + extra
    verdict = Judgement(
        np.where(screened, HELD, UNDECIDED), size, allowed, zero, scale, 0, precision
    )
    if screened.all():
        return _masked(verdict, residual)
    open_rows = ~screened & ~residual.silent
    if not open_rows.any():
        return _masked(verdict, residual)
    if subject.noise is None:
        return _masked(replace(verdict, reason="no random rounding is available for it"), residual)
    response = Response(law, subject, batch, residual, open_rows, precision, seed)
    # Most residuals are far from what a glance allows; only the others pay for the full number of
    # runs.
    response.runs(GLANCE_REPLICAS)
    glance = _against(verdict, residual, batch, response, open_rows, extra)
    clear = (glance.outcome == HELD) & (GLANCE_FACTOR * size <= glance.allowed)
    if replicas <= QUICK_REPLICAS:  # an accusation is confirmed by many more
        clear |= (
            (glance.outcome == VIOLATED)
            & np.isfinite(size)
            & (size >= CLEAR_FACTOR * glance.allowed)
        )
    if (clear | ~open_rows | screened).all():
        return _masked(glance, residual)
    response.runs(
        replicas - GLANCE_REPLICAS, STACKED if replicas <= FINE_REPLICAS else STACKED_HIGH
    )
    return _masked(_against(verdict, residual, batch, response, open_rows, extra), residual)


def guess(law: Law, residual: Residual, like: Evidence, precision: Precision) -> Judgement:
    """A judgement without noise, by the allowance of a point already judged: good enough to sort
    candidates.
    """
    size = residual.per_row()
    scale = np.broadcast_to(np.asarray(residual.scale, dtype=np.float64), size.shape)
    extra = np.broadcast_to(np.asarray(residual.allowed, dtype=np.float64), size.shape)
    grown = like.allowed * np.maximum(1.0, scale / like.scale if like.scale > 0 else 1.0)
    allowed = extra if law.tolerance != ROUNDING else np.maximum(grown, extra)
    outcome = np.where(size <= allowed, HELD, VIOLATED)
    return _masked(
        Judgement(outcome, size, allowed, np.zeros(len(size)), scale, 0, precision), residual
    )


class Response:
    """How the residual of a batch answers to noise, gathered run by run.

    Noise seeds are a hash of the seed and the input bytes, so that they do not depend on what was
    measured before.
    """

    def __init__(
        self,
        law: Law,
        subject: Subject,
        batch: Batch,
        residual: Residual,
        rows: Array,
        precision: Precision,
        seed: int,
    ) -> None:
        self.law, self.subject, self.batch, self.rows, self.precision = (
            law,
            subject,
            batch,
            rows,
            precision,
        )
        self.base = np.asarray(residual.value, dtype=np.float64).reshape(len(batch.x), -1)
        self.digest = seed_of(
            seed, law.key, batch.x.tobytes().hex() if batch.x.size < 4096 else batch.x.sum()
        )
        self.total = np.zeros_like(self.base)
        self.finite = np.zeros(len(self.base), dtype=np.int64)
        self.replicas = self.made = 0

    @property
    def size(self) -> Array:
        """Root mean square change of the residual of each row, ``(batch,)``."""
        rms = np.sqrt(self.total / max(1, self.replicas))
        return np.asarray(rms.max(1) if rms.shape[1] else np.zeros(len(rms)))

    def runs(self, replicas: int, fold: int = 1) -> None:
        """At least so many replicas more; ``fold`` of them at once in one larger batch, where that
        is the same.
        """
        found = self._stacked(fold) if fold > 1 and fold * len(self.base) <= STACKED_ROWS else None
        stack, clean = found or (self.batch, self.base[None])
        fold = len(clean)
        every = np.tile(self.rows, fold)
        magnitude = self.precision.amplify * self.precision.unit
        assert self.subject.noise is not None
        for _ in range(-(-replicas // fold)):
            with (
                self.subject.noise(seed_of(self.digest, self.made), magnitude),
                np.errstate(all="ignore"),
            ):
                noisy = _noisy(
                    self.law, self.subject, stack, (len(stack.x), self.base.shape[1]), every
                )
            noisy = noisy.reshape(clean.shape)
            with np.errstate(all="ignore"):
                change = np.where(np.isfinite(noisy) & np.isfinite(clean), noisy - clean, 0.0)
                self.total += (change**2).sum(0)
            self.finite += np.isfinite(noisy).all(2).sum(0)
            self.replicas += fold
            self.made += 1

    def _stacked(self, fold: int) -> tuple[Batch, Array] | None:
        """The batch several times over, and its residual without noise; None where that is not the
        residual of the batch:
        where rows depend on how many there are.
        """
        stack = self.batch.rows(np.tile(np.arange(len(self.base)), fold))
        try:
            with np.errstate(all="ignore"):
                residual = self.law.measure(self.subject, stack._replace(x=stack.x.copy()))
                clean = np.asarray(residual.value, dtype=np.float64).reshape(fold, *self.base.shape)
                scale = np.broadcast_to(
                    np.asarray(residual.scale, dtype=np.float64), (len(stack.x),)
                )
                near = ALIKE_UNITS * self.precision.unit * scale.reshape(
                    fold, -1, 1
                ) + ALIKE * np.abs(self.base)
                alike = (np.abs(clean - self.base) <= near) | ~np.isfinite(
                    self.base
                ) & ~np.isfinite(clean)
        except Exception:  # a batch of this size is refused
            return None
        return (stack, clean) if alike[:, self.rows].all() else None


def _noisy(law: Law, subject: Subject, batch: Batch, shape: tuple[int, ...], rows: Array) -> Array:
    """The residual under the noise that is on. Where rounding pushes a point over the edge of a
    domain and the call raises, the rows in question are measured in halves, and those that raise
    alone come back as nan.
    """
    try:
        return np.asarray(law.measure(subject, batch).value, dtype=np.float64).reshape(shape)
    except Undecidable:
        raise
    except Exception:
        if len(batch.x) == 1:
            return np.full(shape, np.nan)
    noisy = np.full(shape, np.nan)
    wanted = np.flatnonzero(rows)
    for half in (wanted[: len(wanted) // 2], wanted[len(wanted) // 2 :]):
        if len(half):
            every = np.ones(len(half), dtype=bool)
            noisy[half] = _noisy(law, subject, batch.rows(half), (len(half), *shape[1:]), every)
    return noisy


def _against(
    verdict: Judgement,
    residual: Residual,
    batch: Batch,
    responded: Response,
    open_rows: Array,
    extra: Array,
) -> Judgement:
    precision, size, scale = verdict.precision, verdict.residual, verdict.scale
    response, finite, replicas = responded.size, responded.finite, responded.replicas
    linear = (
        response <= RESPONSE_LIMIT * scale
        if precision.amplify > 1
        else np.ones(len(size), dtype=bool)
    )
    explained = precision.factor * np.where(linear, response / precision.amplify, response)
    allowed = explained + precision.factor * precision.unit * scale / 4 + extra
    steady = finite == replicas
    is_finite = np.isfinite(size)
    violated = is_finite & steady & (size > allowed)
    held = is_finite & steady & linear & ~violated
    # A value that never is finite, whatever the rounding, at a point of ordinary size: rounding is
    # no excuse.
    flat = np.abs(batch.x).reshape(len(size), -1)
    ordinary = (flat.max(1) if flat.shape[1] else np.zeros(len(size))) <= FINITE_REACH
    violated |= ~is_finite & (finite == 0) & ordinary & np.isfinite(scale) & (scale <= FINITE_SCALE)
    outcome = np.where(violated, VIOLATED, np.where(held, HELD, UNDECIDED))
    return replace(
        verdict,
        outcome=np.where(open_rows, outcome, verdict.outcome),
        allowed=np.where(open_rows, allowed, verdict.allowed),
        explained=np.where(open_rows, explained, 0.0),
        replicas=replicas,
        reason="rounding alone moves the result too much to tell",
    )


def _masked(verdict: Judgement, residual: Residual) -> Judgement:
    """Rows about which the law says nothing, and rows that hold whatever the subject does."""
    outcome = verdict.outcome.astype(object)
    if residual.trivial is not None:
        outcome[(outcome == HELD) & np.asarray(residual.trivial, dtype=bool)] = TRIVIAL
    # An excuse is needed only where something is not held.
    unheld = residual.excused is None or ((outcome != HELD) & (outcome != TRIVIAL)).any()
    silent = residual.silent if unheld else replace(residual, excused=None).silent
    outcome[silent] = DROPPED
    return replace(verdict, outcome=outcome)
