"""Samples held to densities: what is correct is not accused, and what the statements say is seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flowref.laws.density.balance import detailed_balance
from flowref.laws.density.form import log_prob_shape
from flowref.laws.density.independence import rows_differ
from flowref.laws.density.overlap import overlap
from flowref.laws.density.support import support
from flowref.laws.density.tails import FEW_RAYS, tails
from flowref.model import (
    REAL,
    UNCOUNTED,
    Array,
    Batch,
    CallCost,
    Cost,
    Law,
    LinearCost,
    Support,
    Undecidable,
    Unsupported,
)
from flowref.model.budget import Budget, limited_budget

SEEDS = 20
LOG_2_PI = math.log(2 * math.pi)


def density(
    sample: Callable[[np.random.Generator, int], Array],
    log_prob: Callable[[Array], Array],
    size: int = 2,
    within: object = REAL,
) -> Any:
    """A density of numpy functions, as laws see one."""
    return SimpleNamespace(
        sample=lambda n, seed, context=None: sample(np.random.default_rng([seed, 3]), n),
        log_prob=lambda x, context=None: log_prob(x),
        forward=None,
        inverse=None,
        density_shape=(size,),
        context_shape=None,
        density_support=Support.parse(within),
        operations=10,
        dtype="float64",
        promises={},
        facts=SimpleNamespace(declared=within is not REAL, cost=UNCOUNTED),
    )


def normal(size: int, *, scale: float = 1.0, shift: float = 0.0, constant: float = 0.0) -> Any:
    """A standard normal density, and samples that may be off."""

    def sample(rng: np.random.Generator, n: int) -> Array:
        return np.asarray(scale * rng.standard_normal((n, size)) + shift * np.eye(size)[0])

    return density(sample, lambda x: -0.5 * (x**2).sum(1) - 0.5 * size * LOG_2_PI + constant, size)


def _in_blocks(rng: np.random.Generator, n: int) -> Array:
    """Two components, one after the other."""
    first = rng.binomial(n, 0.5)
    shift = np.where(np.arange(n) < first, -2.0, 2.0)[:, None]
    return np.asarray(rng.standard_normal((n, 2)) + shift * np.array([1.0, 0.0]))


def _two(x: Array) -> Array:
    sides = [-0.5 * ((x - np.array([side, 0.0])) ** 2).sum(1) for side in (-2.0, 2.0)]
    return np.asarray(np.logaddexp(*sides) - math.log(2) - LOG_2_PI)


def _box(x: Array) -> Array:
    return np.where((np.abs(x) < 1).all(1), -2 * math.log(2), -np.inf)


def _banana(x: Array) -> Array:
    return np.asarray(-0.5 * (x[:, 0] ** 2 + (x[:, 1] - x[:, 0] ** 2) ** 2) - LOG_2_PI)


def _bent(rng: np.random.Generator, n: int) -> Array:
    z = rng.standard_normal((n, 2))
    return np.stack([z[:, 0], z[:, 1] + z[:, 0] ** 2], 1)


def _steps(x: Array) -> Array:
    # A density that jumps: nine tenths of the mass on one half of the square.
    return _box(x) + np.log(np.where(x[:, 0] > 0, 1.8, 0.2))


def _stepwise(rng: np.random.Generator, n: int) -> Array:
    x = rng.uniform(-1, 1, (n, 2))
    x[:, 0] = np.abs(x[:, 0]) * np.where(rng.random(n) < 0.9, 1, -1)
    return x


# Levels are squeezed into (ALPHA, 1 - ALPHA) before a logit, so that samples leave the unit interval that
# data are drawn from.
ALPHA, WIDE = 0.05, 3.0


def _leaking(rng: np.random.Generator, n: int) -> Array:
    p = 1 / (1 + np.exp(-WIDE * rng.standard_normal((n, 2))))
    return np.asarray((p - ALPHA) / (1 - 2 * ALPHA))


def _squeezed(x: Array) -> Array:
    p = ALPHA + (1 - 2 * ALPHA) * x
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (np.log(p) - np.log1p(-p)) / WIDE
        slope = (1 - 2 * ALPHA) / (WIDE * p * (1 - p))
        return np.asarray((-0.5 * z**2 - 0.5 * LOG_2_PI + np.log(slope)).sum(1))


CORRECT = {
    "normal": normal(3),
    "many dimensions": normal(40),
    "heavy tails": density(
        lambda rng, n: rng.standard_cauchy((n, 2)),
        lambda x: (-math.log(math.pi) - np.log1p(x**2)).sum(1),
    ),
    "undeclared ends": density(lambda rng, n: rng.uniform(-1, 1, (n, 2)), _box),
    "declared ends": density(
        lambda rng, n: rng.exponential(size=(n, 2)), lambda x: -x.sum(1), within="positive"
    ),
    "bent": density(_bent, _banana),
    "angles": density(
        lambda rng, n: rng.vonmises(0.0, 2.0, (n, 2)),
        lambda x: (2 * np.cos(x)).sum(1) - 2 * math.log(2 * math.pi * np.i0(2.0)),
    ),
    "jumps": density(_stepwise, _steps),
    "one component after the other": density(_in_blocks, _two),
    "squeezed before a logit": density(_leaking, _squeezed, within="unit"),
}


@pytest.mark.parametrize("law", [detailed_balance, overlap, tails], ids=lambda law: law.id)
@pytest.mark.parametrize("name", CORRECT)
def test_nothing_correct_is_accused(name: str, law: Law) -> None:
    """Whatever the tails, ends and jumps of a density, samples that follow it accuse nobody."""
    flow = CORRECT[name]
    for seed in range(0, 17 * SEEDS, 17):
        try:
            residual = law.measure(flow, Batch(np.zeros((1, *flow.density_shape)), None, seed))
        except Undecidable:
            assert name == "angles"
            continue
        assert float(residual.value[0]) <= float(np.asarray(residual.allowed))


SEEN = {
    "scale in four dimensions": (detailed_balance, normal(4, scale=0.98)),
    "scale in one": (detailed_balance, normal(1, scale=0.95)),
    "scale in many": (detailed_balance, normal(40, scale=0.98)),
    "shift": (detailed_balance, normal(3, shift=0.12)),
    "constant": (overlap, normal(2, constant=0.02)),
    "constant in many": (overlap, normal(16, constant=0.05)),
    "huge constant": (overlap, normal(16, constant=13.8)),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_the_statement_says_is_seen(name: str) -> None:
    """A bias of the size that a statement names is seen in all but a few of twenty tries."""
    law, flow = SEEN[name]
    batches = [Batch(np.zeros((1, *flow.density_shape)), None, 17 * seed) for seed in range(SEEDS)]
    seen = sum(float(law.measure(flow, batch).value[0]) > 1 for batch in batches)
    assert seen >= SEEDS - 2


# Samples that are solved for step by step, of which 400 are drawn.
DEAR = Cost({"sample": CallCost(repeats=True, work=LinearCost(1e8, 2e6))})


def dear(flow: Any) -> Any:
    """The same density with such samples."""
    flow.operations, flow.facts = 20_000, SimpleNamespace(declared=flow.facts.declared, cost=DEAR)
    return flow


@pytest.mark.parametrize("size", [3, 21])
def test_of_few_dear_samples_all_are_moved_by_every_map(size: int) -> None:
    """Samples of the density accuse nobody, and a shift by a spread is seen in most tries: a quarter
    of the samples each shows none.
    """
    batches = [Batch(np.zeros((1, size)), None, 17 * seed) for seed in range(SEEDS)]
    healthy, moved = dear(normal(size)), dear(normal(size, shift=1.0))
    measured = [float(detailed_balance.measure(healthy, batch).value[0]) for batch in batches]
    assert max(measured) <= 1
    measured = [float(detailed_balance.measure(moved, batch).value[0]) for batch in batches]
    assert sum(value > 1 for value in measured) >= SEEDS / 2


@pytest.mark.parametrize("size", [2, 4])
def test_of_a_thousand_samples_maps_along_every_axis_are_judged(size: int) -> None:
    """By so many of them that a shift by 0.4 spreads along one is seen in most tries."""
    flow = normal(size, shift=0.4)
    flow.operations = 4_000
    batches = [Batch(np.zeros((1, size)), None, 17 * seed) for seed in range(SEEDS)]
    seen = sum(float(detailed_balance.measure(flow, batch).value[0]) > 1 for batch in batches)
    assert seen > 0.7 * SEEDS


@pytest.mark.parametrize("law", [detailed_balance, overlap], ids=lambda law: law.id)
def test_of_heavy_calls_as_few_samples_are_drawn_as_can_be_judged(law: Law) -> None:
    """Where there is no time for more, of which nothing would be said."""
    flow = normal(3)
    asked: list[int] = []
    work = LinearCost(0.0, 1e7)
    cost = Cost({"sample": CallCost(work=work), "log_prob": CallCost(work=work)})
    flow.operations, flow.facts = 4_000, SimpleNamespace(declared=False, cost=cost)
    sample = flow.sample

    def counted(n: int, seed: int, context: Array | None = None) -> Array:
        asked.append(n)
        return np.asarray(sample(n, seed))

    flow.sample = counted
    with limited_budget(Budget(work=1e10)):
        assert float(law.measure(flow, Batch(np.zeros((1, 3)), None, 0)).value[0]) <= 1
    assert max(asked) == 400
    asked.clear()
    law.measure(flow, Batch(np.zeros((1, 3)), None, 0))
    assert max(asked) == 1_000


@pytest.mark.parametrize("stays", [False, True])
def test_few_rays_tell_a_density_that_does_not_decay(stays: bool) -> None:
    """Where a log-density is dear, and of one that does in no direction."""
    flow = normal(3)
    work = LinearCost(0.0, 1e9)
    cost = Cost({"log_prob": CallCost(work=work), "sample": CallCost(work=work)})
    flow.facts = SimpleNamespace(declared=True, cost=cost)
    asked: list[int] = []
    log_prob = flow.log_prob

    def counted(x: Array, context: Array | None = None) -> Array:
        asked.append(len(x))
        decays = np.asarray(log_prob(x))
        return np.maximum(decays, -20.0) if stays else decays

    flow.log_prob = counted
    with limited_budget(Budget(work=1e11)):
        found = tails.measure(flow, Batch(np.zeros((1, 3)), None, 0))
    assert bool(found.value[0] > np.asarray(found.allowed)) is stays
    assert asked[:2] == [FEW_RAYS, FEW_RAYS]


@pytest.mark.parametrize("law", [detailed_balance, overlap], ids=lambda law: law.id)
def test_no_density_is_asked_for_where_hardly_a_sample_lies_within_the_others(law: Law) -> None:
    """Of thousands of entries one lies outside nearly always, and nothing is said."""
    flow = normal(4_000)
    flow.operations = 4_000

    def asked(x: Array, context: Array | None = None) -> Array:
        pytest.fail("the log-density of samples was asked for")

    flow.log_prob = asked
    with pytest.raises(Undecidable):
        law.measure(flow, Batch(np.zeros((1, 4_000)), None, 0))


def test_balance_asks_for_no_normalizer() -> None:
    """A constant in the log-density is no matter of detailed balance."""
    residual = detailed_balance.measure(normal(2, constant=5.0), Batch(np.zeros((1, 2)), None, 0))
    assert float(residual.value[0]) <= 1


def test_what_rounding_may_do_is_no_evidence() -> None:
    """Where a density is resolved in no digit of its points, samples that seem off accuse nobody."""
    off = normal(2, scale=0.9)
    exact = off.log_prob

    def scattered(x: Array, context: Array | None = None) -> Array:
        return np.asarray(exact(x) + 0.02 * np.sin(1e14 * x[:, 0]))

    batch = Batch(np.zeros((1, 2)), None, 0)
    assert float(overlap.measure(off, batch).value[0]) > 1
    off.log_prob = scattered
    for law in (overlap, detailed_balance):
        with pytest.raises(Undecidable, match="rounding alone"):
            law.measure(off, batch)


def test_where_there_is_no_mass_rounding_shields_nobody() -> None:
    """A density of one half of the samples' space, resolved in no digit on the other, where it is as good
    as zero whatever rounding does, is not that of samples that fill both.
    """

    def half(x: Array) -> Array:
        known = -0.5 * (x**2).sum(1) - LOG_2_PI + math.log(2)
        nowhere = -1e9 * (1 + 0.05 * np.sin(1e14 * x[:, 0]))
        return np.where(x[:, 0] > 0, known, nowhere)

    batch = Batch(np.zeros((1, 2)), None, 0)
    both = density(lambda rng, n: rng.standard_normal((n, 2)), half)
    assert float(overlap.measure(both, batch).value[0]) > 1

    def sides(rng: np.random.Generator, n: int) -> Array:
        return np.asarray(np.abs(rng.standard_normal((n, 2))) * np.array([1.0, -1.0]))

    def quarter(x: Array) -> Array:
        return np.where(x[:, 1] < 0, half(x) + math.log(2), -np.inf)

    assert float(overlap.measure(density(sides, quarter), batch).value[0]) <= 1


def test_a_constant_is_seen_where_samples_leave_the_support() -> None:
    """Where samples leave where data are drawn, the density is held to them there as well."""
    off = density(_leaking, lambda x: _squeezed(x) + 0.3, within="unit")
    assert float(overlap.measure(off, Batch(np.zeros((1, 2)), None, 0)).value[0]) > 1


def _squashed(rng: np.random.Generator, n: int) -> Array:
    return np.tanh(3 * rng.standard_normal((n, 2)))


def _policy(x: Array) -> Array:
    inside = np.clip(x, -0.999999, 0.999999)
    base = -0.5 * (np.arctanh(inside) / 3) ** 2 - math.log(3) - 0.5 * LOG_2_PI
    return np.asarray((base - np.log1p(-(inside**2))).sum(1))


def test_a_density_that_is_clamped_where_no_sample_is_is_not_accused() -> None:
    """A squashed normal whose ends are undeclared stays up beyond them, and nothing is said of it;
    a normal that stays up is accused.
    """
    batch = Batch(np.zeros((1, 2)), None, 0)
    with pytest.raises(Undecidable, match=r"\?support="):
        tails.measure(density(_squashed, _policy), batch)
    plain = normal(2)
    exact = plain.log_prob
    plain.log_prob = lambda x, context=None: np.maximum(exact(x), -6.0)
    residual = tails.measure(plain, batch)
    assert float(residual.value[0]) > float(np.asarray(residual.allowed))


def test_mass_outside_a_support_is_accused_unless_it_refuses() -> None:
    """A density that goes on beyond its declared end is accused; one that raises there, gives
    nothing there or has the samples to show for it is not.
    """
    batch = Batch(np.zeros((1, 2)), None, 0)

    def draws(rng: np.random.Generator, n: int) -> Array:
        return rng.exponential(size=(n, 2))

    def refuses(x: Array) -> Array:
        if (x < 0).any():
            raise ValueError("negative")
        return np.asarray(-x.sum(1))

    def verdict(log_prob: Callable[[Array], Array], sample: Any = draws) -> bool:
        residual = support.measure(density(sample, log_prob, within="positive"), batch)
        return float(residual.value[0]) > float(np.asarray(residual.allowed))

    assert verdict(lambda x: -np.abs(x).sum(1))
    assert verdict(lambda x: -x.sum(1))
    assert not verdict(refuses)
    assert not verdict(lambda x: np.where((x > 0).all(1), -x.sum(1), -np.inf))
    assert not verdict(
        lambda x: -np.abs(x).sum(1) - 2 * math.log(2), lambda rng, n: rng.laplace(size=(n, 2))
    )


def test_angles_repeat() -> None:
    """A density that repeats with the width of its support is not accused of going on."""
    flow = density(
        lambda rng, n: rng.uniform(0, 1, (n, 2)), lambda x: np.zeros(len(x)), within="unit"
    )
    with pytest.raises(Unsupported, match="it is periodic"):
        support.measure(flow, Batch(np.zeros((1, 2)), None, 0))


@pytest.mark.parametrize("law", [detailed_balance, overlap, rows_differ], ids=lambda law: law.id)
def test_discrete_samples_are_left_alone(law: Law) -> None:
    """Counts have no density, and equal ones are no bug."""
    counts = density(
        lambda rng, n: rng.poisson(3.0, (n, 2)).astype(float), lambda x: -x.sum(1), within="real"
    )
    with pytest.raises(Undecidable):
        law.measure(counts, Batch(np.zeros((1, 2)), None, 0))


def test_noise_that_rows_share_is_seen() -> None:
    """Samples of one call that repeat each other are accused, those that differ are not, nor those
    of a chain that stays where it is for a while.
    """
    batch, flow = Batch(np.zeros((1, 2)), None, 0), normal(2)
    residual = rows_differ.measure(flow, batch)
    assert float(residual.value[0]) == 0
    drawn = flow.sample
    flow.sample = lambda n, seed, context=None: np.repeat(drawn(n // 2, seed), 2, axis=0)
    residual = rows_differ.measure(flow, batch)
    assert float(residual.value[0]) > float(np.asarray(residual.allowed))
    stay = np.random.default_rng(0).random(512) < 0.6
    flow.sample = lambda n, seed, context=None: drawn(n, seed)[
        np.maximum.accumulate(np.where(stay[:n], 0, np.arange(n)))
    ]
    residual = rows_differ.measure(flow, batch)
    assert float(residual.value[0]) == 0


@pytest.mark.parametrize(
    ("shape", "wrong"), [((), False), ((1,), False), ((2,), True), (None, True)]
)
def test_a_log_density_is_one_number_for_each_point(
    shape: tuple[int, ...] | None, wrong: bool
) -> None:
    """A number for each point, or a column of them; no number for each entry, none for the batch."""
    flow = normal(2)
    flow.log_prob = lambda x, context=None: np.zeros(() if shape is None else (len(x), *shape))
    residual = log_prob_shape.measure(flow, Batch(np.zeros((7, 2)), None, 0))
    assert bool(residual.value.any()) is wrong
    assert bool(residual.note) is wrong


def _rough(size: int, scale: float = 1.0) -> Any:
    """Narrow peaks in each of many entries: a step away the density is another by many nats."""
    width, peaks = 0.05, np.array([-1.0, 0.0, 1.0])

    def sample(rng: np.random.Generator, n: int) -> Array:
        centers = rng.choice(peaks, (n, size))
        return np.asarray(scale * (centers + width * rng.standard_normal((n, size))))

    def log_prob(x: Array) -> Array:
        terms = -0.5 * ((x[..., None] - peaks) / width) ** 2
        top = terms.max(-1)
        mixed = top + np.log(np.exp(terms - top[..., None]).sum(-1) / len(peaks))
        return np.asarray((mixed - math.log(width) - 0.5 * LOG_2_PI).sum(1))

    return density(sample, log_prob, size)


def test_a_density_that_is_rough_in_many_entries_is_balanced_at_smaller_steps() -> None:
    """It is not accused, and samples whose scale is off by six hundredths are."""
    for seed in range(4):
        residual = detailed_balance.measure(_rough(40), Batch(np.zeros((1, 40)), None, seed))
        assert float(residual.per_row()[0]) <= 1
    residual = detailed_balance.measure(_rough(40, 1.06), Batch(np.zeros((1, 40)), None, 1))
    assert float(residual.per_row()[0]) > 1
