"""Flows that are trained by matching: their loss, and the likelihood that it leads to."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from flowref.reference import Flow, ProbabilityFlow
from flowref.training import data, models
from flowref.training.families import FAMILIES
from flowref.training.flows import MATCHED
from flowref.training.objective import objective
from flowref.training.recipes import POINTS

STEPS, RATE = 800, 1e-2


def built(flow: str, dataset: data.Dataset) -> Flow:
    """A small one, at the scale of the data."""
    model = {**FAMILIES[flow][1], "hidden": [32, 32]}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = models.build(replace(POINTS, flow=flow, model=model), (2,), None)
    models.standardize(made, dataset)
    assert isinstance(made, Flow)
    return made


def points(number: int, seed: int) -> data.Dataset:
    """Two moons, all three parts alike."""
    moons = data.moons(number, seed)
    return data.Dataset("moons", moons, moons, moons)


@pytest.mark.parametrize("flow", MATCHED)
def test_matching_leads_to_a_likelihood(flow: str) -> None:
    """In some hundred steps the log-likelihood of new points rises above that of a normal with their moments."""
    dataset, new = points(2000, 0), points(300, 1).train
    made, random = built(flow, dataset), torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(made.parameters(), RATE)
    x = models.tensor(dataset.train)
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = RATE * (1 + math.cos(math.pi * step / STEPS)) / 2
        optimizer.zero_grad()
        batch = x[torch.randint(len(x), (256,), generator=random)]
        objective(made, batch, 0.0, random).total.backward()
        optimizer.step()
    with torch.no_grad():
        likelihood = made.log_prob(models.tensor(new)).mean().item()
    normal = np.linalg.slogdet(2 * math.pi * math.e * np.cov(new.T, bias=True))[1]
    assert likelihood > -0.5 * normal


@pytest.mark.parametrize("flow", MATCHED)
def test_the_loss_follows_from_its_generator(flow: str) -> None:
    """Times and noise are drawn from it alone, so that a training that is gone on with draws the same."""
    dataset = points(50, 0)
    made, x = built(flow, dataset), models.tensor(dataset.train)
    losses = [
        objective(made, x, 0.0, torch.Generator().manual_seed(seed)).total for seed in (0, 0, 1)
    ]
    assert losses[0] == losses[1] != losses[2]


def test_what_is_matched_is_the_last_map() -> None:
    """Points come to the scale of the field before they are noised: the loss of data at another scale is the
    same.
    """
    dataset = points(50, 0)
    larger = 100 * dataset.train
    scaled = data.Dataset("moons", larger, larger, larger)
    one, other = (
        objective(built("matching", of), models.tensor(of.train), 0.0, torch.Generator()).total
        for of in (dataset, scaled)
    )
    torch.testing.assert_close(one, other)
    assert any(isinstance(part, ProbabilityFlow) for part in built("diffusion", dataset).modules())
