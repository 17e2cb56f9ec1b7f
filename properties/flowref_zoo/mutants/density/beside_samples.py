"""Defects of what samplers return beside their samples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import ladj_added, wrapped

FLOW = "nflows:Flow"


@mutant("density/change-of-variables[samples]", host=FLOW, sizes=(1e-9, 1e-3))
def normalizer_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The log-densities beside samples lack a constant."""
    return ladj_added(subject, "sample_log_prob", size)


@mutant("density/change-of-variables[samples]", host="normflows:NormalizingFlow")
def log_det_added(subject: Subject) -> Subject:
    """The log-det of the map to data is added to the density of the base, and not subtracted."""
    return wrapped(subject, "sample_log_prob", _added, subject.calls["forward"])


def _added(
    labelled: Callable[..., Mapped],
    forward: Callable[..., Mapped],
    n: int,
    seed: int,
    context: Array | None = None,
) -> Mapped:
    x, beside = labelled(n, seed, context)
    rng = np.random.default_rng(seed)
    ladj = np.asarray(forward(rng.standard_normal(np.shape(x)), context).ladj)
    return Mapped(x, np.asarray(beside) + 2 * ladj.reshape(n, -1).sum(1))


@mutant("density/change-of-variables[samples]", host=FLOW)
def in_another_order(subject: Subject) -> Subject:
    """The log-densities are those of the samples in another order."""
    return wrapped(subject, "sample_log_prob", _rolled)


def _rolled(
    labelled: Callable[..., Mapped], n: int, seed: int, context: Array | None = None
) -> Mapped:
    x, beside = labelled(n, seed, context)
    return Mapped(x, np.roll(np.asarray(beside), 1))
