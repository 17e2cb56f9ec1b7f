"""Defects of code that is traced and takes random keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import shifted, wrapped

HOST = "flowjax:Affine"
SAMPLER = "flowjax:LogNormal"
VECTORS = "flowjax:coupling_flow"
# Its leaves are numbers of Python, too.
NUMBERED = "flowjax:LeakyTanh"


@mutant("same/manner[tree]", host=HOST, sizes=(1e-9, 1e-1))
def leaf_lost(subject: Subject, size: float = 1e-4) -> Subject:
    """A number is no leaf, and is set anew when the object is put together."""
    return wrapped(subject, "own", off, size)


@mutant("same/manner[tree]", host=HOST)
def attribute_lost(subject: Subject, size: float = 1.0) -> Subject:
    """An attribute is left out of the leaves, so that a call of what was put together raises."""
    return wrapped(subject, "own", raising, 0)


@mutant("same/manner[second-trace]", host=HOST)
def weight_cached(subject: Subject, size: float = 1.0) -> Subject:
    """A derived weight is computed in the first call and kept, though it belongs to its trace."""
    return wrapped(subject, "own", raising, 1)


@mutant("same/manner[second-trace]", host=HOST, sizes=(1e-9, 1e-1))
def rows_remembered(subject: Subject, size: float = 1e-4) -> Subject:
    """The number of points of the first call is kept and divides."""
    return wrapped(subject, "own", off_again, size)


@mutant("same/saved[leaves]", host=HOST, sizes=(1e-9, 1e-1))
def saved_in_single(subject: Subject, size: float = 1e-7) -> Subject:
    """A number is rounded when it is saved."""
    return wrapped(subject, "own", off, size)


@mutant("same/manner[traced-numbers]", host=NUMBERED, sizes=(1e-9, 1e-1))
def branch_on_a_number(subject: Subject, size: float = 1e-4) -> Subject:
    """A number decides a branch when it is static, and is not asked when it is traced."""
    return wrapped(subject, "own", off, size)


@mutant("same/manner[traced-gradient]", host=HOST, sizes=(1e-9, 1e-1))
def rule_of_a_trace(subject: Subject, size: float = 1e-4) -> Subject:
    """A custom rule gives another derivative where it sees no numbers."""
    return wrapped(subject, "own", off, size)


@mutant("random/seeded[key]", host=SAMPLER)
def key_of_its_own(subject: Subject, size: float = 1.0) -> Subject:
    """The key that is handed over is not used."""
    sample = subject.calls["sample"]
    return subject.with_call("sample", Fixed(sample))


@mutant("random/seeded[key]", host=SAMPLER)
def draws_beside_the_key(subject: Subject, size: float = 1.0) -> Subject:
    """Points are moved by numbers that no key decides."""
    sample = subject.calls["sample"]
    return subject.with_call("sample", Moved(sample))


@mutant("random/seeded[key]", host=VECTORS)
def one_coordinate_of_its_own(subject: Subject, size: float = 1.0) -> Subject:
    """The first number of each point is drawn with a key of its own."""
    sample = subject.calls["sample"]
    return subject.with_call("sample", Fixed(sample, first=True))


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
    """Draws with one key for ever; ``first``: the first number of each point alone."""

    def __init__(self, sample: Callable[..., Array], first: bool = False) -> None:
        self.sample, self.first = sample, first

    def __call__(self, n: int, seed: int, context: Array | None = None) -> Array:
        """The draw of that key."""
        own = np.asarray(self.sample(n, 7, context))
        if not self.first:
            return own
        drawn = np.array(self.sample(n, seed, context))
        drawn[:, 0] = own[:, 0]
        return drawn


class Moved:
    """Draws that are moved by a number for each call."""

    def __init__(self, sample: Callable[..., Array]) -> None:
        self.sample, self.calls = sample, 0

    def __call__(self, n: int, seed: int, context: Array | None = None) -> Array:
        """The next draw."""
        self.calls += 1
        return np.asarray(self.sample(n, seed, context)) + 0.1 * self.calls
