"""Laws of samples of which each is solved step by step: few rows of large events are enough."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flowref.laws.common.probes import DEARLY_DRAWN, DRAWN, few
from flowref.laws.density.clamped_samples import no_piling_up
from flowref.laws.density.independence import samples_independent
from flowref.laws.density.sampling import rsample_grad
from flowref.model import (
    REAL,
    UNCOUNTED,
    Array,
    Batch,
    CallCost,
    Cost,
    LinearCost,
    Mapped,
    Support,
    Unsupported,
)
from flowref.model.budget import Budget, BudgetExceeded, limited_budget

SIZE, SEEDS = 400, 30
DEAR = Cost({"sample": CallCost(repeats=True), "rsample": CallCost(repeats=True)})
BATCH = Batch(np.zeros((1, SIZE)), None, 1)
SCALES = np.exp(np.random.default_rng(0).standard_normal(SIZE))


def flow(
    noise: Callable[[np.random.Generator, int], Array], cost: Cost = DEAR, normal: bool = True
) -> Any:
    """A flow of many entries of unlike scales, sampled from some base noise."""
    asked: list[int] = []

    @functools.lru_cache  # what is dear is kept
    def sample(n: int, seed: int, context: Array | None = None) -> Array:
        asked.append(n)
        return 3 + SCALES * noise(np.random.default_rng([seed, 5]), n)

    def forward(x: Array, context: Array | None = None) -> Mapped:
        return Mapped((x - 3) / SCALES, np.full(len(x), -np.log(SCALES).sum()))

    return SimpleNamespace(
        asked=asked,
        sample=sample,
        forward=forward,
        calls={"sample": sample, "forward": forward},
        log_prob=lambda x, context=None: (
            -0.5 * (((x - 3) / SCALES) ** 2).sum(1) - SIZE / 2 * math.log(2 * math.pi)
        ),
        density_shape=(SIZE,),
        event_shape=(SIZE,),
        context_shape=None,
        density_support=Support.parse(REAL),
        normalizing="forward",
        operations=10,
        scale=0.0,
        dtype="float64",
        promises={"standard-normal-base": normal},
        facts=SimpleNamespace(declared=False, given=False, cost=cost),
    )


def independent(rng: np.random.Generator, n: int) -> Array:
    """Base noise as it should be."""
    return rng.standard_normal((n, SIZE))


def mirrored(rng: np.random.Generator, n: int) -> Array:
    """The second half of the rows mirrors the first."""
    half = rng.standard_normal((n - n // 2, SIZE))
    return np.concatenate([half, -half[: n // 2]])


def in_pairs(rng: np.random.Generator, n: int) -> Array:
    """Every second row mirrors the one before."""
    half = rng.standard_normal((n - n // 2, SIZE))
    return np.stack([half, -half], 1).reshape(-1, SIZE)[:n]


def chained(rng: np.random.Generator, n: int) -> Array:
    """Each row follows the one before, as in a Markov chain."""
    rows = [rng.standard_normal(SIZE)]
    while len(rows) < n:
        rows.append(0.95 * rows[-1] + math.sqrt(1 - 0.95**2) * rng.standard_normal(SIZE))
    return np.stack(rows)


def clamped(rng: np.random.Generator, n: int) -> Array:
    """Noise that ends at two and a half deviations."""
    return rng.standard_normal((n, SIZE)).clip(-2.5, 2.5)


@pytest.mark.parametrize("noise", [independent, chained])
def test_rows_without_mirror_are_not_accused(noise: Callable[..., Array]) -> None:
    """Whatever is drawn: rows that are independent, and rows of a chain."""
    for seed in range(SEEDS):
        residual = samples_independent.measure(flow(noise), Batch(BATCH.x, None, seed))
        assert float(residual.per_row()[0]) <= 1


@pytest.mark.parametrize("noise", [mirrored, in_pairs])
def test_rows_that_mirror_each_other_are_seen_in_four(noise: Callable[..., Array]) -> None:
    """Antithetic noise is caught, and no more than four rows are drawn at once."""
    subject = flow(noise)
    assert float(samples_independent.measure(subject, BATCH).per_row()[0]) > 1
    assert set(subject.asked) == {4}


def test_a_base_that_is_no_normal_one_decides_nothing() -> None:
    """Entries that depend on each other would look like rows that do."""
    subject = flow(independent, normal=False)
    with pytest.raises(Unsupported, match="standard-normal-base"):
        samples_independent.measure(subject, BATCH)


def test_latents_that_were_clamped_meet_at_an_end_in_few_rows() -> None:
    """Together the entries of four rows show atoms; those of whole noise show none."""
    residual = no_piling_up.measure(flow(clamped), BATCH)
    assert float(residual.per_row()[0]) > float(np.max(residual.allowed))
    for seed in range(SEEDS):
        subject = flow(independent)
        residual = no_piling_up.measure(subject, Batch(BATCH.x, None, seed))
        assert float(residual.per_row()[0]) <= float(np.max(residual.allowed))
        assert subject.asked == [4]


def test_a_probe_draws_one_point_where_each_is_dear() -> None:
    """And several where they are not."""
    assert few(flow(independent), "sample") == DEARLY_DRAWN == 1
    assert few(flow(independent, UNCOUNTED), "sample") == DRAWN


def test_gradients_of_samples_that_take_too_long_are_told_before_they_are_drawn() -> None:
    """With the time that they would take."""
    cost = Cost({"rsample": CallCost(repeats=True, work=LinearCost(0.0, 1e9))})
    subject = flow(independent, cost)
    with (
        limited_budget(Budget(work=1e10)),
        pytest.raises(BudgetExceeded, match="takes about 80 s: --timeout"),
    ):
        rsample_grad.measure(subject, BATCH)
    assert not subject.asked
