"""Calls of kernels under seeds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowref.laws.common.outcomes import attempt, finite_outcome_rows, row_log_dets
from flowref.laws.common.probes import accepted
from flowref.model import Array, Batch, Mapped, Undecidable, Unsupported, per_point
from flowref.model.abilities import Pushing, TwoWay


def contribution(out: Mapped, rows: int) -> Array:
    """What a call contributed, one number a row; `Unsupported` where it returned nothing."""
    if out.ladj is None:
        raise Unsupported("it returns no contribution")
    return per_point(out.ladj, rows)


def stochastic_forward(
    flow: Pushing, x: Array, seed: int, what: str = "ordinary points"
) -> tuple[Array, Array]:
    """Latents of data, and what was contributed. Raises `Undecidable` where ``what`` they are is refused."""
    out, refused = attempt(flow.push, x, seed, None)
    if refused:
        raise Undecidable(f"forward refuses {what} ({refused})")
    return np.asarray(out.value, dtype=np.float64), contribution(out, len(x))


def stochastic_inverse(flow: TwoWay, z: Array, seed: int) -> Mapped:
    """What the inverse makes of latents. Raises `Undecidable` where these are refused."""
    out, refused = attempt(flow.pull, z, seed, None)
    if refused:
        raise Undecidable(f"inverse refuses points of the declared codomain ({refused})")
    return out


def data_of(flow: TwoWay, z: Array, seed: int) -> Array:
    """Data of latents. Raises `Undecidable` where these are refused, or not finite."""
    x = np.asarray(stochastic_inverse(flow, z, seed).value, dtype=np.float64)
    if not np.isfinite(x).all() or x.shape != (len(z), *flow.event_shape):
        raise Undecidable("inverse gives no finite data of the shape of events")
    return x


def accepted_points(flow: Pushing, batch: Batch) -> Array:
    """The points of a batch, with those that forward refuses replaced by one that it takes."""
    x, refused = accepted(flow.push, batch.x, batch.seed, batch.context)
    if x is None:
        raise Undecidable(f"forward refuses its points ({refused})")
    return x


def measurable(flow: Pushing, batch: Batch, largest: float = math.inf) -> tuple[Batch, Array]:
    """The batch with those points whose latents or contribution are no numbers, or whose contribution is
    not below ``largest``, replaced by one of which they are; and which points were kept, ``(rows,)``.

    What is infinite in a row makes sums over all of them no number, and a batch keeps its size, since
    random numbers are drawn for all rows together.
    """
    rows, x = len(batch.x), accepted_points(flow, batch)
    out = flow.push(x, batch.seed, batch.context)
    good = finite_outcome_rows(out, rows) & (np.abs(row_log_dets(out, rows)) < largest)
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
