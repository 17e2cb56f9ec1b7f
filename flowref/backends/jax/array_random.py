"""Random bits of JAX's default generator in numpy, bit for bit: compiling it takes long for each
number of samples.

Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (2011),
Threefry-2x32 with 20 rounds; JAX counts entries in row-major order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
# Numbers of gamma variables for which programs are compiled.
GAMMAS = (64, 2**12, 2**15, 2**17)
PARITY = np.uint32(0x1BD11BDA)


def random_bits(equation: Any) -> Callable[..., Any] | None:
    """`random_bits`: bits of a shape for a key, or for each of an array of keys; None for other
    generators.
    """
    params, keys = equation.params, equation.invars[0].aval
    width, shape = params["bit_width"], tuple(params["shape"])
    if not counts(keys) or width not in (8, 16, 32, 64):
        return None

    def run(key: Any) -> Any:
        high, low = hashed(key, keys.shape, shape)
        wide = width == 64
        both = (high.astype(np.uint64) << np.uint64(32)) | low if wide else high ^ low
        return both.astype(f"uint{width}").reshape((*keys.shape, *shape))

    return run


def random_split(equation: Any) -> Callable[..., Any] | None:
    """`random_split`: keys from a key; None for other generators."""
    keys, shape = equation.invars[0].aval, tuple(equation.params["shape"])
    if not counts(keys):
        return None

    def run(key: Any) -> Any:
        both = np.stack(hashed(key, keys.shape, shape), axis=-1)
        return jax.random.wrap_key_data(both.reshape(*keys.shape, *shape, 2))

    return run


def random_gamma(equation: Any) -> Callable[..., Any] | None:
    """`random_gamma`: JAX compiles it at each call, for half a second. The draw for an entry
    depends on its key and index only, so entries are padded to a few compiled numbers.
    """
    keys, alpha = (variable.aval for variable in equation.invars)
    lead, shape = keys.shape, alpha.shape
    if not counts(keys) or shape[: len(lead)] != lead or not math.prod(shape):
        return None
    rest = shape[len(lead) :] if lead else ()
    count = math.prod(lead) if lead else math.prod(shape)
    size = min((enough for enough in GAMMAS if enough >= count), default=count)
    params = tuple(sorted(equation.params.items()))

    def run(key: Any, given: Any) -> Any:
        filled = np.ones((size, *rest), dtype=given.dtype)
        filled[:count] = given.reshape(count, *rest)
        if lead:
            halves = np.asarray(jax.random.key_data(key)).reshape(count, 2)
            key = jax.random.wrap_key_data(np.resize(halves, (size, 2)))
        found = _gammas(equation.primitive, params)(key, filled)
        return np.array(found)[:count].reshape(shape)

    return run


@functools.cache
def _gammas(primitive: Any, params: tuple[tuple[str, Any], ...]) -> Any:
    return jax.jit(lambda key, alpha: primitive.bind(key, alpha, **dict(params)))


def counts(keys: Any) -> bool:
    """Whether keys are of the default generator, which hashes the index of each entry."""
    generator = getattr(getattr(keys.dtype, "_impl", None), "name", "")
    return generator == "threefry2x32" and bool(jax.config.jax_threefry_partitionable)


def hashed(key: Any, keys: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The two hashed words of each entry of ``shape``, for keys of shape ``keys``."""
    halves = np.asarray(jax.random.key_data(key)).reshape(*keys, 1, 2)
    count = np.arange(math.prod(shape), dtype=np.uint64)
    return threefry(
        halves[..., 0],
        halves[..., 1],
        (count >> np.uint64(32)).astype(np.uint32),
        count.astype(np.uint32),
    )


def threefry(first: Any, second: Any, high: Any, low: Any) -> tuple[Any, Any]:
    """The Threefry-2x32 hash of pairs of 32-bit words under a two-word key."""
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
