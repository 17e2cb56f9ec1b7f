"""Gradients of samples compared with those of the density: their means agree for every sampler."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.amounts import stepwise
from flowref.laws.common.cases import ONE_CONTEXT
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import exact_density, exact_log_det, has_parameters
from flowref.laws.density.consistency import moderate_event_size, unconditional_or_bound
from flowref.model import (
    NEARBY,
    STATISTICAL,
    VOLUME,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Density, Flow, Living, Parametric, Sampler
from flowref.model.steps import Pathwise

# Blocks of samples, each giving one difference; samples per block in the two stages; and the
# standard errors that trigger the second stage, and are a violation: Student's t with 31 degrees of
# freedom exceeds these with probability 1e-6.
BLOCKS, STAGES, DOUBTFUL, ERRORS = 32, (1_024, 4_096), 2.5, 6.05
# Number of test functions (waves), and of directions in parameter space.
WAVES, WAYS = 4, 3
# The fall of the log-density one step beyond the outermost samples that excludes a moving end.
FADES = (0.003, 30.0)
# Segments between samples, points on each, and bisections of the steps with the largest change; a
# change that remains after the last one is a jump.
SEGMENTS, POINTS, HALVINGS, JUMP = 64, 33, 20, 1e-3
# Differences below this share of both derivatives count as none.
SMALL = 1e-9


class Reparameterized(Density, Sampler, Living, Parametric, Protocol):
    """A density whose samples carry gradients to its parameters."""


@requires("it has no rsample, or promises it, which another law checks", blocked=False)
def only_samples(flow: Flow) -> bool:
    """A promised rsample is compared with differences under the same noise by another law."""
    return "rsample" in flow.calls and not flow.promises.get("rsample")


@requires("its data are bounded", blocked=False)
def without_ends(flow: Flow) -> bool:
    """Ends of the support may depend on the parameters."""
    support = flow.density_support
    return not support.has_end and support.kind not in ("simplex", "ordered")


@law(
    "gradient/of-samples[density]",
    key="sampling/rsample-follows-density",
    about=VOLUME,
    points="data",
    tolerance=STATISTICAL,
    local=False,
    scales=NEARBY,
    size=1,
    effort=2,
    applies=only_samples
    & without_ends
    & has_parameters
    & unconditional_or_bound
    & moderate_event_size
    & exact_log_det
    & exact_density,
    source="Mohamed et al. 2020, Monte Carlo gradient estimation in machine learning: pathwise and score estimators have one mean",
    cases=(ONE_CONTEXT,),
)
def rsample_follows_density(flow: Reparameterized, batch: Batch) -> Residual:
    r"""The gradients of samples agree with those of the density: $E[g'(x)\, \partial_\theta x] =
    E[g(x)\, \partial_\theta \log p(x)]$ for waves $g$, along a few directions in the parameters.

    This holds for every reparameterization, implicit ones included, so it detects wrong custom
    backward rules, mixtures without a gradient of the component choice, and detached factors.
    Deviations among 32 blocks of samples are judged by 32 fresh and larger blocks, at level 1e-6.
    Densities with a moving end or jump are exempt: those that do not fade at their outermost
    samples, or jump between samples.
    """
    if stepwise(flow, "rsample"):
        raise Undecidable("not judged: it repeats itself to draw")
    score, numbers = 0.0, dict[str, float]()
    for way in range(WAYS):
        seed = batch.seed + way
        found, seen = derivative_gap(flow, STAGES[0], 0, seed)
        if found > DOUBTFUL:
            found, seen = derivative_gap(flow, STAGES[1], 1, seed)
            score, numbers = max((score, numbers), (found, seen), key=lambda one: one[0])
        if score > ERRORS:
            draws = np.asarray(flow.sample(2 * SEGMENTS, seed=seed), dtype=np.float64)
            if jumps(flow, draws.reshape(2, SEGMENTS, *flow.density_shape)):
                raise Undecidable("its density jumps, and where it does may move")
            break
        numbers = numbers or seen
    return Residual(
        np.array([score]),
        allowed=ERRORS,
        observed={name: np.array([value]) for name, value in numbers.items()},
    )


def derivative_gap(
    flow: Reparameterized, count: int, stage: int, seed: int
) -> tuple[float, dict[str, float]]:
    """The difference of the two derivatives in standard errors, and their values."""
    shape, ones = flow.density_shape, np.zeros((1, *flow.density_shape))
    # Each step has its own noise, which depends on the number of steps before it.
    earlier = [Pathwise(1, ones, seed, alone=True) for _ in range(stage * BLOCKS)]
    nothing = np.zeros((count, *shape))
    alone = [Pathwise(count, nothing, seed, alone=True) for _ in range(BLOCKS)]
    life, error = attempt(flow.play, [*earlier, *alone])
    if error:
        raise Unsupported(f"it refuses to sample ({error})")
    draws = [np.asarray(one.value, np.float64) for one in life[len(earlier) :]]
    if any(one.shape != nothing.shape or not np.isfinite(one).all() for one in draws):
        raise Undecidable("its samples are not finite, or of another shape")
    wave = Waves(np.concatenate(draws).reshape(BLOCKS * count, -1), seed)
    if not fades(flow, wave.x):
        raise Undecidable("its data may end where its outermost samples are, and ends may move")
    weighted = [Pathwise(count, wave.slope(x).reshape(x.shape), seed) for x in draws]
    paths = flow.play([*earlier, *weighted])[len(earlier) :]
    if not all(np.array_equal(one.value, x) for one, x in zip(paths, draws, strict=True)):
        raise Undecidable("its samples do not repeat from the same random state")
    if not any(one.slope for one in paths):
        raise Unsupported("its samples carry no gradient, which another law checks", blocked=False)
    scores = np.array([flow.slope("log_prob", x, None, seed, wave.value(x)) for x in draws])
    if not scores.any():
        raise Unsupported("its log-density carries no gradient to its parameters", blocked=False)
    slopes = np.array([one.slope for one in paths])
    gaps = (slopes - scores) / count
    if not np.isfinite(gaps).all():
        raise Undecidable("gradients are not finite")
    size = float(np.abs(slopes).mean() + np.abs(scores).mean()) / count
    deviation = math.sqrt(gaps.var(ddof=1) / BLOCKS) + SMALL * size
    numbers = {
        "through samples": float(slopes.mean()) / count,
        "by the density": float(scores.mean()) / count,
        "standard error": deviation,
    }
    return abs(float(gaps.mean())) / deviation, numbers


class Waves:
    """Test functions: a few sine waves in random directions, in units of the spread of samples,
    with mean zero.
    """

    def __init__(self, x: Array, seed: int) -> None:
        self.x = x
        self.middle = np.median(x, axis=0)
        spread = (np.quantile(x, 0.9, axis=0) - np.quantile(x, 0.1, axis=0)) / 2.56
        if not (spread > 0).all():
            raise Undecidable("its samples do not spread in every coordinate")
        rng, size = np.random.default_rng(seed), x.shape[1]
        self.ways = rng.standard_normal((WAVES, size)) / spread / math.sqrt(size)
        self.phases = rng.uniform(0, 2 * math.pi, WAVES)
        self.mean = 0.0
        self.mean = float(self.value(x).mean())

    def _angles(self, x: Array) -> Array:
        away = x.reshape(len(x), -1) - self.middle
        return np.asarray(away @ self.ways.T + self.phases)

    def value(self, x: Array) -> Array:
        """The sum of the waves, ``(n,)``."""
        return np.asarray(np.sin(self._angles(x)).sum(1) - self.mean)

    def slope(self, x: Array) -> Array:
        """Its gradient, ``(n, *event)``."""
        return np.asarray(np.cos(self._angles(x)) @ self.ways)


def fades(flow: Density, x: Array) -> bool:
    """Whether the log-density falls slightly beyond the outermost samples, on both sides of each
    coordinate.
    """
    points, beyond = [], []
    for index in range(x.shape[1]):
        order = np.argsort(x[:, index])
        for first, fourth in ((order[0], order[4]), (order[-1], order[-5])):
            points.append(x[first])
            moved = x[first].copy()
            moved[index] += 0.5 * (x[first, index] - x[fourth, index])
            beyond.append(moved)
    both = np.array([*points, *beyond]).reshape(-1, *flow.density_shape)
    values, error = attempt(flow.log_prob, both, None)
    if error:
        return False
    there, further = np.split(np.asarray(values, np.float64).reshape(len(both)), 2)
    drop = there - further
    return bool(((drop > FADES[0]) & (drop < FADES[1])).all())


def jumps(flow: Density, ends: Array) -> bool:
    """Whether the log-density jumps on segments between samples, ``(2, segments, *event)``: its
    change over a step remains under repeated bisection.
    """
    first, last = ends
    steps = np.linspace(0, 1, POINTS)
    shaped = (-1, *[1] * (ends.ndim - 2))

    def on(segments: Array, at: Array) -> Array:
        share = at.reshape(shaped)
        points = (1 - share) * first[segments] + share * last[segments]
        return np.asarray(flow.log_prob(points, None), dtype=np.float64).reshape(len(at))

    every = np.repeat(np.arange(SEGMENTS), POINTS)
    with np.errstate(all="ignore"):
        values = on(every, np.tile(steps, SEGMENTS)).reshape(SEGMENTS, POINTS)
        # Steps with a change larger or smaller than the others.
        change = np.nan_to_num(np.abs(np.diff(values, axis=1)), nan=np.inf)
        bent = np.abs(change - np.median(change, axis=1, keepdims=True))
        chosen = np.argsort(bent, axis=1)[:, -3:]
        segments = np.repeat(np.arange(SEGMENTS), chosen.shape[1])
        low, high = steps[chosen.ravel()], steps[chosen.ravel() + 1]
        at_low, at_high = values[segments, chosen.ravel()], values[segments, chosen.ravel() + 1]
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            here = on(segments, middle)
            left = np.abs(here - at_low) >= np.abs(at_high - here)
            high, at_high = np.where(left, middle, high), np.where(left, here, at_high)
            low, at_low = np.where(left, low, middle), np.where(left, at_low, here)
        return bool((~(np.abs(at_high - at_low) <= JUMP)).any())
