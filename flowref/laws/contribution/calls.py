"""Calls of kernels under seeds, and means of their weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowref.laws.common.outcomes import finite, log_det
from flowref.laws.common.probes import accepted
from flowref.model import (
    Array,
    Batch,
    Mapped,
    Undecidable,
    Unsupported,
    per_point,
)
from flowref.model.abilities import Pushing


def contribution(out: Mapped, rows: int) -> Array:
    """What a call contributed, one number a row; `Unsupported` where it returned nothing."""
    if out.ladj is None:
        raise Unsupported("it returns no contribution")
    return per_point(out.ladj, rows)


def measurable(flow: Pushing, batch: Batch, largest: float = math.inf) -> tuple[Batch, Array]:
    """The batch with those points whose latents or contribution are no numbers, or whose contribution is
    not below ``largest``, replaced by one of which they are; and which points were kept, ``(rows,)``.

    What is infinite in a row makes sums over all of them no number, and a batch keeps its size, since
    random numbers are drawn for all rows together.
    """
    rows = len(batch.x)
    x, refused = accepted(flow.push, batch.x, batch.seed, batch.context)
    if x is None:
        raise Undecidable(f"forward refuses its points ({refused})")
    out = flow.push(x, batch.seed, batch.context)
    good = finite(out, rows) & (np.abs(log_det(out, rows)) < largest)
    if not good.any():
        raise Undecidable("no row could be measured: none has a contribution of ordinary size")
    index = np.where(good, np.arange(rows), np.flatnonzero(good)[0])
    return Batch(x, batch.context, batch.seed).rows(index), good


class Given:
    """A kernel at one context, which every row is given; as it is where it takes none."""

    def __init__(self, flow: Pushing, batch: Batch) -> None:
        self.flow, self.context = flow, batch.context

    def __getattr__(self, name: str) -> Any:
        return None if name == "context_shape" else getattr(self.flow, name)

    def push(self, x: Array, seed: int, context: Array | None = None) -> Mapped:
        """The kernel's own, at the context."""
        return self.flow.push(x, seed, self._repeated(len(x)))

    @property
    def pull(self) -> Any:
        """The kernel's own, at the context; None where it goes only one way."""
        call = getattr(self.flow, "pull", None)
        return None if call is None else lambda z, seed, _: call(z, seed, self._repeated(len(z)))

    def _repeated(self, rows: int) -> Array | None:
        return None if self.context is None else np.repeat(self.context[:1], rows, 0)


def guarded(
    log_weights: Array, heaviest: float = 0.02, effective: float = 200.0
) -> tuple[float, float]:
    """The mean of weights and its standard error; `Undecidable` where a few of them decide."""
    log_weights = np.asarray(log_weights, dtype=np.float64)
    if np.isnan(log_weights).any() or (log_weights == np.inf).any():
        raise Undecidable("a contribution is no number")
    top = float(log_weights.max())
    if top == -np.inf:
        raise Undecidable("no drawn point has a weight")
    w = np.exp(log_weights - top)
    total = float(w.sum())
    if w.max() > heaviest * total or total**2 < effective * float((w**2).sum()):
        raise Undecidable("a few points hold most of the weight")
    scale = math.exp(min(top, 600.0))
    return float(w.mean()) * scale, float(w.std()) / math.sqrt(len(w)) * scale


def at_least(log_weights: Array, most: float, heaviest: float = 0.02) -> tuple[float, float] | None:
    """A mean that is no larger than that of the weights, and its standard error: of weights above
    ``most`` only so much counts. None where these few points decide even then.

    However heavy the tail of weights is, those that are cut are bounded, so that what they are too
    much by is known where their own mean is not.
    """
    with np.errstate(over="ignore"):
        w = np.minimum(np.exp(np.asarray(log_weights, dtype=np.float64)), most)
    if np.isnan(w).any() or w.max() > heaviest * w.sum():
        return None
    return float(w.mean()), float(w.std()) / math.sqrt(w.size)
