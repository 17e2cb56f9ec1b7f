"""Defects of densities, put into healthy subjects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from flowref.model import Array, Subject, mutant

FLOW = "zuko:NSF?features=2"


def _off(
    log_prob: Callable[..., Array], amount: float, x: Array, context: Array | None = None
) -> Array:
    return log_prob(x, context) + amount


def _shrunk(
    sample: Callable[..., Array], factor: float, n: int, seed: int, context: Array | None = None
) -> Array:
    return sample(n, seed, context) * factor


@mutant("density/change-of-variables", host=FLOW, sizes=(1e-9, 1e-4))
def constant_missing(subject: Subject, size: float = 1e-4) -> Subject:
    """The log-density lacks a constant, as a base without its normalizer."""
    return subject.with_call("log_prob", partial(_off, subject.log_prob, size))


@mutant("density/integrates-to-one", host="zuko:NSF?features=1")
def mass_missing(subject: Subject, size: float = 0.01) -> Subject:
    """One part in a hundred of the mass is missing."""
    return subject.with_call("log_prob", partial(_off, subject.log_prob, -size))


@mutant("density/samples-consistent", host="zuko:MAF", sizes=(0.1, 0.2))
def samples_too_narrow(subject: Subject, size: float = 0.1) -> Subject:
    """Samples are drawn at a temperature that the density does not know."""
    return subject.with_call("sample", partial(_shrunk, subject.sample, 1 - size))
