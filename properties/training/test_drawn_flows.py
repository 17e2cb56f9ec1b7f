"""Flows with layers that draw or forget are fitted like any other, and what is said of them is a bound
that says so.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flowref.reference import Affine, KernelChain, StandardNormal, augment
from flowref.training import data, evaluation, fit, loop, models, plane, runs
from flowref.training.bounds import DrawnFlow, log_density, seeded_layers
from flowref.training.extras import RunError
from flowref.training.families import FAMILIES
from flowref.training.flows import FLOWS
from flowref.training.recipes import Recipe
from rows import DEEP

DRAWN = ("augmented", "stochastic", "rad")
# Less than the real ones, so that a training takes seconds.
OPTIONS: dict[str, dict[str, Any]] = {
    "augmented": {"depth": 2},
    "stochastic": {"depth": 2, "layers": 1, "steps": 1},
    "rad": {"depth": 2},
}


def recipe(flow: str, epochs: int = 30) -> Recipe:
    """A small one of a family."""
    options = {**FAMILIES[flow][1], "hidden": [16], **OPTIONS[flow]}
    return Recipe(
        "moons", flow=flow, model=options, epochs=epochs, batch=32, rate=1e-2, patience=99
    )


def dataset() -> data.Dataset:
    """Little data in three parts."""
    train, validation, test = (
        data.moons(number, seed) for seed, number in enumerate((107, 40, 40))
    )
    return data.Dataset("moons", train, validation, test)


def trained(folder: Path, what: Recipe, stops: tuple[int, ...] = ()) -> Path:
    """A run trained to its end, begun again from its files at each of the steps."""
    folder.mkdir()
    runs.replace_file(folder / runs.CONFIG, what.to_json().encode())
    for step in (*stops, 10**9):
        training = loop.Training(what, dataset(), folder)
        training.restore()
        training.run(loop.TrainingListener(), lambda now=training.progress, at=step: now.step >= at)  # type: ignore[misc]  # bound now
    return folder


def test_every_flow_is_built() -> None:
    """The names of flows are those that are built, and Real NVP."""
    assert set(FLOWS[1:]) == set(FAMILIES)


@pytest.mark.parametrize("flow", DRAWN)
def test_they_learn_points(flow: str, tmp_path: Path) -> None:
    """In a few steps the bound rises above the likelihood of a normal with the moments of the data."""
    folder = trained(tmp_path / "run", recipe(flow))
    found, points = runs.load(str(folder)), models.tensor(dataset().train)
    with torch.no_grad(), seeded_layers(found, runs.seeded(0)):
        bound = log_density(found, points).mean().item()
    normal = np.linalg.slogdet(2 * math.pi * math.e * np.cov(dataset().train.T, bias=True))[1]
    assert bound > -0.5 * normal


@pytest.mark.parametrize("flow", DRAWN)
def test_an_interrupted_training_draws_what_it_would_have(flow: str, tmp_path: Path) -> None:
    """Weights and states of a run that was begun again are those of a run that was not, bit by bit."""
    what = recipe(flow, 3)
    one, other = trained(tmp_path / "one", what), trained(tmp_path / "other", what, (1, 6))
    first, second = (runs.read_tensors(folder / runs.STATE)[0] for folder in (one, other))
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []


def test_what_is_drawn_follows_from_the_generator() -> None:
    """Samples of one seed are the same, and torch's own generator is left as it is."""
    made = models.build(recipe("stochastic"), (2,), None).eval()
    before = torch.random.get_rng_state()
    one, again, other = (made.sample(5, runs.seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, again) and not torch.equal(one, other)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_integral_of_a_bound_sees_missing_mass() -> None:
    """The mean over latents before the logarithm integrates to one; a contribution that is left out
    shows.
    """

    class Forgotten(DrawnFlow):
        def importance_bound(self, x: torch.Tensor, draws: int) -> torch.Tensor:
            return super().importance_bound(x, draws) - 0.1

    chain = KernelChain(Affine(torch.zeros(2), torch.ones(2)), augment(2, 1))
    base = StandardNormal((3,))
    assert plane.plane_integral(DrawnFlow(base, chain), 80_000, 5000) == pytest.approx(1, abs=5e-3)
    assert plane.plane_integral(Forgotten(base, chain), 80_000, 5000) == pytest.approx(
        math.exp(-0.1), abs=5e-3
    )


@DEEP
def test_a_summary_says_that_it_is_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the number of latents; a flow that draws nothing forward has none."""
    monkeypatch.setattr(plane, "EVALUATIONS", 20_000)
    found = {}
    for flow in ("augmented", "rad"):
        folder = trained(tmp_path / flow, recipe(flow, 1))
        found[flow] = fit.finish(folder, dataset())
        assert (folder / "density.png").stat().st_size > 1000
    assert "an upper bound by 64 latents" in found["augmented"].lines()[0]
    assert found["rad"].draws == 0 and "bound" not in found["rad"].lines()[0]


def test_pictures_show_nothing_where_a_flow_overflows() -> None:
    """What is no number, far from the data, has no color, and leaves those of all else as they are."""
    values = torch.tensor([0.5, float("nan"), float("inf"), 0.0])
    assert plane.displayed_density(values).tolist() == [0.5, 0.0, 0.0, 0.0]


def test_real_nvp_beside_it_is_named(tmp_path: Path) -> None:
    """The last finished run of Real NVP on the same data is one of the baselines; other data, other
    flows, runs without an end and damaged ones are not.
    """
    real = Recipe("moons", model={"depth": 1})
    for place, (name, what, text) in enumerate(
        [
            ("moons-1", real, '{"value": 0.5}'),
            ("moons-2", real, '{"value": 0.25}'),
            ("moons-3", recipe("rad"), '{"value": 0.1}'),
            ("pair-1", replace(real, dataset="pair"), '{"value": 0.1}'),
            ("moons-4", real, "{"),
        ]
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / runs.CONFIG).write_text(what.to_json())
        summary = tmp_path / name / runs.SUMMARY
        summary.write_text(text)
        os.utime(summary, (place, place))
    (tmp_path / "moons-5").mkdir()
    (tmp_path / "moons-5" / runs.CONFIG).write_text(real.to_json())
    beside = evaluation.siblings(tmp_path / "moons-3", recipe("rad"))
    assert beside == {"Real NVP, moons-2": 0.25}
    assert evaluation.siblings(tmp_path / "moons-1", real) == {}
    assert json.loads(summary.parent.joinpath(runs.CONFIG).read_text())["flow"] == "real-nvp"


def test_variants_are_those_of_real_nvp() -> None:
    """A recipe that asks for both is refused."""
    with pytest.raises(RunError, match="rad has no variants; got act-norm"):
        models.build(replace(recipe("rad"), variants=("act-norm",)), (2,), None)
