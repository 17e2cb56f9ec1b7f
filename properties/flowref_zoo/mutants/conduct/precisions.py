"""Defects of the precision that calls work in where 64-bit types are on, or off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.model import Subject, mutant
from flowref_zoo.mutants.combinators import wrapped

HOST = "flowjax:Affine"
Told = tuple[tuple[str, ...], str]


@mutant("dtype/follows[float32]", host=HOST)
def number_of_numpy(subject: Subject, size: float = 1.0) -> Subject:
    """A constant is an np.float64, which is no weak type: points are promoted."""
    return wrapped(subject, "single", promoted)


@mutant("dtype/follows[float32]", host=HOST)
def double_is_asked_for(subject: Subject, size: float = 1.0) -> Subject:
    """The input is cast to float64, whatever is there."""
    return wrapped(subject, "single", truncated)


@mutant("dtype/follows[float32]", host=HOST)
def loop_of_two_precisions(subject: Subject, size: float = 1.0) -> Subject:
    """A loop begins with zeros of the default precision and goes on in that of its input."""
    return wrapped(subject, "single", refusing)


def promoted(single: Callable[..., Told], *inputs: Any) -> Told:
    """Points are of double precision where that is there."""
    dtypes, said = single(*inputs)
    return (("float64", *dtypes[1:]), said) if inputs[-1] else (dtypes, said)


def truncated(single: Callable[..., Told], *inputs: Any) -> Told:
    """What JAX says where it has none: that points come back in double precision may be wanted."""
    dtypes, said = single(*inputs)
    return dtypes, said if inputs[-1] else "Explicitly requested dtype float64 is not available"


def refusing(single: Callable[..., Told], *inputs: Any) -> Told:
    """An error where the two are not the same."""
    if inputs[-1]:
        raise TypeError("scan body function carry input and carry output must have equal types")
    return single(*inputs)
