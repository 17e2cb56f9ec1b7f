"""Defects of code that is traced and takes random keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.laws.common.defects import shifted, wrapped
from flowref.model import Array, Mapped, Subject, mutant

HOST = "flowjax:Affine"
SAMPLER = "flowjax:LogNormal"


@mutant("conduct/tree-roundtrip", host=HOST, sizes=(1e-9, 1e-1))
def leaf_lost(subject: Subject, size: float = 1e-4) -> Subject:
    """A number is no leaf, and is set anew when the object is put together."""
    return wrapped(subject, "own", off, size)


@mutant("conduct/tree-roundtrip", host=HOST)
def attribute_lost(subject: Subject, size: float = 1.0) -> Subject:
    """An attribute is left out of the leaves, so that a call of what was put together raises."""
    return wrapped(subject, "own", raising, 0)


@mutant("conduct/traced-again", host=HOST)
def weight_cached(subject: Subject, size: float = 1.0) -> Subject:
    """A derived weight is computed in the first call and kept, though it belongs to its trace."""
    return wrapped(subject, "own", raising, 1)


@mutant("conduct/traced-again", host=HOST, sizes=(1e-9, 1e-1))
def rows_remembered(subject: Subject, size: float = 1e-4) -> Subject:
    """The number of points of the first call is kept and divides."""
    return wrapped(subject, "own", off_again, size)


@mutant("conduct/key-decides", host=SAMPLER)
def key_of_its_own(subject: Subject, size: float = 1.0) -> Subject:
    """The key that is handed over is not used."""
    sample = subject.calls["sample"]
    return subject.with_call("sample", Fixed(sample))


@mutant("conduct/key-decides", host=SAMPLER)
def draws_beside_the_key(subject: Subject, size: float = 1.0) -> Subject:
    """Points are moved by numbers that no key decides."""
    sample = subject.calls["sample"]
    return subject.with_call("sample", Moved(sample))


def off(own: Callable[..., Mapped], size: float, *inputs: Any) -> Mapped:
    """What the object gives is off by ``size``."""
    return shifted(own(*inputs), size)


def off_again(own: Callable[..., Mapped], size: float, *inputs: Any) -> Mapped:
    """The same, after another trace."""
    out = own(*inputs)
    return shifted(out, size) if inputs[-1] else out


def raising(own: Callable[..., Mapped], most: int, *inputs: Any) -> Mapped:
    """An error, where there were as many traces before."""
    if len(inputs[-1]) >= most:
        raise AttributeError("log_scale")
    return own(*inputs)


class Fixed:
    """Draws with one key for ever."""

    def __init__(self, sample: Callable[..., Array]) -> None:
        self.sample = sample

    def __call__(self, n: int, seed: int, context: Array | None = None) -> Array:
        """The draw of that key."""
        return self.sample(n, 7, context)


class Moved:
    """Draws that are moved by a number for each call."""

    def __init__(self, sample: Callable[..., Array]) -> None:
        self.sample, self.calls = sample, 0

    def __call__(self, n: int, seed: int, context: Array | None = None) -> Array:
        """The next draw."""
        self.calls += 1
        return np.asarray(self.sample(n, seed, context)) + 0.1 * self.calls
