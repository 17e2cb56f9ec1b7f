"""Random bits of JAX as numpy computes them: bit for bit those of its default generator, which takes long
to compile for each number of samples.

Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (2011), Threefry-2x32
with 20 rounds; JAX counts entries in row-major order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)


def random_bits(equation: Any) -> Callable[..., Any] | None:
    """`random_bits`: a key, or an array of keys, and the shape of what each of them gives."""
    params, keys = equation.params, equation.invars[0].aval
    generator = getattr(getattr(keys.dtype, "_impl", None), "name", "")
    if generator != "threefry2x32" or not jax.config.jax_threefry_partitionable:  # type: ignore[attr-defined]
        return None
    width, shape = params["bit_width"], tuple(params["shape"])
    if width not in (8, 16, 32, 64):
        return None

    def run(key: Any) -> Any:
        halves = np.asarray(jax.random.key_data(key)).reshape(*keys.shape, 1, 2)
        count = np.arange(math.prod(shape), dtype=np.uint64)
        high, low = threefry(
            halves[..., 0],
            halves[..., 1],
            (count >> np.uint64(32)).astype(np.uint32),
            count.astype(np.uint32),
        )
        if width == 64:
            bits = (high.astype(np.uint64) << np.uint64(32)) | low
        else:
            bits = (high ^ low).astype(f"uint{width}")
        return bits.reshape(*keys.shape, *shape)

    return run


def threefry(first: Any, second: Any, high: Any, low: Any) -> tuple[Any, Any]:
    """The hash of pairs of 32-bit words under a key of two."""
    keys = (first, second, first ^ second ^ PARITY)
    x, y = high + keys[0], low + keys[1]
    for number in range(5):
        for turn in ROTATIONS[number % 2]:
            x = x + y
            y = (y << np.uint32(turn)) | (y >> np.uint32(32 - turn))
            y = x ^ y
        x = x + keys[(number + 1) % 3]
        y = y + keys[(number + 2) % 3] + np.uint32(number + 1)
    return x, y
