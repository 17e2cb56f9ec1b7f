"""A training run is watched: what goes wrong is said in one sentence, and a healthy run is silent."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import flowref
from flowref.cli.main import main
from flowref.watching import pace
from flowref.watching.lightning import Watch as Callback
from watching import training_runs

PACE = "one per cent of the time"


@pytest.fixture(autouse=True)
def seeded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same numbers each time, and checks as often as they are asked for."""
    monkeypatch.setattr(pace, "SHARE", 1e9)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def watched(
    model: Any,
    folder: Path,
    loss: Callable[[Any], Any] | None = None,
    steps: int = 12,
    **options: Any,
) -> list[str]:
    """What is said of a training run, watched at every third step."""
    said: list[str] = []
    with flowref.watch(model, every=3, report=said.append, folder=folder) as watch:
        training_runs.train(model, steps, loss or (lambda x: -model.log_prob(x).mean()), **options)
    assert [f"flowref.watch: {one}" for one in watch.findings] == said
    return said


HEALTHY = {
    "flow": training_runs.Flow,
    "batch norm": lambda: torch.nn.Sequential(training_runs.HalfNorm(), torch.nn.BatchNorm1d(4)),
}


@pytest.mark.parametrize("make", HEALTHY.values(), ids=list(HEALTHY))
def test_healthy_run_is_silent(make: Callable[[], Any], tmp_path: Path) -> None:
    """Nothing is said of a correct model, but how it is read, and no case is left."""
    model = make()
    loss = None if hasattr(model, "log_prob") else lambda x: model(x).square().mean()
    said = watched(model, tmp_path, loss)
    assert [one for one in said if "no map is recognized" not in one] == []
    assert list(tmp_path.iterdir()) == []


# Defect -> what the sentence says.
DEFECTS = {
    "log-det": r"map/log-det is violated",
    "inverse": r"map/inverse is violated",
    "rows": r"same/rows is violated",
    "unreached": r"no gradient reaches layers\.1\.spare \(training_runs\.py:\d+\)",
}


@pytest.mark.parametrize(("defect", "words"), DEFECTS.items(), ids=list(DEFECTS))
def test_defect_is_named(defect: str, words: str, tmp_path: Path) -> None:
    """A planted defect is said once, with its step."""
    model = training_runs.Flow(defect)
    model.scale(0, 0.3)
    model.scale(1, 0.3)
    said = [one for one in watched(model, tmp_path, steps=15) if re.search(words, one)]
    assert len(said) == 1
    assert re.match(r"flowref\.watch: step \d+: ", said[0])


@pytest.mark.parametrize("wrong", [False, True])
def test_statistics_are_judged(wrong: bool, tmp_path: Path) -> None:
    """A batch norm whose running variance is something else is named, and its correct twin is not."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), training_runs.HalfNorm(wrong=wrong))
    said = watched(model, tmp_path, lambda x: model(x).square().mean())
    assert any("batch-norm/statistics" in one and "1: " in one for one in said) == wrong


@pytest.mark.parametrize("moves", [False, True])
def test_statistics_that_stand_still(moves: bool, tmp_path: Path) -> None:
    """A running mean that stays as it was built is named; one that has converged is not."""
    norm, x = torch.nn.BatchNorm1d(4, momentum=0.9), torch.randn(16, 4)

    def reset(_: int) -> None:
        if not moves:
            norm.running_mean = torch.zeros(4)
            x.sub_(x.mean(0)).mul_(0)

    model = torch.nn.Sequential(norm)
    said = watched(
        model, tmp_path, lambda x: (model(x) - 1).square().mean(), batches=lambda _: x, each=reset
    )
    assert any("the running mean of 0 is 0 still" in one for one in said) != moves


def exploding(tmp_path: Path) -> list[str]:
    """A run whose log-scale is moved beyond what exp can take at step 5."""
    model = training_runs.Flow()

    def blow_up(step: int) -> None:
        if step == 5:
            model.scale(0, 95.0)

    return watched(model, tmp_path, steps=7, each=blow_up)


def test_first_operator_is_named(tmp_path: Path) -> None:
    """A step that is not finite is traced to its operator, layer, parameter and line, and said once."""
    said = [one for one in exploding(tmp_path) if "last good" in one]
    assert len(said) == 1
    assert re.search(
        r"step 5: exp in layers\.0 \(training_runs\.py:\d+\), which reads layers\.0\.log_scale, makes inf of finite numbers "
        r"up to 95; the gradient of \S+ is not finite; the last good step is 4; flowref replay \S+step-5$",
        said[0],
    )


def test_gradient_is_traced(tmp_path: Path) -> None:
    """Where values are finite and a gradient is not, the operator whose derivative makes it is named."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), training_runs.SquareRoot())

    def loss(x: torch.Tensor) -> Any:
        return model(x).sum()

    with torch.no_grad():
        model[0].weight.zero_()  # type: ignore[operator]
        model[0].bias.zero_()  # type: ignore[operator]
    (said,) = [one for one in watched(model, tmp_path, loss, steps=1) if "last good" in one]
    assert re.search(
        r"step 1: the gradient of sqrt in 1 \(training_runs\.py:\d+\) is (nan|inf), that of its result is finite",
        said,
    )


