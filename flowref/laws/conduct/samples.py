"""Samplers as calls: zero samples, dtype, gradients and random states."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from flowref.laws.common.amounts import stepwise
from flowref.laws.common.cases import ONE_CONTEXT
from flowref.laws.common.outcomes import attempt, flags, listed_names
from flowref.laws.common.probes import Probe, few, probe_of
from flowref.laws.common.requirements import IN_DOUBLE, in_double
from flowref.laws.density.consistency import unconditional, unconditional_or_bound
from flowref.model import (
    ADVICE,
    EXACT,
    GIVEN,
    NEARBY,
    Batch,
    Mapped,
    Residual,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Flow, Living, Sampler
from flowref.model.steps import Carry, Eval, Nudge, Pathwise, Step, Train


class LivingSampler(Living, Sampler, Protocol):
    """A sampler of an object with state."""


# The random states of two draws.
ONE, OTHER = 1, 2
TINY = 1e-3


@requires("its distribution has atoms")
def continuous(flow: Flow) -> bool:
    """Two samples of a continuous distribution differ."""
    return not flow.promises.get("atoms")


@law(
    "shape/any-batch[no-samples]",
    key="conduct/sample-none",
    points="data",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    size=1,
    scales=GIVEN,
    applies=unconditional,
    source="a sampling loop may end with no points left to draw",
)
def sample_none(flow: Sampler, batch: Batch) -> Residual:
    """sample(0) returns no points, in the shape of data."""
    points, error = attempt(flow.sample, 0, batch.seed % 2**31, None)
    expected = (0, *flow.density_shape)
    got = error or (np.shape(points) != expected and f"shape {np.shape(points)}")
    return flags(bool(got), len(batch.x), f"sample(0): {got}; expected shape {expected}")


@law(
    "random/seeded[two-calls]",
    key="conduct/samples-differ",
    points="data",
    tolerance=EXACT,
    effort=1,
    size=1,
    scales=NEARBY,
    applies=continuous,
    source="a sampler that seeds, or keeps a seeded generator of its own, draws the same points for ever",
)
def samples_differ(flow: LivingSampler, batch: Batch) -> Residual:
    """Two calls of sample return different points."""
    probe = sampling_probe(flow, batch, "sample")
    first, second = (np.asarray(out.value) for out in draws_in_states(flow, probe, ONE, OTHER))
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise Unsupported("its samples are not finite")
    alike = first.shape == second.shape and bool((first == second).all())
    return flags(alike, len(batch.x), "two calls drew the same points")


@law(
    "random/seeded[same-seed]",
    key="conduct/samples-repeat",
    points="data",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    size=1,
    scales=GIVEN,
    source="an experiment is repeatable if the seeds of torch, numpy and Python decide what is drawn",
)
def samples_repeat(flow: LivingSampler, batch: Batch) -> Residual:
    """Under the same seed sample returns the same points."""
    probe = sampling_probe(flow, batch, "sample")
    first, second = (np.asarray(out.value) for out in draws_in_states(flow, probe, ONE, ONE))
    differ = first.shape != second.shape or not np.allclose(first, second, equal_nan=True)
    return flags(differ, len(batch.x), "two calls under the same seed drew different points")


@law(
    "dtype/follows[samples]",
    key="conduct/sample-dtype",
    points="data",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    size=1,
    scales=GIVEN,
    applies=in_double & unconditional,
    source="torch.randn draws in the default dtype, which is float32 while the parameters are float64",
)
def sample_dtype(flow: Sampler, batch: Batch) -> Residual:
    """A float64 object samples float64, also under the usual default dtype float32."""
    probe = sampling_probe(flow, batch, "sample")
    observation, error = attempt(probe.observe, "float32")
    if error and "dtype" not in error:
        raise Unsupported(f"its calls cannot be observed ({error})")
    narrow = not error and observation.dtypes[0] == "float32"
    note = f"sample raised {error}" if error else "sample returned float32"
    return flags(bool(error) or narrow, len(batch.x), f"{IN_DOUBLE} {note}")


@requires("it has no rsample")
def reparameterizes(flow: Flow) -> bool:
    """rsample exists for its gradients."""
    return "rsample" in flow.calls


@requires("it has no trainable parameters")
def parametric(flow: Flow) -> bool:
    """There are module parameters, or tensors of an object without modules."""
    return flow.trainable or not flow.stateful


@law(
    "gradient/of-samples[graph]",
    key="conduct/rsample-carries",
    points="data",
    tolerance=EXACT,
    effort=1,
    size=1,
    scales=NEARBY,
    applies=reparameterizes & parametric & unconditional_or_bound,
    source="torch.distributions: rsample is reparameterized, sample is not",
    cases=(ONE_CONTEXT,),
)
def rsample_carries(flow: LivingSampler, batch: Batch) -> Residual:
    """Samples of rsample that move with the parameters carry gradients to them, at least in train
    mode; without modules, to each tensor that the object holds.
    """
    if not flow.trainable:
        return carried(flow, batch)
    count, expensive = few(flow, "rsample"), stepwise(flow, "rsample")
    weights = np.random.default_rng(batch.seed).standard_normal((count, *flow.density_shape))
    path = Pathwise(count, weights, batch.seed, some=expensive)
    alone = Pathwise(count, weights, batch.seed, alone=True)
    # Some record no graph in eval mode on purpose: either mode suffices.
    modes: list[list[Step[Any]]] = [[Eval()], [Train()]] if flow.stateful else [[]]
    moves, lost = False, True
    for mode in modes:
        life, error = attempt(flow.play, [*mode, path])
        if error:
            raise Unsupported(f"it refuses to sample ({error})")
        here = life.of(path)
        if expensive and here.slope and np.isfinite(here.slope):  # a slope shows that they move
            moves, lost = True, False
            break
        moved = flow.play([*mode, Nudge(batch.seed, TINY), alone]).of(alone)
        moves |= here.value.shape == moved.value.shape and not np.allclose(
            here.value, moved.value, rtol=1e-9, atol=1e-9
        )
        lost &= not here.graph or here.slope == 0
        if moves and not lost:  # regardless of the other mode
            break
    lost &= moves
    note = "samples of rsample move with the parameters, and carry no gradient to them"
    return flags(lost, len(batch.x), note, trivial=np.full(len(batch.x), not moves))


def carried(flow: LivingSampler, batch: Batch) -> Residual:
    """The same for a distribution, whose parameters are the tensors that it holds."""
    life, error = attempt(flow.play, [Carry(few(flow, "rsample"), TINY)])
    if error:
        raise Unsupported(f"it refuses to sample ({error})")
    seen = life[0]
    shares = [
        name
        for name, moved in zip(seen.names, seen.moved, strict=True)
        if seen.value.shape == moved.shape
        and not np.allclose(seen.value, moved, rtol=1e-9, atol=1e-9)
    ]
    gradients = dict(zip(seen.names, seen.largest, strict=True))
    lost = [name for name in shares if not gradients[name]]
    note = f"samples of rsample move with {listed_names(lost)}, and carry no gradient to it"
    return flags(bool(lost), len(batch.x), note, trivial=np.full(len(batch.x), not shares))


def sampling_probe(flow: Flow, batch: Batch, which: str) -> Probe:
    """A call that draws a few points; of a conditional density, one per context."""
    count, context = few(flow, which), None
    if flow.context_shape is not None:
        rng = np.random.default_rng(batch.seed)
        context = rng.standard_normal((count, *flow.context_shape))
    return probe_of(flow, which, count, batch.seed % 2**31, context)


def draws_in_states(flow: Living, probe: Probe, *states: int) -> list[Mapped]:
    """Draws of one object, call after call, in the given random states."""
    life, error = attempt(flow.play, [probe.step(draws=state) for state in states])
    if error:
        raise Unsupported(f"it refuses to sample ({error})")
    return list(life)
