"""Known bugs of log-densities, relative to the base. A standard normal base is assumed if none is
declared: if its numbers fit at every point, it is the base.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from flowref.checking.measurement import measure
from flowref.diagnosing.comparison import Comparison, array_comparison
from flowref.diagnosing.constants import offsets
from flowref.diagnosing.known_bugs import (
    SIGN,
    ZERO,
    KnownBug,
    found,
    logarithms,
    named_factors,
    named_offsets,
    other_terms,
    whole_batch,
)
from flowref.diagnosing.scenes import Scene
from flowref.laws.common.arithmetic import finite_rows, reported
from flowref.laws.density.base import normalizing_call, standard_normal
from flowref.model import Array, Law

# Accuracy to which the log of an integral must agree with a closed form.
INTEGRATED = 1e-7


def density_of(scene: Scene) -> Comparison:
    r"""Compare the reported log-density with $\log p_Z(z) + \log|\det J|$."""
    flow: Any = scene.subject
    x, context, _ = scene.batch
    out = normalizing_call(flow)(x + 0.0, context)
    density = np.asarray(flow.log_prob(x, context), dtype=np.float64).reshape(len(x))
    base, ladj = _base_log_density(flow, out.value, context), reported(flow, out, len(x))
    usable = finite_rows(base, ladj)
    # The laws of samples and integrals have no recorded point, so every point counts as the case.
    comparison = array_comparison(scene.subject, density, base + ladj, usable, len(x))
    terms = {
        "that of the base alone: the log-det is left out": lambda: base,
        "that of the base minus the log-det: its sign is flipped": lambda: base - ladj,
        "the log-det alone: the base is left out": lambda: ladj,
        "that with the log-det counted twice": lambda: base + 2 * ladj,
        "that with half the log-det": lambda: base + ladj / 2,
        "that with the base subtracted": lambda: ladj - base,
        "that with the mean of the base's entries instead of their sum": lambda: (
            base / comparison.entries + ladj
        ),
        "that with the mean of the log-det's parts instead of their sum": lambda: (
            base + ladj / comparison.entries
        ),
        "that with the base evaluated at x instead of the latent": lambda: (
            _base_log_density(flow, x + 0.0, context) + ladj
        ),
        "that with the log-dets summed over the batch": lambda: base + ladj.sum(),
        "that with the log-dets averaged over the batch": lambda: base + ladj.mean(),
    }
    return replace(comparison, terms=terms)


def _base_log_density(flow: Any, z: Array, context: Array | None) -> Array:
    if flow.base_log_prob is None:
        return standard_normal(z).astype(np.float64)
    return np.asarray(flow.base_log_prob(z, context), dtype=np.float64).reshape(len(z))


def mass(law: Law, scenes: Sequence[Scene]) -> str:
    """Return a diagnosis if the log of the density's integral is a known constant; else ""."""
    logs = []
    for scene in scenes:
        residual = measure(law, scene.subject, scene.batch.rows(slice(0, 1)))
        logs.append(float(np.log(residual.observed["integral"][0])))
    for words, value in offsets(scenes[0].subject):
        for sign, what in ((1, "too many"), (-1, "missing")):
            if all(abs(log - sign * value) <= INTEGRATED for log in logs):
                return f"the log of the integral is {logs[0]:.8g} = {words}: that much is {what}"
    return ""


def diagnose_density(scenes: Sequence[Scene]) -> str:
    """Return the known bug of a log-density as text; empty if none explains it."""
    seen = [density_of(scene) for scene in scenes]
    what = found(seen, density_bugs(seen))
    return f"the log-density is {what}" if what else ""


def density_bugs(seen: Sequence[Comparison]) -> Iterator[KnownBug]:
    """Yield the known bugs of a log-density."""
    yield from chain(
        [ZERO], other_terms(seen), [replace(SIGN, words="the negative of the right one")]
    )
    yield from chain(
        named_factors(seen), named_offsets(seen, declared=True), whole_batch(), logarithms()
    )
