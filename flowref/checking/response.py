"""The response of a residual to random rounding, accumulated over runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowref.checking.measurement import Measurement
from flowref.model import Array, Batch, Law, Subject, Undecidable, seed_of
from flowref.model.budget import current_budget

# A batch repeated up to this many rows serves as several runs: each row has its own noise, but results
# of the parameters alone are rounded once per run, and averages over the batch are averaged over the
# copies too (the response shrinks by the root of their number, within k). So copies are few.
STACKED_ROWS = 256
# Relative tolerance, and units in the last place, to which the repeated batch must give the same residual.
ALIKE, ALIKE_UNITS = 0.25, 1024.0
# The fewest runs (or a quarter of those requested); then runs end at this share of the pair's work left.
LEAST_RUNS, SHARE = 3, 0.1
# Smaller batches seed the noise by all their bytes, larger ones by their sum.
NAMED_WHOLE = 4096


class Response:
    """The changes of a residual under noise, summed over runs; ``rows``: mask of the rows in
    question.

    In a first judgement the noise depends on the run and each call's inputs only, so that laws with
    the same calls share them (`Subject.noise`). With a ``purpose``, as in a confirmation, it also
    depends on the law and the input bytes.
    """

    def __init__(self, measurement: Measurement, rows: Array, purpose: str = "") -> None:
        batch = measurement.batch
        self.measurement, self.rows = measurement, rows
        self.base = np.asarray(measurement.residual.value, dtype=np.float64).reshape(
            len(batch.x), -1
        )
        self.digest = seed_of(measurement.root, "runs")
        if purpose:
            inputs = batch.x.tobytes().hex() if batch.x.size < NAMED_WHOLE else batch.x.sum()
            seed = seed_of(measurement.seed, purpose)
            self.digest = seed_of(seed, measurement.law.key, inputs)
        self.total = np.zeros_like(self.base)
        self.sum, self.squares = np.zeros_like(self.base), np.zeros_like(self.base)
        self.finite = np.zeros(len(self.base), dtype=np.int64)
        self.replicas = self.runs_made = 0
        self.echo = self._shortcut()

    @property
    def size(self) -> Array:
        """Root mean square change of the residual of each row, ``(batch,)``."""
        rms = np.sqrt(self.total / max(1, self.replicas))
        return np.asarray(rms.max(1) if rms.shape[1] else np.zeros(len(rms)))

    @property
    def around(self) -> Array:
        """Absolute mean of each row's residual under noise, and its deviation over runs, ``(2,
        batch)``: the neighborhood, whatever the point itself shows.
        """
        count = max(1, self.replicas)
        with np.errstate(all="ignore"):
            mean = self.sum / count
            spread = np.sqrt(np.maximum(self.squares / count - mean**2, 0.0))
        if not mean.shape[1]:
            return np.zeros((2, len(mean)))
        return np.stack([np.abs(mean).max(1), spread.max(1)])

    @property
    def steady(self) -> Array:
        """Mask of rows whose residual was finite in every run, ``(batch,)``."""
        return np.asarray(self.finite == self.replicas)

    def runs(self, replicas: int, fold: int = 1) -> None:
        """Make at least ``replicas`` more runs, ``fold`` of them at once in one larger batch if
        that gives the same residual.
        """
        law, subject = self.measurement.law, self.measurement.subject
        if self.echo is not None:
            self._shortcut_runs(replicas)
            return
        fits = fold > 1 and fold * len(self.base) <= STACKED_ROWS and not subject.cost.heavy
        stacked = self._stacked(fold) if fits else None
        stack, clean = stacked or (self.measurement.batch, self.base[None])
        fold = len(clean)
        every = np.tile(self.rows, fold)
        magnitude = self.measurement.precision.amplify * self.measurement.precision.unit
        assert subject.noise is not None
        began, least = current_budget().left, max(LEAST_RUNS, replicas // 4)
        for _ in range(-(-replicas // fold)):
            if self.runs_made >= least and began - current_budget().left > SHARE * began:
                break
            seed = seed_of(self.digest, self.runs_made)
            shape = (len(stack.x), self.base.shape[1])
            with subject.noise(seed, magnitude), np.errstate(all="ignore"):
                noisy = _noisy(law, subject, stack, shape, every).reshape(clean.shape)
            with np.errstate(all="ignore"):
                change = np.where(np.isfinite(noisy) & np.isfinite(clean), noisy - clean, 0.0)
                self.total += (change**2).sum(0)
                there = np.where(np.isfinite(noisy), noisy, 0.0)
                self.sum += there.sum(0)
                self.squares += (there**2).sum(0)
            self.finite += np.isfinite(noisy).all(2).sum(0)
            self.replicas += fold
            self.runs_made += 1

    def _shortcut(self) -> Callable[[], Array] | None:
        """The law's shortcut for its change under noise; None if it has none or a residual in
        question is not finite.
        """
        law, batch = self.measurement.law, self.measurement.batch
        if law.echo is None or not np.isfinite(self.base[self.rows]).all():
            return None
        try:
            with np.errstate(all="ignore"):
                return law.echo(self.measurement.subject, batch._replace(x=batch.x.copy()))
        except Exception:  # then the law itself is measured
            return None

    def _shortcut_runs(self, replicas: int) -> None:
        subject, precision = self.measurement.subject, self.measurement.precision
        assert self.echo is not None
        assert subject.noise is not None
        for _ in range(replicas):
            seed = seed_of(self.digest, self.runs_made)
            magnitude = precision.amplify * precision.unit
            with subject.noise(seed, magnitude), np.errstate(all="ignore"):
                moved = np.asarray(self.echo(), dtype=np.float64)[:, None]
            there = np.where(np.isfinite(moved), moved, 0.0)
            with np.errstate(all="ignore"):
                self.total += there**2
                self.sum += there
                self.squares += there**2
            self.finite += np.isfinite(moved[:, 0])
            self.replicas += 1
            self.runs_made += 1

    def _stacked(self, fold: int) -> tuple[Batch, Array] | None:
        """The batch repeated ``fold`` times and its residual without noise, ``(fold, n, ...)``;
        None if rows depend on the batch size.
        """
        law, subject = self.measurement.law, self.measurement.subject
        stack = self.measurement.batch.rows(np.tile(np.arange(len(self.base)), fold))
        try:
            with np.errstate(all="ignore"):
                residual = law.measure(subject, stack._replace(x=stack.x.copy()))
                clean = np.asarray(residual.value, dtype=np.float64).reshape(fold, *self.base.shape)
                scale = np.asarray(residual.scale, dtype=np.float64)
                scale = np.broadcast_to(scale, (len(stack.x),)).reshape(fold, -1, 1)
                units = ALIKE_UNITS * self.measurement.precision.unit
                near = np.abs(clean - self.base) <= units * scale + ALIKE * np.abs(self.base)
                alike = near | ~np.isfinite(self.base) & ~np.isfinite(clean)
        except Exception:  # a batch of this size is refused
            return None
        return (stack, clean) if alike[:, self.rows].all() else None


def _noisy(law: Law, subject: Subject, batch: Batch, shape: tuple[int, ...], rows: Array) -> Array:
    """The residual under the active noise. If a rounded point leaves a domain and the call raises,
    the rows in question are measured in halves; those that raise alone are nan.
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
