"""Laws of code that is traced and takes random keys: that nothing of a trace is left, that an object is
the sum of its leaves, and that a key decides what is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.common.probes import MAPS, Outcomes, Probe, agree, probes
from flowref.laws.conduct.samples import continuous, drawing
from flowref.model import EXACT, Array, Batch, Mapped, Residual, Unsupported, law
from flowref.model.abilities import Keyed, Traced

# Rows of a trace that comes before, so that it is another one.
FEWER = 2
SAME = 1e-6


def own(flow: Traced, batch: Batch, before: Sequence[int], note: str) -> Residual:
    """Calls against those of the object itself."""
    raised: list[str] = []

    def outcomes(probe: Probe) -> Outcomes:
        plain = probe()
        context = probe.inputs[1] if len(probe.inputs) > 1 else None
        other, error = attempt(flow.own, probe.name, probe.points, context, before)
        if error:
            raised.append(f"{note}: {probe.name} raised {error}")
            other = Mapped(np.full(np.shape(plain.value), np.nan), None)
        yield plain, other

    probed = probes(flow, batch, complete=False, calls=MAPS)
    residual = agree(probed, outcomes, f"{note}, and the outcome differs")
    return replace(residual, note=raised[-1]) if raised and residual.note else residual


@law(
    "conduct/tree-roundtrip",
    effort=1,
    size=7,
    scales=(0.0,),
    local=False,
    source="jax.tree_util: what transformations, optimizers and checkpoints hand back is an object put "
    "together from its leaves",
)
def tree_roundtrip(flow: Traced, batch: Batch) -> Residual:
    """An object that was flattened into its leaves and put together again gives what it gave."""
    return own(flow, batch, (), "the object was put together from its leaves")


@law(
    "conduct/traced-again",
    effort=1,
    size=7,
    scales=(0.0,),
    local=False,
    source="jax.errors.UnexpectedTracerError: a value of a trace is kept in the object and used after it",
)
def traced_again(flow: Traced, batch: Batch) -> Residual:
    """A call that was traced can be traced again, for another number of points, and gives the same."""
    return own(flow, batch, (FEWER,), "the call was traced before")


@law(
    "conduct/key-decides",
    points="data",
    tolerance=EXACT,
    effort=1,
    size=1,
    scales=(0.0, 0.3),
    applies=continuous,
    source="jax.random: a sampler that makes a key of its own draws the same points for ever",
)
def key_decides(flow: Keyed, batch: Batch) -> Residual:
    """The same key draws the same points, compiled or not, and another key draws others."""
    probe = drawing(flow, batch, "sample")
    count, seed, *more = probe.inputs
    first = np.asarray(flow.sample(count, seed, *more))
    eager, error = attempt(probe, how="compile")
    other = np.asarray(flow.sample(count, seed + 1, *more))
    if error:
        raise Unsupported(f"it refuses to sample ({error})")
    if not (np.isfinite(first).all() and np.isfinite(other).all()):
        raise Unsupported("its samples are not finite")
    again = np.asarray(eager.value)
    if not alike(first, again):
        return flags(True, len(batch.x), "the same key drew other points when it was not compiled")
    return flags(alike(first, other), len(batch.x), "two keys drew the same points")


def alike(one: Array, other: Array) -> bool:
    """Whether two draws are the same, but for rounding."""
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=SAME, atol=SAME))
