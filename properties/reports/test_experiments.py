"""The experiments of Real NVP and of likelihoods: a command that goes on where it was killed, and a page that holds
what was measured.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from effort import PATIENCE
from flowref.reference import ActNorm, AffineCoupling, Flow, InvertibleBatchNorm
from flowref.reference.batch_norm import BatchNorm
from flowref.training import baselines, data, models, runs
from flowref.training.extras import RunError
from flowref.training.loop import Training
from flowref.training.recipes import RECIPES, Recipe
from flowref.training.variants import VARIANTS, NormalMixture
from rows import DEEP

REPORTS = Path(__file__).parents[2] / "reports"
# Script of a page -> its experiments.
NAMES = {
    "real_nvp": ("E10", "E11", "E4", "E5", "E7", "E8", "E9"),
    "likelihoods": ("moons",),
}
SHARED = ("command", "experiment", "truth")


def part(name: str) -> Any:
    """A module of the pages, which is no package of flowref."""
    return importlib.import_module(f"{'experiments' if name in SHARED else 'real_nvp_page'}.{name}")


def page_of(script: str) -> Any:
    """The page of a script."""
    return importlib.import_module(script).PAGE


def run(script: str, *words: str) -> int:
    """Run the command of a page in this process."""
    code: int = part("command").main(page_of(script), [*words])
    return code


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the script as a user does."""
    line = [sys.executable, str(REPORTS / "tools" / "real_nvp.py"), *words]
    return subprocess.run(
        line,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The script sets the number of threads of its process; put it back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


# The command


@pytest.mark.parametrize(
    ("script", "name"), [(script, name) for script, names in NAMES.items() for name in names]
)
def test_a_rehearsal_measures_draws_and_writes(
    script: str, name: str, tmp_path: Path, one_thread: None
) -> None:
    """Each experiment leaves one JSON file, pictures that the page shows, and a page without other
    numbers.
    """
    page = page_of(script)
    folder = tmp_path / page.name
    words = ["--rehearse", "--out", str(tmp_path), "--runs", str(tmp_path / "runs")]
    assert run(script, name, *words) == 0
    results = json.loads((folder / f"{name}.json").read_text())
    assert (
        results["rehearsal"]
        and results["checks"]
        and {"torch", "numpy"} <= set(results["versions"])
    )
    assert all({"group", "seed"} <= set(row) for row in results["runs"])
    trained = [row for row in results["runs"] if "recipe" in row]
    assert trained and all(row["recipe"]["seed"] == row["seed"] for row in trained)
    text = (tmp_path / f"{page.name}.md").read_text()
    pictures = sorted(path.name for path in folder.glob("*.[ps][nv]g"))
    assert pictures and all(f"({page.name}/{picture})" in text for picture in pictures)
    assert text.count(f"]({page.name}/") == len(pictures)
    assert "nan" not in text
    assert page.text(tmp_path) == text
    assert not list(folder.glob(".*"))


@DEEP
def test_finished_seeds_are_not_trained_again(
    tmp_path: Path, one_thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done is read, what is missing is done again, and the results are those of a run that
    was not disturbed.
    """
    experiment = part("experiment")
    words = ["E9", "--rehearse", "--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")]
    assert run("real_nvp", *words) == 0
    path = tmp_path / "out" / "real-nvp" / "E9.json"
    first = json.loads(path.read_text())
    [lost] = (tmp_path / "runs").glob("E9-*/mixture-drawn-start-1")
    for file in lost.iterdir():
        file.unlink()
    begun: list[int] = []

    class Counted(Training):
        """A training that tells that it is run."""

        def run(self, *rest: Any) -> bool:
            begun.append(self.recipe.seed)
            return super().run(*rest)

    monkeypatch.setattr(experiment, "Training", Counted)
    assert run("real_nvp", *words) == 0
    assert begun == [1]
    again = json.loads(path.read_text())
    for results in (first, again):
        for row in results["runs"]:
            del row["seconds"]
        del results["seconds"]
    assert again == first


def test_a_killed_training_goes_on_within_its_seed(tmp_path: Path) -> None:
    """A seed that ended in the middle begins where it was, and comes to the same weights."""
    experiment = part("experiment")
    [task] = [
        task
        for task in part("filament").tasks(experiment.Effort(True))
        if task.key == "normal-base-1"
    ]
    dataset = experiment.Effort(True).data("pair")
    recipe = Recipe(**{**task.recipe.__dict__, "batch": 32})
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        folder.mkdir()
        runs.replace_file(folder / runs.CONFIG, recipe.to_json().encode())
    experiment.Training(recipe, dataset, whole).run(experiment.Watcher())
    interrupted = experiment.Training(recipe, dataset, cut)
    interrupted.run(experiment.Watcher(), lambda: interrupted.progress.step == 2)
    resumed = experiment.Training(recipe, dataset, cut)
    resumed.restore()
    assert resumed.progress.step == 2
    resumed.run(experiment.Watcher())
    assert (
        runs.read_tensors(whole / runs.WEIGHTS)[0].keys()
        == runs.read_tensors(cut / runs.WEIGHTS)[0].keys()
    )
    for name, values in runs.read_tensors(whole / runs.WEIGHTS)[0].items():
        assert torch.equal(values, runs.read_tensors(cut / runs.WEIGHTS)[0][name])


def test_other_code_or_settings_begin_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rows are shared by runs of the same code and settings only; comments and docstrings are no
    code.
    """
    experiment, filament = part("experiment"), part("filament")
    effort = experiment.Effort(True)
    tasks = filament.tasks(effort)
    before = experiment.digest(filament.EXPERIMENT, tasks, effort)
    assert before == experiment.digest(filament.EXPERIMENT, filament.tasks(effort), effort)
    assert before != experiment.digest(filament.EXPERIMENT, tasks[:-1], effort)
    assert before != experiment.digest(part("handful").EXPERIMENT, tasks, effort)
    texts = ('"""One."""\nx = 1  # one\n', '"""Two."""\n\nx = 1\n', '"""One."""\nx = 2\n')
    for name, text in zip("abc", texts, strict=True):
        (tmp_path / name).write_text(text)
    first, second, third = (experiment.code(tmp_path / name) for name in "abc")
    assert first == second != third


@DEEP
def test_a_rehearsal_does_not_overwrite_the_page() -> None:
    """Numbers that say nothing are not written over those that were measured."""
    done = command("E4", "--rehearse")
    assert done.returncode == 2 and "--out" in done.stderr


@DEEP
def test_a_check_that_is_not_met_fails_the_command(
    tmp_path: Path, one_thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 1, and the page says so, when a hard check is not met."""
    command, filament, experiment = part("command"), part("filament"), part("experiment")
    rehearsal = experiment.conduct(
        filament.EXPERIMENT,
        experiment.Effort(True),
        tmp_path / "real-nvp",
        tmp_path / "runs",
        experiment.Watcher(),
    )
    for met in (True, False):
        found = {**rehearsal, "checks": [{"what": "it holds", "met": met}]}
        (tmp_path / "real-nvp" / "E9.json").write_text(json.dumps(found))
        monkeypatch.setattr(command, "conduct", lambda *_, found=found: found)
        assert run("real_nvp", "E9", "--out", str(tmp_path)) == (0 if met else 1)
        assert ("NOT MET" in (tmp_path / "real-nvp.md").read_text()) is not met


# The published page


@pytest.mark.parametrize("script", NAMES)
def test_the_page_is_written_from_the_numbers(script: str) -> None:
    """The published page is what `page` writes from the published JSON, all of it measured in full."""
    page = page_of(script)
    published = sorted((REPORTS / page.name).glob("*.json"))
    assert [path.stem for path in published] == list(NAMES[script])
    assert not any(json.loads(path.read_text())["rehearsal"] for path in published)
    assert (REPORTS / f"{page.name}.md").read_text(encoding="utf-8") == page.text(REPORTS)


@pytest.mark.parametrize("script", NAMES)
def test_the_published_settings_are_those_of_the_code(script: str) -> None:
    """Seeds and recipes of the published numbers are those that the experiments would use now; a
    setting that is newer than they are was its default.
    """
    experiment, page = part("experiment"), page_of(script)
    for each in page.experiments:
        rows = json.loads((REPORTS / page.name / f"{each.name}.json").read_text())["runs"]
        tasks = each.tasks(experiment.Effort())
        assert [(row["group"], row["seed"]) for row in rows] == [
            (task.group, task.seed) for task in tasks
        ]
        for row, task in zip(rows, tasks, strict=True):
            recipe = (
                None
                if task.recipe is None
                else {k: v for k, v in task.recipe.__dict__.items() if v is not None}
            )
            if recipe is None:
                assert row.get("recipe") is None
                continue
            newer = {
                field.name: field.default
                for field in dataclasses.fields(task.recipe)
                if field.name not in row["recipe"] and field.default is not None
            }
            assert {**newer, **row["recipe"]} == experiment.tidy(recipe)


# What is compared with


@pytest.mark.parametrize("name", ["moons", "circles", "blobs", "pair", "checkerboard", "random"])
def test_the_truth_is_a_density_of_its_points(name: str) -> None:
    """It integrates to 1, and no smoothed histogram of the points describes fresh points better."""
    truth = part("truth")
    points = data.DRAWN[name](4000, 1)
    low, high = points.min(0) - 0.5, points.max(0) + 0.5
    places = (np.arange(160) + 0.5) / 160
    grid = np.stack(np.meshgrid(*(low + (high - low) * places[:, None]).T), -1).reshape(-1, 2)
    density = np.exp(
        np.concatenate([truth.log_density(name, chunk) for chunk in np.array_split(grid, 8)])
    )
    assert density.mean() * (high - low).prod() == pytest.approx(1, abs=0.03)
    fresh = truth.independent(name, 4000, 0)
    assert not {row.tobytes() for row in points} & {row.tobytes() for row in fresh}
    mine = -truth.log_density(name, fresh).mean()
    assert mine == pytest.approx(-truth.log_density(name, points).mean(), abs=0.06)
    assert math.isfinite(mine) and mine < baselines.normal_nll(points, fresh) + 1e-6
    moved = -truth.log_density(name, fresh + 0.07)
    assert moved.mean() > mine


def test_discrepancy_sees_what_differs() -> None:
    """It is the plain double sum, about 0 for points drawn alike, and far above that for points
    that are not.
    """
    discrepancy = part("discrepancy")
    x, y = data.moons(30, 1), data.moons(40, 2) + 0.3

    def kernel(a: Any, b: Any) -> float:
        square = ((a - b) ** 2).sum()
        return float(np.mean([np.exp(-square / (2 * (0.8 / 2**k) ** 2)) for k in range(4)]))

    within = [
        sum(kernel(a, b) for i, a in enumerate(p) for j, b in enumerate(p) if i != j)
        / (len(p) * (len(p) - 1))
        for p in (x, y)
    ]
    plain = sum(within) - 2 * sum(kernel(a, b) for a in x for b in y) / (len(x) * len(y))
    assert discrepancy.squared(x, y, 0.8) == pytest.approx(plain, abs=1e-5)
    truth = part("truth")
    pairs = [[truth.independent("moons", 200, 2 * k + side) for side in (0, 1)] for k in range(8)]
    alike = [discrepancy.squared(*pair, 0.8) for pair in pairs]
    assert (
        abs(np.mean(alike))
        < 3e-3
        < discrepancy.squared(data.moons(200, 0), data.circles(200, 1), 0.8)
    )


def test_the_spread_is_students() -> None:
    """The interval of a mean is that of a t-test."""
    from scipy.stats import t

    values = [1.0, 2.0, 4.0]
    found = part("experiment").spread(values)
    low, high = t.interval(0.95, 2, np.mean(values), np.std(values, ddof=1) / 3**0.5)
    assert (found["low"], found["high"]) == pytest.approx((low, high))
    assert found["n"] == 3 and found["least"] == 1 and found["most"] == 4


@torch.no_grad()
def test_the_bound_of_the_round_trip_is_of_its_size() -> None:
    """For a linear map the bound is the formula itself, and a flow with an inverse that is off by a
    little exceeds it.
    """
    from flowref.reference import Affine, Chain, StandardNormal

    handful = part("handful")
    factors = torch.tensor([3.0, -0.25], dtype=torch.float64)
    flow = Flow(StandardNormal((2,)), Chain(Affine(torch.zeros(2), torch.ones(2)))).double()
    next(iter(flow.bijection)).scale.copy_(factors)  # type: ignore[call-overload]
    x = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    errors, bounds = handful.round_trip(flow, x)
    assert torch.allclose(bounds, 4 * x.abs())  # |x| through J and back, twice |y| back, and |x|
    assert bool((errors <= bounds).all())


# Variants of the models


def built(*variants: str, data_set: str = "moons") -> Flow:
    """A model with these changes, its weights drawn from one seed."""
    torch.manual_seed(0)
    base: dict[str, Any] = {"depth": 2, "hidden": [8]}
    if data_set == "digits":
        base = {"scales": 2, "couplings": 1, "final": 1, "hidden": 4, "blocks": 1}
    shape, levels = ((1, 8, 8), 17) if data_set == "digits" else ((2,), None)
    built = models.build(Recipe(data_set, model=base, variants=variants), shape, levels)
    assert isinstance(built, Flow)
    return built


def test_variants_change_what_they_say_and_nothing_else() -> None:
    """Other weights start as they do without a variant; the modules named are there, in their
    numbers.
    """

    def count(flow: Flow, kind: type) -> int:
        return sum(isinstance(module, kind) for module in flow.modules())

    plain = built()
    assert count(plain, InvertibleBatchNorm) == 2 and count(plain, ActNorm) == 0
    acted, normed = built("act-norm"), built("normed-conditioner")
    assert count(acted, InvertibleBatchNorm) == 0 and count(acted, ActNorm) == 2
    assert count(normed, BatchNorm) == count(plain, BatchNorm) + 2
    for flow in (acted, normed, built("nonzero-outputs"), built("mixture-base")):
        first, others = (
            next(m for m in f.modules() if isinstance(m, AffineCoupling)).conditioner
            for f in (plain, flow)
        )
        assert torch.equal(first[0].weight, others[0].weight)  # type: ignore[index]


@pytest.mark.parametrize("data_set", ["moons", "digits"])
def test_conditioners_that_do_not_start_at_zero(data_set: str) -> None:
    """No coupling is the identity any more, and every last layer differs from zero."""
    flow, plain = built("nonzero-outputs", data_set=data_set), built(data_set=data_set)
    for module, other in zip(flow.modules(), plain.modules(), strict=True):
        if isinstance(module, AffineCoupling) and isinstance(other, AffineCoupling):
            shape = (5, int(module.partition.mask.sum())) if data_set == "moons" else None
            if shape is not None:
                x = torch.randn(shape)
                assert module.conditioner(x).abs().min() > 0 and not other.conditioner(x).any()
            elif module.partition.mask.dim() == 2:
                assert not other.conditioner.leave.gain.any()  # type: ignore[union-attr, operator]
                assert module.conditioner.leave.gain.all()  # type: ignore[union-attr, operator]


def test_a_mixture_base_is_a_density() -> None:
    """Its density is a sum over components written out, its samples have the moments of that, and
    it finds two clusters.
    """
    torch.manual_seed(0)
    base = NormalMixture(2, 2).double()
    with torch.no_grad():
        base.logits.copy_(torch.tensor([0.3, -0.5]))
        base.log_diagonals.copy_(torch.tensor([[0.2, -0.4], [0.1, 0.5]]))
        base.below.copy_(torch.randn(2, 2, 2))
        z = base.sample(20_000, runs.seeded("mixture"))
        weights, factors = base.logits.softmax(0), base.factors()
        normals = [
            torch.distributions.MultivariateNormal(mean, scale_tril=factor)
            for mean, factor in zip(base.means, factors, strict=True)
        ]
        written = sum(
            weight * normal.log_prob(z).exp()
            for weight, normal in zip(weights, normals, strict=True)
        )
        assert torch.allclose(base.log_prob(z).exp(), torch.as_tensor(written))
        assert torch.allclose(z.mean(0), weights @ base.means, atol=0.05)
        second = sum(
            w * (torch.outer(m, m) + f @ f.T)
            for w, m, f in zip(weights, base.means, factors, strict=True)
        )
        assert torch.allclose(z.T @ z / len(z), torch.as_tensor(second), rtol=0.1, atol=0.05)
        placed = NormalMixture(2, 2).double()
        placed.place(torch.as_tensor(data.pair(5000, 3)))
        assert torch.allclose(
            placed.means.sort(0)[0][:, 0], torch.tensor([-3.0, 3.0]).double(), atol=0.05
        )
        assert torch.allclose(
            placed.factors().diagonal(dim1=1, dim2=2), torch.tensor(0.4).double(), atol=0.03
        )
    with pytest.raises(ValueError, match="base density"):
        base.log_prob(torch.zeros(3, 5))


def test_recipes_keep_their_variants(tmp_path: Path) -> None:
    """Variants survive being written and read; a name that there is not is refused by name; old
    files have none.
    """
    recipe = Recipe("moons", variants=("act-norm", "mixture-base"))
    assert Recipe.from_json(recipe.to_json(), "here") == recipe
    old = json.loads(recipe.to_json())
    del old["variants"]
    assert Recipe.from_json(json.dumps(old), "here").variants == ()
    with pytest.raises(RunError, match=r"'norms'.*expected one of"):
        built("norms")
    assert set(VARIANTS) >= set(recipe.variants) and set(RECIPES) == set(data.NAMES)
