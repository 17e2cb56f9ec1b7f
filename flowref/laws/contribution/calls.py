"""Calls of kernels under seeds, and where their latents and data are drawn for statistics."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from flowref.model import (
    Array,
    Batch,
    Mapped,
    Support,
    Undecidable,
    Unsupported,
    per_point,
)
from flowref.model.abilities import Pushing

# Degrees of freedom of proposals on the line, and how much wider they are than the data.
FREEDOM, WIDER = 5.0, 1.5


def contribution(out: Mapped, rows: int) -> Array:
    """What a call contributed, one number a row; `Unsupported` where it returned nothing."""
    if out.ladj is None:
        raise Unsupported("it returns no contribution")
    return per_point(out.ladj, rows)


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


class Points(NamedTuple):
    """A distribution on a support, entry by entry: points `(n, *shape)`, and log-densities."""

    support: Support
    shape: tuple[int, ...]
    center: Array | float = 0.0
    spread: Array | float = 1.0

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """So many points."""
        size, kind = (count, *self.shape), _kind(self.support)
        if kind == "interval":
            return np.asarray(rng.uniform(*self.support.ends, size))
        t = np.asarray(self.center) + np.asarray(self.spread) * rng.standard_t(FREEDOM, size)
        if kind == "half":
            return np.asarray(self.support.low + np.abs(t))
        return np.sort(t, -1) if kind == "ordered" else t

    def log_prob(self, x: Array) -> Array:
        """The log-density of each row."""
        kind = _kind(self.support)
        if kind == "interval":
            each = np.full(x.shape, -math.log(self.support.high - self.support.low))
        else:
            shifted = x - self.support.low if kind == "half" else x
            spread = np.asarray(self.spread, dtype=np.float64)
            each = log_t((shifted - self.center) / spread) - np.log(spread)
            each = each + (math.log(2) if kind == "half" else 0.0)
        total = each.reshape(len(x), -1).sum(1)
        orders = (
            math.prod(self.shape[:-1]) * math.lgamma(self.shape[-1] + 1) if kind == "ordered" else 0
        )
        return np.asarray(total + orders)


def log_t(t: Array) -> Array:
    """The log-density of Student's t, entry by entry."""
    constant = math.lgamma((FREEDOM + 1) / 2) - math.lgamma(FREEDOM / 2)
    constant -= 0.5 * math.log(FREEDOM * math.pi)
    return np.asarray(constant - (FREEDOM + 1) / 2 * np.log1p(t**2 / FREEDOM))


def normal_on(support: Support, shape: tuple[int, ...], z: Array) -> Array:
    """The log-density of a normalized distribution on a support: standard normal, folded or sorted
    where that is needed, and uniform on an interval; -inf outside.
    """
    kind, flat = _kind(support), z.reshape(len(z), -1)
    if kind == "interval":
        inside = ((flat >= support.low) & (flat <= support.high)).all(1)
        return np.where(inside, -flat.shape[1] * math.log(support.high - support.low), -np.inf)
    shifted = flat - support.low if kind == "half" else flat
    total = -0.5 * (shifted**2 + math.log(2 * math.pi)).sum(1)
    if kind == "half":
        total = np.where((shifted >= 0).all(1), total + flat.shape[1] * math.log(2), -np.inf)
    if kind == "ordered":
        increasing = (np.diff(z, axis=-1) >= 0).reshape(len(z), -1).all(1)
        orders = math.prod(shape[:-1]) * math.lgamma(shape[-1] + 1)
        total = np.where(increasing, total + orders, -np.inf)
    return np.asarray(total)


def drawn_on(
    support: Support, shape: tuple[int, ...], rng: np.random.Generator, count: int
) -> Array:
    """Points of the distribution of `normal_on`."""
    kind = _kind(support)
    if kind == "interval":
        return np.asarray(rng.uniform(*support.ends, (count, *shape)))
    z = rng.standard_normal((count, *shape))
    if kind == "half":
        return np.asarray(support.low + np.abs(z))
    return np.sort(z, -1) if kind == "ordered" else z


def _kind(support: Support) -> str:
    """How distributions on a support are made; `Unsupported` where none is known."""
    if support.kind == "ordered":
        return "ordered"
    if (
        support.coordinates
        or support.kind == "simplex"
        or math.isfinite(support.high)
        != (math.isfinite(support.low) and math.isfinite(support.high))
    ):
        raise Unsupported(f"no distribution is known on {support}")
    if math.isfinite(support.high):
        return "interval"
    return "half" if math.isfinite(support.low) else "line"


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
