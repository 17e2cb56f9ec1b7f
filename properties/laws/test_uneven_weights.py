"""Where few weights hold most of a mean, means that are bounded tell two joint distributions apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowref import check
from flowref.checking import Settings
from flowref.laws.common.statistics import ERRORS
from flowref.laws.contribution.calls import Given
from flowref.laws.contribution.two_ways import SHARE_IN_COMMON, Budget, bounded_means
from flowref.laws.contribution.weights import filled
from flowref.loading import load
from flowref.model import Batch, Status
from flowref.registry import parse_target
from rows import first_of

POOLED = "flowref_zoo.specimens.surjective:pooled"
HEALTHY = (
    POOLED,
    "flowref_zoo.specimens.surjective:absolute",
    "flowref_zoo.specimens.surjective:drop",
    "reference:MaxPool",
    "reference:Metropolis",
    "reference:RAD",
)
LAW = "kernel/follows-contribution"


def means(target: str, seed: int) -> Budget | None:
    """Of one kernel, whatever its weights are."""
    flow: Any = load(parse_target(target))
    batch = Batch(np.zeros((1, *flow.event_shape)), None, seed)
    flow = Given(flow, batch)
    return bounded_means(flow, filled(flow, seed), seed)


@pytest.mark.parametrize("seed", first_of(range(3)))
@pytest.mark.parametrize("target", HEALTHY)
def test_bounded_means_of_healthy_kernels_agree(target: str, seed: int) -> None:
    """Both directions have one mean of each bounded function."""
    found = means(target, seed)
    assert found is not None
    assert found.excess <= 1


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_one_choice_for_all_groups_is_seen(seed: int) -> None:
    """Contributions that count a choice in each group, and an inverse that makes one for all."""
    assert check(POOLED, LAW, Settings("quick", seed=seed)).status is not Status.VIOLATED
    verdict = check(f"{POOLED}?defect=one-choice", LAW, Settings("quick", seed=seed))
    assert verdict.status is Status.VIOLATED


def test_unknown_contributions_decide_nothing() -> None:
    """Of what is drawn backward nobody tells the contribution."""
    flow: Any = load(parse_target("flowref_zoo.specimens.surjective:variational_layer"))
    flow = Given(flow, Batch(np.zeros((1, 2)), None, 0))
    # Its inverse returns no contribution, and forward draws another latent.
    assert bounded_means(flow, filled(flow, 0), 0) is None


@pytest.mark.parametrize(
    ("apart", "accused"),
    [(0.9 * SHARE_IN_COMMON, False), (1.1 * SHARE_IN_COMMON, True)],
    ids=["within", "beyond"],
)
def test_a_share_of_what_is_common_is_allowed(apart: float, accused: bool) -> None:
    """However small standard errors are."""
    assert (Budget(0.3 * apart, 1e-9, 0.3).excess > 1) is accused
    assert Budget(0.3 * apart, apart, 0.3).excess < 1 / ERRORS