def test_loss_is_blamed_for_its_own(tmp_path: Path) -> None:
    """Where the results of the model are finite, and the gradient that comes back is not, the loss made it."""
    model = training_runs.Flow()
    said = watched(model, tmp_path, lambda x: (model.log_prob(x) * 0).sqrt().mean(), steps=1)
    assert any("the loss made it" in one for one in said)


def test_batch_is_blamed_for_its_own(tmp_path: Path) -> None:
    """Data that are not finite are named with their row."""
    model = training_runs.Flow()
    x = torch.randn(16, 4)
    x[3, 1] = torch.nan
    said = watched(model, tmp_path, steps=1, batches=lambda _: x)
    assert any("argument 0 of log_prob is not finite, first in row 3" in one for one in said)


def test_skipped_batch_is_said(tmp_path: Path) -> None:
    """A loop that leaves out batches that are not finite is told that it does."""
    model, said = training_runs.Flow(), list[str]()
    with flowref.watch(model, report=said.append, folder=tmp_path):
        model.log_prob(torch.full((4, 4), torch.inf))
    assert any("no step was taken with this batch" in one for one in said)


def test_refused_numbers_are_traced(tmp_path: Path) -> None:
    """A distribution that refuses nan ends the training, after what made it was said."""
    model, said = training_runs.Flow(), list[str]()
    normal = torch.distributions.Normal(0.0, 1.0, validate_args=True)
    model.scale(0, 95.0)

    class Density(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flow = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            density: torch.Tensor = normal.log_prob(self.flow(x)[0] * 0)
            return density

    outer = Density()
    with (
        pytest.raises(ValueError, match="support"),
        flowref.watch(outer, report=said.append, folder=tmp_path),
    ):
        outer(torch.randn(4, 4))
    assert any("exp in flow.layers.0" in one for one in said)


def test_masked_infinities_are_no_finding(tmp_path: Path) -> None:
    """Results that are not finite, and that the loss leaves out, are the user's own affair."""
    model = training_runs.Flow()

    def loss(x: torch.Tensor) -> Any:
        density = model.log_prob(x)
        return -density[torch.isfinite(density)].mean()

    x = torch.randn(16, 4)
    x[0] = 1e30
    said = watched(model, tmp_path, loss, steps=2, batches=lambda _: x)
    assert not any("last good" in one for one in said)


def test_growing_scales_are_said(tmp_path: Path) -> None:
    """An argument of exp near the end of single precision is said before it overflows."""
    model = training_runs.Flow()
    model.scale(1, -84.0)
    said = watched(model, tmp_path, steps=3)
    assert any("near where float32 overflows" in one and "layers.1" in one for one in said)


def test_model_that_changes(tmp_path: Path) -> None:
    """One sentence says that a model has changed, and training goes on."""
    model = training_runs.Flow()

    def change(step: int) -> None:
        if step == 5:
            model.layers.append(training_runs.Scaling())

    said = watched(model, tmp_path, each=change)
    assert len([one for one in said if "has changed while it was watched (" in one]) == 1
    assert not any("given up" in one for one in said)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_watched_model_can_be_copied(copied: Callable[[Any], Any], tmp_path: Path) -> None:
    """A copy of a watched model calls itself, and is not watched."""
    model, x = training_runs.Flow(), torch.randn(3, 4)
    with flowref.watch(model, folder=tmp_path):
        other = copied(model)
    with torch.no_grad():
        other.layers[0].log_scale.fill_(1.0)
    assert not torch.equal(other(x)[0], model(x)[0])


def test_watch_leaves_the_training_as_it_is(tmp_path: Path) -> None:
    """Weights after a watched run are those after the same run unwatched, bit for bit."""
    weights = []
    for on in (False, True):
        torch.manual_seed(1)
        model = training_runs.Flow()
        if on:
            watched(model, tmp_path)
            assert "forward" not in vars(model)
        else:
            training_runs.train(model, 12, lambda x, model=model: -model.log_prob(x).mean())  # type: ignore[misc]
        weights.append(torch.cat([one.detach().reshape(-1) for one in model.parameters()]))
    assert torch.equal(*weights)


def test_pace_keeps_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that takes two steps is made so seldom that its share is kept, and this is said once."""
    monkeypatch.setattr(pace, "SHARE", 0.01)
    now = iter([0.0, 102.0])
    kept = pace.Pace(100, clock=lambda: next(now))
    assert PACE in kept.finish(100, 2.0)
    assert kept.due_at == 100 + 200


@pytest.mark.parametrize("bad", [{"every": 0}, {"rows": 0}, {"model": len}])
def test_bad_arguments_are_one_sentence(bad: dict[str, Any]) -> None:
    """What cannot be watched is refused before anything is trained."""
    with pytest.raises(flowref.FlowrefError, match=r"^a watch needs [^\n]+$"):
        flowref.watch(**{"model": training_runs.Flow(), **bad})


def test_case_is_replayed(tmp_path: Path) -> None:
    """A step that was not finite is repeated from its folder."""
    exploding(tmp_path)
    result = CliRunner().invoke(main, ["replay", str(tmp_path / "step-5")])
    assert result.exit_code == 1, result.output
    assert "STILL FAILS" in result.output and "exp in layers.0" in result.output


def test_violation_is_replayed(tmp_path: Path) -> None:
    """The model of a violated law is measured again from its folder."""
    model = training_runs.Flow("inverse")
    said = watched(model, tmp_path, steps=3)
    (folder,) = {one.rpartition("flowref replay ")[2] for one in said if "map/inverse" in one}
    result = CliRunner().invoke(main, ["replay", folder])
    assert result.exit_code == 1, result.output
    assert "STILL FAILS" in result.output and "map/inverse" in result.output


def test_folder_without_a_case(tmp_path: Path) -> None:
    """A folder that holds nothing is an error in one sentence."""
    result = CliRunner().invoke(main, ["replay", str(tmp_path)])
    assert result.exit_code == 3
    assert "holds no case of flowref.watch" in result.output


def test_callback_of_lightning(tmp_path: Path) -> None:
    """The callback watches an attribute of the module from the start of training to its end."""
    module, flow, said = torch.nn.Module(), training_runs.Flow("log-det"), list[str]()
    module.flow = flow
    flow.scale(1, 0.3)
    callback = Callback("flow", every=3, report=said.append, folder=tmp_path)
    callback.setup(None, module, "fit")
    callback.on_train_start(None, module)
    training_runs.train(module, 3, lambda x: -flow.log_prob(x).mean())
    callback.on_train_end(None, module)
    assert any("map/log-det is violated" in one for one in said)
    assert callback.watch is None
