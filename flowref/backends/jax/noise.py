"""What random rounding does to a number: it is multiplied by 1 + magnitude * xi, xi uniform in
[-1, 1]. The xi come from a pool that the caller draws; each operation reads a stretch of it at an
offset of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from flowref.backends.jax.primitives import NORMWISE_CONSTANT

# Uniform numbers of one run; larger arrays meet them again from another start.
POOL = 2**14
# Of single precision in a program of double precision: how much coarser its units are.
COARSER = 2.0**29


class Noise:
    """A stream of uniform numbers in [-1, 1], and the magnitude that they are scaled by; both traced.

    ``start``: where in the pool the stream begins, a number outside of loops and traced inside of
    them (an iteration begins elsewhere than the one before). ``only``: the dtypes that are rounded,
    all floating ones if empty. ``single``: whether results in single precision are rounded by units
    of that.
    """

    def __init__(
        self,
        pool: Any,
        magnitude: Any,
        start: Any = 0,
        sites: Iterator[int] | None = None,
        only: tuple[str, ...] = (),
        single: bool = False,
    ) -> None:
        self.pool, self.magnitude, self.start = pool, magnitude, start
        self.sites = itertools.count(1) if sites is None else sites
        self.only, self.single = only, single

    def concerns(self, value: Any) -> bool:
        """Whether results of this type are rounded."""
        dtype = getattr(value, "dtype", None)
        if dtype is None or not math.prod(getattr(value, "shape", (0,))):
            return False
        if self.only:
            return str(dtype) in self.only
        return bool(jnp.issubdtype(dtype, jnp.inexact))

    def uniform(self, shape: Sequence[int], dtype: Any) -> Any:
        """Numbers for one array; each call reads elsewhere."""
        size = math.prod(shape)
        # A multiple of an odd constant: offsets of neighboring sites look unrelated.
        offset = next(self.sites) * 40503 % POOL
        begin = (self.start + offset) % POOL
        if size > POOL // 2:
            drawn = self.pool[(jnp.arange(size) + begin) % POOL]
        elif isinstance(begin, int):  # the pool stands twice in a row, so no stretch ends beyond it
            drawn = lax.slice(self.pool, (begin,), (begin + size,))
        else:
            drawn = lax.dynamic_slice(self.pool, (begin,), (size,))
        return drawn.reshape(tuple(shape)).astype(dtype)

    def within(self, iteration: Any) -> Noise:
        """The stream of one iteration of a loop."""
        start = (self.start + iteration * 7919 + 1) % POOL
        return Noise(self.pool, self.magnitude, start, self.sites, self.only, self.single)

    def size(self, dtype: Any, constant: float) -> Any:
        """The relative error of results of a dtype."""
        coarse = self.single and dtype == jnp.float32
        return (constant * (COARSER if coarse else 1.0) * self.magnitude).astype(dtype)

    def rounded(self, value: Any, constant: float = 1.0) -> Any:
        """A value with a relative error; inf and nan stay what they are."""
        if not self.concerns(value):
            return value
        real = jnp.real(value).dtype
        xi = self.uniform(value.shape, real)
        if jnp.issubdtype(value.dtype, jnp.complexfloating):
            xi = xi + 1j * self.uniform(value.shape, real)
        return value * (1 + self.size(real, constant) * xi)

    def normwise(self, value: Any, axes: tuple[int, ...]) -> Any:
        """A value with an error relative to its largest entry along some axes."""
        if not self.concerns(value) or value.ndim < len(axes):
            return value
        largest = jnp.abs(value).max(axis=axes, keepdims=True)
        real = largest.dtype
        error = self.size(real, NORMWISE_CONSTANT) * largest * self.uniform(value.shape, real)
        if jnp.issubdtype(value.dtype, jnp.complexfloating):
            error = error * (1 + 1j * self.uniform(value.shape, real))
        return value + error.astype(value.dtype)


def pool_of(seed: int, runs: int) -> np.ndarray[Any, Any]:
    """The numbers that each of several runs reads, ``(runs, numbers)``; the same in every process."""
    generator = np.random.Generator(np.random.SFC64(seed))
    drawn = generator.random((runs, POOL)) * 2 - 1
    return np.concatenate([drawn, drawn], axis=1)
