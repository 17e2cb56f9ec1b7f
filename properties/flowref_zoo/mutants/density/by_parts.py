"""Defects of log-densities beside the parts that they are made of, put into healthy flows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import added, wrapped

REAL_NVP = "reference:Flow[VectorRealNVP]"


@mutant("density/change-of-variables[parts]", host="nflows:Flow", sizes=(1e-9, 1e-2))
def density_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The log-density is off by a constant."""
    return added(subject, "log_prob", size)


@mutant("density/change-of-variables[parts]", host=REAL_NVP, sizes=(1e-6, 1.0))
def one_part_forgotten(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det of one part is left out, or enters with another factor."""
    change = partial(_less_of, subject.part_maps[0], subject.normalizing, size)
    return wrapped(subject, "log_prob", change)


@mutant("density/change-of-variables[parts]", host="normflows:NormalizingFlow", sizes=(1e-6, 1e-2))
def at_the_data(subject: Subject, size: float = 1e-2) -> Subject:
    """The base is asked about a point beside the latent."""
    return wrapped(subject, "base_log_prob", _beside, size)


def _less_of(
    part: Callable[..., Mapped],
    call: str,
    share: float,
    log_prob: Callable[..., Array],
    x: Array,
    context: Array | None = None,
) -> Array:
    ladj = np.asarray(part(x, context, call).ladj)
    return np.asarray(log_prob(x, context) - share * ladj.reshape(len(x), -1).sum(1))


def _beside(
    base_log_prob: Callable[..., Array], size: float, z: Array, context: Array | None = None
) -> Array:
    return np.asarray(base_log_prob(np.asarray(z) + size, context))
