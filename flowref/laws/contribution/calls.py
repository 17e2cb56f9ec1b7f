"""Calls of stochastic layers under fixed seeds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowref.laws.common.outcomes import attempt, finite_outcome_rows, row_log_dets
from flowref.laws.common.probes import accepted
from flowref.model import Array, Batch, Mapped, Undecidable, Unsupported, per_point
from flowref.model.abilities import Pushing, TwoWay


def contribution(out: Mapped, rows: int) -> Array:
    """The likelihood contribution of a call, ``(rows,)``. Raises `Unsupported` if none is
    returned.
    """
    if out.ladj is None:
        raise Unsupported("it returns no contribution")
    return per_point(out.ladj, rows)


def stochastic_forward(
    flow: Pushing, x: Array, seed: int, what: str = "ordinary points"
) -> tuple[Array, Array]:
    """Latents ``(n, *latent)`` and contributions ``(n,)`` of data. Raises `Undecidable` if forward
    rejects them; ``what`` names them.
    """
    out, refused = attempt(flow.push, x, seed, None)
    if refused:
        raise Undecidable(f"forward refuses {what} ({refused})")
    return np.asarray(out.value, dtype=np.float64), contribution(out, len(x))


def stochastic_inverse(flow: TwoWay, z: Array, seed: int) -> Mapped:
    """The result of inverse for latents. Raises `Undecidable` if it rejects them."""
    out, refused = attempt(flow.pull, z, seed, None)
    if refused:
        raise Undecidable(f"inverse refuses points of the declared codomain ({refused})")
    return out


def data_of(flow: TwoWay, z: Array, seed: int) -> Array:
    """Data ``(n, *event)`` of latents. Raises `Undecidable` if inverse rejects them, or data are
    not finite.
    """
    x = np.asarray(stochastic_inverse(flow, z, seed).value, dtype=np.float64)
    if not np.isfinite(x).all() or x.shape != (len(z), *flow.event_shape):
        raise Undecidable("inverse returns no finite data of the shape of events")
    return x


def accepted_points(flow: Pushing, batch: Batch) -> Array:
    """The points of a batch, ``(n, *event)``, with those that forward rejects replaced by an
    accepted one. Raises `Undecidable` if it rejects all.
    """
    x, refused = accepted(flow.push, batch.x, batch.seed, batch.context)
    if x is None:
        raise Undecidable(f"forward refuses its points ({refused})")
    return x


def measurable(flow: Pushing, batch: Batch, largest: float = math.inf) -> tuple[Batch, Array]:
    """The batch with a usable point in place of those whose latents or contribution are not
    finite, or whose contribution is not below ``largest``; and the rows that were kept,
    ``(rows,)``.

    One infinite row would dominate sums over all rows. The batch keeps its size, since random
    numbers are drawn for all rows together.
    """
    rows, x = len(batch.x), accepted_points(flow, batch)
    out = flow.push(x, batch.seed, batch.context)
    good = finite_outcome_rows(out, rows) & (np.abs(row_log_dets(out, rows)) < largest)
    if not good.any():
        raise Undecidable("no row could be measured: none has a contribution of ordinary size")
    index = np.where(good, np.arange(rows), np.flatnonzero(good)[0])
    return Batch(x, batch.context, batch.seed).rows(index), good


class Given:
    """A stochastic layer with one context fixed for all rows; unchanged if it takes none."""

    def __init__(self, flow: Pushing, batch: Batch) -> None:
        self.flow, self.context = flow, batch.context

    def __getattr__(self, name: str) -> Any:
        return None if name == "context_shape" else getattr(self.flow, name)

    def push(self, x: Array, seed: int, context: Array | None = None) -> Mapped:
        """The layer's forward call under the context."""
        return self.flow.push(x, seed, self._repeated(len(x)))

    @property
    def pull(self) -> Any:
        """The layer's inverse call under the context; None without an inverse."""
        call = getattr(self.flow, "pull", None)
        return None if call is None else lambda z, seed, _: call(z, seed, self._repeated(len(z)))

    def _repeated(self, rows: int) -> Array | None:
        return None if self.context is None else np.repeat(self.context[:1], rows, 0)
