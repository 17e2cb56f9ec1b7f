"""The mass of densities of many entries without a sampler, by annealed importance sampling: the
mean over runs is the mass even if a run finds little of it. By Markov's inequality a product of
independent runs of a density, with mean at most one, exceeds a million with probability 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from flowref.laws.common.amounts import call_work
from flowref.laws.common.outcomes import attempt
from flowref.laws.density.draws import log_prob_at_points, repeats
from flowref.model import Array, Batch, Undecidable, derive
from flowref.model.abilities import Density, Pulling
from flowref.model.budget import current_budget
from flowref.model.cost import BACKWARD

# Number of chains, of search steps, of last steps that place the start, and of temperatures of a
# run.
CHAINS, SEARCH, PLACED, TEMPERATURES = 64, 60, 16, 50
# The largest number of runs; the log of the product that counts as a violation; the mean log per
# run above which another run is made, since that many would be a violation.
RUNS, MILLION = 20, math.log(1e6)
CONSPICUOUS = MILLION / RUNS
# A smaller mass was not found.
LITTLE = -math.log(1e3)
# The width of the search, and the factor by which the start is wider than what was found.
WIDE, WIDER = 3.0, 1.2
# The acceptance rate at which the step size is kept, its change otherwise, and the largest drift in
# units of the spread.
ACCEPTED, FASTER, DRIFT = 0.6, 1.15, 10.0
# The share of the remaining budget that a run may take, since other weights are still to be
# audited.
SHARE = 0.1
# Points per call, and characters of a quoted error.
ROWS, QUOTED = 256, 100
# Distances at which the tail is tested, the number of directions, and the required decay: faster
# than one over the distance.
NEAR, FAR, DIRECTIONS, MARGIN = 1e2, 1e4, 32, 1.0
# Relative error up to which densities count as equal; the least share of the mass found at mirrored
# or sorted points; the tolerance of a mass per entry; the bits of levels that are tried.
SAME, HALF, ABOUT, BITS = 1e-9, 0.5, 0.02, (3, 4, 5, 6, 7, 8, 10, 12, 16)


class PulledDensity(Density, Pulling, Protocol):
    """A log-density with vector-Jacobian products."""


@dataclass(frozen=True)
class Start:
    """A normal density of independent entries."""

    middle: Array
    spread: Array

    def draw(self, rng: np.random.Generator) -> Array:
        """One point per chain, ``(CHAINS, size)``."""
        return np.asarray(
            self.middle + self.spread * rng.standard_normal((CHAINS, len(self.middle)))
        )

    def log_prob(self, x: Array) -> Array:
        """The log-density, ``(n,)``."""
        y = (x - self.middle) / self.spread
        constant = 0.5 * len(self.middle) * math.log(2 * math.pi) + np.log(self.spread).sum()
        return np.asarray(-0.5 * (y**2).sum(1) - constant)


@dataclass
class Chains:
    """Points with log-density and its gradient, moved by Langevin steps with Metropolis
    acceptance, so that each step leaves p^b q^(1 - b) invariant even if the gradient is wrong.
    """

    flow: PulledDensity
    start: Start
    context: Array | None
    rng: np.random.Generator
    x: Array

    def __post_init__(self) -> None:
        self.log_p, self.slope = self.at(self.x)

    def at(self, x: Array) -> tuple[Array, Array]:
        """The log-density, -inf if not finite, and its gradient, zero there; ``(n,)`` and ``(n,
        size)``. Raises `Undecidable` if autograd raises.
        """
        shaped = x.reshape(len(x), *self.flow.density_shape)
        log_p = log_prob_at_points(self.flow, x, self.context, lost=1.0)
        cotangent = np.ones(len(x))
        call = "log_prob", shaped, self.context, cotangent, None
        slope, refused = attempt(self.flow.vjp, *call)
        if refused:  # without gradients the steps would not be reversible
            raise Undecidable(f"the gradient of log_prob is refused ({refused[:QUOTED]})")
        flat = np.asarray(slope, dtype=np.float64).reshape(len(x), -1)
        good = np.isfinite(log_p)[:, None] & np.isfinite(flat)
        return np.where(log_p < np.inf, log_p, -np.inf), np.where(good, flat, 0.0)

    def toward(self, x: Array, slope: Array, power: float, size: float) -> Array:
        """The mean of the next position of each chain, in spreads of the start from its middle,
        ``(n, size)``.
        """
        y = (x - self.start.middle) / self.start.spread
        drift = power * slope * self.start.spread - (1 - power) * y
        return np.asarray(y + np.clip(0.5 * size**2 * drift, -DRIFT * size, DRIFT * size))

    def step(self, power: float, size: float) -> float:
        """Move the chains; returns the acceptance rate."""
        middle, spread = self.start.middle, self.start.spread
        ahead = self.toward(self.x, self.slope, power, size)
        y = ahead + size * self.rng.standard_normal(self.x.shape)
        x = middle + spread * y
        log_p, slope = self.at(x)
        back = self.toward(x, slope, power, size)
        here = (self.x - middle) / spread
        moves = ((y - ahead) ** 2).sum(1) - ((here - back) ** 2).sum(1)
        with np.errstate(invalid="ignore"):
            gain = self.level(x, log_p, power) - self.level(self.x, self.log_p, power)
            taken = np.log(self.rng.random(len(x))) < gain + 0.5 * moves / size**2
        self.x = np.where(taken[:, None], x, self.x)
        self.log_p = np.where(taken, log_p, self.log_p)
        self.slope = np.where(taken[:, None], slope, self.slope)
        return float(taken.mean())

    def level(self, x: Array, log_p: Array, power: float) -> Array:
        """The log-density of p^b q^(1 - b) up to a constant, b = ``power``, ``(n,)``."""
        # At power 0, points outside the support of p are permitted.
        p = power * log_p if power else np.zeros(len(x))
        return np.asarray(p + (1 - power) * self.start.log_prob(x))


def found_mass(flow: PulledDensity, batch: Batch) -> tuple[float, float]:
    """The log of the product of all runs, and their mean log mass. Runs are added while the mean
    is conspicuous and the product below a million.

    Raises `Undecidable` if the budget does not suffice, if a valid density may have such a mass
    (periodic, of sets, of levels), or if hardly any mass was found.
    """
    _afford(flow)
    context = None if batch.context is None else np.repeat(batch.context[:1], CHAINS, 0)
    chains, start = _searched(flow, context, batch.seed)
    sizes: list[float] = []
    _annealed(flow, start, context, derive(batch.seed, 1), sizes)
    total, runs = 0.0, 0
    while total < MILLION and total >= CONSPICUOUS * runs and runs < RUNS:
        runs += 1
        total += _annealed(flow, start, context, derive(batch.seed, 1 + runs), sizes)
    if total / runs < LITTLE:
        raise Undecidable("annealed importance sampling finds next to no mass")
    if total >= MILLION:
        _doubt(flow, batch, chains, total / runs)
    return total, total / runs


def _afford(flow: PulledDensity) -> None:
    """Raises `Undecidable` if it exceeds the remaining budget."""
    steps = SEARCH + 3 * TEMPERATURES
    work = call_work(flow, "log_prob", CHAINS, steps * (2 + BACKWARD))
    if work > SHARE * current_budget().left:
        what = f"{steps} steps of {CHAINS} chains"
        raise Undecidable(f"not judged: {what} {current_budget().too_long(work / SHARE)}")


def _searched(flow: PulledDensity, context: Array | None, seed: int) -> tuple[Chains, Start]:
    """Chains that have found the mass, and a normal start around them. Raises `Undecidable` if the
    density is nowhere positive.
    """
    rng, size = np.random.default_rng(seed), math.prod(flow.density_shape)
    wide = Start(np.zeros(size), np.full(size, WIDE))
    chains = Chains(flow, wide, context, rng, wide.draw(rng))
    if not np.isfinite(chains.log_p).any():
        raise Undecidable("no point was found at which the density is finite and positive")
    length, places = 0.1, []
    for index in range(SEARCH):
        power = min(1.0, 2 * (index + 1) / SEARCH)
        length *= FASTER if chains.step(power, length) > ACCEPTED else 1 / FASTER
        if index >= SEARCH - PLACED and index % 2:
            places.append(chains.x)
    flat = np.concatenate(places)
    spread = WIDER * flat.std(0) + 1e-6 * (1 + np.abs(flat).max(0))
    return chains, Start(flat.mean(0), spread)


def _annealed(
    flow: PulledDensity, start: Start, context: Array | None, seed: int, sizes: list[float]
) -> float:
    """The log of the mean weight of chains moved from the start to the density. Step sizes are
    adapted if ``sizes`` is empty; fixed ones make each step a valid kernel.
    """
    rng = np.random.default_rng(seed)
    chains = Chains(flow, start, context, rng, start.draw(rng))
    weight, finds, length = np.zeros(CHAINS), not sizes, 0.3
    for index in range(TEMPERATURES):
        weight += (chains.log_p - start.log_prob(chains.x)) / TEMPERATURES
        length = length if finds else sizes[index]
        share = chains.step((index + 1) / TEMPERATURES, length)
        if finds:
            sizes.append(length)
            length *= FASTER if share > ACCEPTED else 1 / FASTER
    top = float(weight.max())
    return top if math.isinf(top) else top + math.log(float(np.exp(weight - top).mean()))


def _doubt(flow: PulledDensity, batch: Batch, chains: Chains, log_mass: float) -> None:
    """Raises `Undecidable` if a valid density may have that mass."""
    if repeats(flow, batch):
        raise Undecidable("the log-density is periodic, as for angles")
    best = int(np.argmax(chains.log_p))
    x, context = chains.x[[best]], None if batch.context is None else batch.context[:1]
    if _non_normalizable_ray(flow, x, chains, context):
        raise Undecidable(
            "the density does not decay far out; its support can be declared (?support=)"
        )
    mirrors = _count_equal_densities(flow, x, _mirrored(x), context)
    if HALF * mirrors * math.log(2) < log_mass <= mirrors * math.log(2) + 1:
        raise Undecidable("the density is that of magnitudes: mirrored points have the same")
    count = flow.density_shape[0]
    swapped, orders = (
        _count_equal_densities(flow, x, _swapped(x, count), context),
        math.lgamma(count + 1),
    )
    if swapped == count - 1 and HALF * orders < log_mass <= orders + 1:
        raise Undecidable("the density is that of sets: their members may be in any order")
    each = log_mass / x.shape[1]
    if any(abs(each - bits * math.log(2)) < ABOUT for bits in BITS):
        raise Undecidable("its mass is that of levels of data which are counted besides")


def _non_normalizable_ray(
    flow: PulledDensity, x: Array, chains: Chains, context: Array | None
) -> bool:
    """Whether the density decays too slowly to be integrable along some ray."""
    spread = chains.x.std(0) + 1e-6
    for way in _ways(flow, chains):
        rays = [x + sign * far * spread * way for far in (NEAR, FAR) for sign in (1, -1)]
        near, far = np.split(_log_p(flow, np.concatenate(rays), context), 2)
        with np.errstate(invalid="ignore"):
            falls = np.isneginf(far) | (near - far > math.log(FAR / NEAR) + MARGIN)
        if not falls.all():
            return True
    return False


def _ways(flow: PulledDensity, chains: Chains) -> Iterator[Array]:
    """Batches of directions, ``(k, size)``: coordinates, whole axes, random ones, and those in
    which the chains spread most.
    """
    size, shape = chains.x.shape[1], flow.density_shape
    rng = np.random.default_rng(size)
    yield np.eye(size)
    ones = [np.ones(size)]
    for axis, count in enumerate(shape if len(shape) > 1 else ()):
        for entry in range(count):
            one = np.zeros(shape)
            np.moveaxis(one, axis, 0)[entry] = 1
            ones.append(one.reshape(-1))
    spread = chains.x.std(0) + 1e-6
    yield np.stack(ones) * spread.mean() / spread  # all of the same length
    yield rng.standard_normal((DIRECTIONS, size))
    centered = (chains.x - chains.x.mean(0)) / (chains.x.std(0) + 1e-6)
    yield np.linalg.svd(centered, full_matrices=False)[2][:DIRECTIONS]


def _mirrored(x: Array) -> Array:
    """The points ``(size, size)`` with the sign of one coordinate changed, each in turn."""
    return np.asarray(x * (1 - 2 * np.eye(x.shape[1])))


def _swapped(x: Array, count: int) -> Array:
    """Up to ``count`` points with two neighbours along the first axis of the event swapped."""
    members = x.reshape(count, -1)
    orders = np.tile(np.arange(count), (max(1, count - 1), 1))
    for index in range(count - 1):
        orders[index, [index, index + 1]] = index + 1, index
    return members[orders].reshape(len(orders), -1)


def _count_equal_densities(
    flow: PulledDensity, x: Array, others: Array, context: Array | None
) -> int:
    log_p = _log_p(flow, np.concatenate([x, others]), context)
    return int((np.abs(log_p[1:] - log_p[0]) <= SAME * (1 + abs(log_p[0]))).sum())


def _log_p(flow: PulledDensity, flat: Array, context: Array | None) -> Array:
    """The log-density, -inf if it is not finite or the call raises, ``(n,)``."""
    parts = np.split(flat, range(ROWS, len(flat), ROWS))
    contexts = [None if context is None else np.repeat(context, len(part), 0) for part in parts]
    values = [log_prob_at_points(flow, *one, lost=1.0) for one in zip(parts, contexts, strict=True)]
    return np.concatenate(values)
