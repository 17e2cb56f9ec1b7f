"""Traced code with random keys (JAX): traces leave nothing behind, an object is the sum of its
leaves, and a key determines the draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.common.probes import MAPS, Outcomes, Probe, agree, probes
from flowref.laws.conduct.samples import continuous, sampling_probe
from flowref.model import EXACT, GIVEN, NEARBY, Array, Batch, Mapped, Residual, Unsupported, law
from flowref.model.abilities import Keyed, Pulling, TraceableFlow

# Rows of earlier traces, so that the trace differs.
FEWER = (2, 3)
SAME = 1e-6


class Graded(TraceableFlow, Pulling, Protocol):
    """A flow with traced and differentiated calls."""


def retraced_residual(
    flow: TraceableFlow, batch: Batch, before: Sequence[int], note: str, *how: str
) -> Residual:
    """Traced calls compared with those of the object itself, or of an object made from it."""
    raised: list[str] = []

    def outcomes(probe: Probe) -> Outcomes:
        plain = probe()
        context = probe.inputs[1] if len(probe.inputs) > 1 else None
        other, error = attempt(flow.own, probe.name, probe.points, context, before, *how)
        if error and how:
            raise Unsupported(error)
        if error:
            raised.append(f"{note}: {probe.name} raised {error}")
            other = Mapped(np.full(np.shape(plain.value), np.nan), None)
        yield plain, other

    probed = probes(flow, batch, complete=False, calls=MAPS)
    residual = agree(probed, outcomes, f"{note}, and the outcome differs")
    return replace(residual, note=raised[-1]) if raised and residual.note else residual


@law(
    "same/manner[tree]",
    key="conduct/tree-roundtrip",
    effort=1,
    size=7,
    scales=GIVEN,
    local=False,
    source="jax.tree_util: transformations, optimizers and checkpoints return an object rebuilt "
    "from its leaves",
)
def tree_roundtrip(flow: TraceableFlow, batch: Batch) -> Residual:
    """An object that is flattened into its leaves and rebuilt returns the same."""
    return retraced_residual(flow, batch, (), "the object was rebuilt from its leaves")


@law(
    "same/manner[second-trace]",
    key="conduct/traced-again",
    effort=1,
    size=7,
    scales=GIVEN,
    local=False,
    version=2,
    source="jax.errors.UnexpectedTracerError: a value of a trace is kept in the object and used after it",
)
def traced_again(flow: TraceableFlow, batch: Batch) -> Residual:
    """A traced call can be traced again for another number of points and returns the same; no
    traced value stays in the object, or in anything it refers to.
    """
    return retraced_residual(flow, batch, FEWER, "the call was traced before")


@law(
    "same/saved[leaves]",
    key="conduct/saved-leaves",
    effort=1,
    size=7,
    scales=GIVEN,
    local=False,
    source="equinox.tree_serialise_leaves: what is read back into an object of the same structure is that "
    "which was saved",
)
def saved_leaves(flow: TraceableFlow, batch: Batch) -> Residual:
    """An object whose leaves are saved, and loaded into one of zeros, returns the same."""
    return retraced_residual(
        flow, batch, (), "the object was read back from what was saved", "saved"
    )


@law(
    "same/manner[traced-numbers]",
    key="conduct/numbers-traced",
    effort=1,
    size=7,
    scales=GIVEN,
    local=False,
    source="jax.jit: a number of Python among the leaves of an argument is traced, and it is static where it "
    "is closed over",
)
def numbers_traced(flow: TraceableFlow, batch: Batch) -> Residual:
    """Numbers that an object holds as leaves give the same results traced and static."""
    return retraced_residual(flow, batch, (), "the numbers of the object were traced", "numbers")


@law(
    "same/manner[traced-gradient]",
    key="conduct/gradient-traced",
    effort=1,
    size=3,
    scales=GIVEN,
    local=False,
    source="jax.grad, jax.jit: transformations compose, so that a gradient that is compiled is the gradient",
)
def gradient_traced(flow: Graded, batch: Batch) -> Residual:
    """The gradient of a call is the same in a trace and op by op."""

    def outcomes(probe: Probe) -> Outcomes:
        context = probe.inputs[1] if len(probe.inputs) > 1 else None
        plain = probe()
        values = np.ones_like(np.asarray(plain.value))
        ladjs = None if plain.ladj is None else np.ones(len(probe.points))
        traced = flow.vjp(probe.name, probe.points, context, values, ladjs)
        eager, error = attempt(flow.own, probe.name, probe.points, context, (), "graded")
        if not error:
            yield Mapped(np.asarray(traced), None), eager

    probed = [one for one in probes(flow, batch, complete=False, calls=MAPS) if not one.tolerance]
    if not probed:
        raise Unsupported("its calls iterate")
    return agree(probed, outcomes, "its gradients in a trace and op by op differ")


@law(
    "random/seeded[key]",
    key="conduct/key-decides",
    version=2,
    points="data",
    tolerance=EXACT,
    effort=1,
    size=1,
    scales=NEARBY,
    applies=continuous,
    source="jax.random: a sampler that makes a key of its own draws the same points for ever",
)
def key_decides(flow: Keyed, batch: Batch) -> Residual:
    """The same key draws the same points, compiled or not, and another key draws others."""
    probe = sampling_probe(flow, batch, "sample")
    count, seed, *more = probe.inputs
    first = np.asarray(flow.sample(count, seed, *more))
    eager, error = attempt(probe, how="compile")
    other = np.asarray(flow.sample(count, seed + 1, *more))
    if error:
        raise Unsupported(f"it refuses to sample ({error})")
    if not (np.isfinite(first).all() and np.isfinite(other).all()):
        raise Unsupported("its samples are not finite")
    again = np.asarray(eager.value)
    if not same_draws(first, again):
        return flags(True, len(batch.x), "the same key drew other points when it was not compiled")
    if same_draws(first, other):
        return flags(True, len(batch.x), "two keys drew the same points")
    return flags(
        kept(first, other),
        len(batch.x),
        "two keys drew the same numbers in one entry of each point",
    )


def kept(one: Array, other: Array) -> bool:
    """Whether, in some entry, numbers that vary from point to point are the same in two draws."""
    if one.shape != other.shape or len(one) < 3:
        return False
    first, second = (draw.reshape(len(draw), -1) for draw in (one, other))
    varied = (np.diff(np.sort(first, axis=0), axis=0) > SAME * (1 + np.abs(first[1:]))).all(0)
    return bool((varied & np.isclose(first, second, rtol=SAME, atol=SAME).all(0)).any())


def same_draws(one: Array, other: Array) -> bool:
    """Whether two draws are equal up to rounding."""
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=SAME, atol=SAME))
