"""An object in one condition: programs that it shares with others, and arrays of its own.

Torch's backend lends copies; a pytree cannot change, so every call is as if made on a fresh copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from flowref.backends.jax import operation_count
from flowref.backends.jax.programs import Programs
from flowref.backends.jax.sandbox import jax_sandbox
from flowref.backends.process import standing_in
from flowref.backends.result_cache import KEPT
from flowref.model import Array, Dialect, Facts, Support, derive

_COUNTED = itertools.count()


@dataclass
class Live:
    """An object in one condition. ``moving``: for each array, whether training moves it."""

    programs: Programs
    leaves: list[Any]
    dialect: Dialect
    facts: Facts
    dtype: str
    seed: int
    moving: list[bool]
    resolve: Callable[[Any], Dialect | None]
    rounding: tuple[int, float] | None = None
    given: Any = None  # the object as it was built
    # Distinguishes cached results of the same object with other arrays.
    number: int = field(default_factory=_COUNTED.__next__, init=False)

    @property
    def object(self) -> Any:
        """The object with its arrays."""
        return self.programs.tree.filled(self.leaves)

    def having(self, leaves: list[Any]) -> Live:
        """The same with other arrays."""
        return replace(self, leaves=leaves)

    @contextlib.contextmanager
    def calling(self, dtype: str = "") -> Iterator[None]:
        """The circumstances of one call: fixed random states, and 64-bit types only if needed."""
        with jax_sandbox(derive(self.seed, 17), dtype or self.dtype), np.errstate(all="ignore"):
            yield

    def directions(self, seed: int) -> list[Any]:
        """A standard normal direction of the arrays that training moves; zeros elsewhere."""
        rng = np.random.default_rng(seed % 2**63)
        return [
            jnp.asarray(rng.standard_normal(leaf.shape), leaf.dtype)
            if moves
            else jnp.zeros_like(leaf)
            for leaf, moves in zip(self.leaves, self.moving, strict=True)
        ]

    def support_of(self, name: str) -> Support | None:
        """The declared set that the points of a call come from, or None."""
        if name in ("forward", "cdf"):
            return self.facts.domain
        return self.facts.codomain if name == "inverse" else None

    def points(self, x: Array, stream: int, support: Support | None, place: int = 0) -> Array:
        """Inputs ``(n, *event)`` in the subject's dtype; under noise they are jittered, so that
        kinks and zeros are seen. ``support``: points in it stay in it.
        """
        plain = np.array(x, dtype=np.float64)
        if self.rounding is None:
            return plain.astype(self.dtype)
        seed, magnitude = self.rounding
        flat = plain.reshape(len(plain), -1)
        rng = np.random.default_rng(derive(seed, stream, place))
        largest = np.abs(flat).max(1, keepdims=True) if flat.shape[1] else flat
        size = np.abs(flat) + 2.0**-6 * largest + 2.0**-20
        moved = flat + magnitude * size * (2 * rng.random(flat.shape) - 1)
        if support is not None and support.has_end:
            low, high = support.ends
            inside = (flat > low) & (flat < high)
            moved = np.where(inside & ((moved <= low) | (moved >= high)), flat, moved)
        return moved.reshape(plain.shape).astype(self.dtype)

    def evaluate(self, name: str, x: Array, context: Array | None = None, *more: Any) -> Any:
        """The result of a call at ``x`` ``(n, *event)``, or of a derivative of one; cached."""
        digest = call_digest(name, (x, context, *more))
        key = (self.number, self.rounding, digest)
        return KEPT.get(key, lambda: self._evaluate(name, digest, x, context, more))

    def _evaluate(
        self, name: str, digest: int, x: Array, context: Array | None, more: tuple[Any, ...]
    ) -> Any:
        kind, _, which = name.rpartition(" ")
        with self.calling():
            points = self.points(x, digest, None if kind == "pull x" else self.support_of(which))
            given = None if context is None else self.points(context, digest, None, 1)
            if self.rounding is None:
                if operation_count.COUNTERS and not kind:
                    operation_count.count(self.programs.pair(name), self.leaves, points, given)
                return self.programs.run(name, self.leaves, points, given, *more)
            own = derive(self.rounding[0], digest), self.rounding[1]
            return self.programs.in_steps(name, self.leaves, own, points, given, *more)


def call_digest(name: str, inputs: tuple[Any, ...]) -> int:
    """A 63-bit digest of a call, the same in every process."""
    digest = hashlib.sha256(name.encode())
    for value in inputs:
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        else:
            digest.update(repr(value).encode())
    return int.from_bytes(digest.digest()[:8], "big") >> 1


def noise(live: Live, seed: int, magnitude: float) -> contextlib.AbstractContextManager[None]:
    """Inside, everything that the subject computes is randomly rounded."""
    return standing_in(live, rounding=(seed, magnitude))
