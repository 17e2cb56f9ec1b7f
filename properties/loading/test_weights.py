"""Weights from files: understood where that is unambiguous, loaded to the last bit, and refused in
one sentence otherwise.
"""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from flowref import checking, loading, registry
from flowref.backends.torch.weights import load_weight_file
from flowref.cli import main
from flowref.loading import user_code
from flowref.model import Condition, FlowrefError, Status, Subject, TargetError

SOURCE = '''
import torch
from torch import nn


class Flow(nn.Module):
    """An affine map of three features, after a batch norm in eval mode."""

    def __init__(self, features: int = 3) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.net = nn.Sequential(nn.Linear(features, features))
        self.norm = nn.BatchNorm1d(features, affine=False)
        self.register_buffer("mask", torch.tensor([True] * features))
        self.register_buffer("width", torch.ones(features))

    def forward(self, x):
        y = self.norm(x) * self.width
        ladj = -0.5 * (self.norm.running_var + self.norm.eps).log().sum() + self.width.log().sum()
        return y * self.scale.exp(), (ladj + self.scale.sum()).expand(len(x))

    def inverse(self, y):
        x = y * (-self.scale).exp() * {wrong}
        deviation = (self.norm.running_var + self.norm.eps).sqrt() / self.width
        ladj = deviation.log().sum() - self.scale.sum()
        return x * deviation + self.norm.running_mean, ladj.expand(len(y))


def make(features: int = 3):
    return Flow(features)


def own(weights="none"):
    assert weights == "mine"
    return Flow()
'''
Saved = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model, its working folder."""
    text = SOURCE.replace("{wrong}", "1")
    (tmp_path / "flows.py").write_text(text, encoding="utf-8")
    os.chdir(tmp_path)
    loading.forget()
    return tmp_path


def saved(dtype: torch.dtype = torch.float32) -> Saved:
    """A state dict of the model after some training."""
    generator = torch.Generator().manual_seed(3)
    draw: Any = {"generator": generator, "dtype": torch.float64}
    return {
        "scale": (0.2 * torch.randn(3, **draw)).to(dtype),
        "net.0.weight": torch.randn(3, 3, **draw).to(dtype),
        "net.0.bias": torch.randn(3, **draw).to(dtype),
        "norm.running_mean": torch.randn(3, **draw).to(dtype),
        "width": torch.ones(3, dtype=dtype),
        "norm.running_var": (0.5 + torch.rand(3, **draw)).to(dtype),
        "norm.num_batches_tracked": torch.tensor(70),
        "mask": torch.tensor([True, False, True]),
    }


def lightning(state: Saved) -> Saved:
    """As Lightning saves a model that is a part of a larger one."""
    state = {f"flow.{name}": value for name, value in state.items()}
    return {"epoch": 3, "state_dict": {**state, "metric.total": torch.zeros(2)}}


def checkpoint(state: Saved) -> Saved:
    """As scripts save: with options, a loss of numpy and the state of an optimizer."""
    parameter = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([parameter])
    parameter.grad = torch.ones(3)
    optimizer.step()
    about = {"args": argparse.Namespace(rate=1e-3), "loss": np.float64(1.5)}
    return {"model": state, "optimizer": optimizer.state_dict(), **about}


def parallel(state: Saved) -> Saved:
    """As it is saved from within DataParallel."""
    return {f"module.{name}": value for name, value in state.items()}


def loaded(options: str, name: str = "make") -> Subject:
    """The subject of the model with options."""
    return loading.load(registry.parse_target(f"flows.py:{name}?{options}"))


def sentence(options: str) -> str:
    """What is said where the model cannot be loaded: one line."""
    with pytest.raises(TargetError) as caught:
        loaded(options)
    text = str(caught.value)
    assert "\n" not in text and len(text) < 400
    return text


def scale_of(subject: Subject) -> np.ndarray:
    """The scales of the model, from its map."""
    x = np.stack([np.zeros(3), np.ones(3)])
    y = subject.forward(x).value  # type: ignore[misc]  # it has one
    return np.asarray(y[1] - y[0])


@pytest.mark.parametrize("shape", [dict, checkpoint, lightning, parallel])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_weights_are_those_of_the_file(
    folder: Path, shape: Callable[[Saved], Saved], dtype: torch.dtype
) -> None:
    """However a checkpoint nests a state dict, the object holds its numbers to the last bit."""
    state = saved(dtype)
    torch.save(shape(state), "run.pt")
    exact = {name: value.double() for name, value in state.items()}
    deviation = (exact["norm.running_var"] + 1e-5).sqrt()
    expected = (exact["scale"].exp() / deviation).numpy()
    np.testing.assert_allclose(scale_of(loaded("weights=run.pt")), expected, rtol=1e-12)
    recipe = loading.recipe_of(registry.parse_target("flows.py:make?weights=run.pt"))
    with recipe.backend.sandbox(0, "float64"):
        held = recipe.build().state_dict()
    assert all(torch.equal(held[name].double(), value) for name, value in exact.items())


def test_safetensors_are_read_like_the_others(folder: Path) -> None:
    """A file of safetensors gives the same object as one of torch.save."""
    save = pytest.importorskip("safetensors.torch").save_file
    save(saved(), "run.safetensors")
    torch.save(saved(), "run.pt")
    one, other = (scale_of(loaded(f"weights={name}")) for name in ("run.safetensors", "run.pt"))
    assert np.array_equal(one, other)


def test_of_several_that_fit_one_is_named(folder: Path) -> None:
    """Where a checkpoint holds two sets of weights that fit and differ, `key` says which."""
    averaged = {name: value + 1 if name == "scale" else value for name, value in saved().items()}
    torch.save({"model": saved(), "ema": averaged}, "run.pt")
    assert "say which: &key=" in sentence("weights=run.pt")
    plain = scale_of(loaded("weights=run.pt&key=model"))
    other = scale_of(loaded("weights=run.pt&key=ema"))
    np.testing.assert_allclose(other / plain, math.e, rtol=1e-6)
    assert "did you mean ema?" in sentence("weights=run.pt&key=emma")


def damaged(name: str, change: Callable[[Saved], Any]) -> tuple[str, Callable[[Path], None]]:
    """A file made of another state dict."""
    return name, lambda path: torch.save(change(saved()), path)


def cut(path: Path) -> None:
    """A file without its second half."""
    torch.save(saved(), path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_old(path: Path) -> None:
    """One in torch's older format."""
    torch.save(saved(), path, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def changed(path: Path) -> None:
    """A file of which a byte is another."""
    torch.save(saved(), path)
    content = bytearray(path.read_bytes())
    content[content.find(saved()["net.0.weight"].numpy().tobytes())] ^= 1
    path.write_bytes(content)


def whole(path: Path) -> None:
    """A saved object, which is code."""
    torch.save(argparse.ArgumentParser("flow").prog and nn.Linear(3, 3), path)


def arrays(path: Path) -> None:
    """An archive of numpy arrays."""
    with path.open("wb") as file:
        np.savez(file, x=np.ones(2))


REFUSED = [
    damaged("it lacks scale .did you mean scael", lambda s: {("scael" if n == "scale" else n): v for n, v in s.items()}),
    damaged("it has extra, which the model lacks", lambda s: {**s, "extra": torch.ones(2)}),
    damaged(r"scale has shape \(4,\) and the model's \(3,\)", lambda s: {**s, "scale": torch.ones(4)}),
    damaged("1 of the 3 values of scale are nan", lambda s: {**s, "scale": torch.tensor([0.0, torch.nan, 1.0])}),
    damaged("1 of the 3 values of scale are infinite", lambda s: {**s, "scale": torch.tensor([0.0, torch.inf, 1.0])}),
    damaged("values of norm.running_var are infinite", lambda s: {**s, "norm.running_var": torch.full((3,), torch.inf)}),
    damaged("3 of the 3 values of norm.running_var are negative", lambda s: {**s, "norm.running_var": -s["norm.running_var"]}),
    damaged("values of norm.running_var are nan", lambda s: {**s, "norm.running_var": torch.full((3,), torch.nan)}),
    damaged("scale holds torch.int64, and the model keeps torch.float64 there", lambda s: {**s, "scale": s["scale"].long()}),
    damaged("scale holds torch.complex64, and the model keeps", lambda s: {**s, "scale": s["scale"].to(torch.complex64)}),
    damaged("mask holds torch.float32 that the model", lambda s: {**s, "mask": torch.full((3,), 0.5)}),
    damaged("holds no tensors by name", lambda s: [1, 2]),
    ("was cut off or damaged", cut),
    ("was cut off or damaged", cut_old),
    ("damaged: the checksum", changed),
    ("holds code besides tensors", whole),
    ("is empty", lambda path: path.write_bytes(b"")),
    ("is no file of weights: it begins with", lambda path: path.write_text("loss,epoch\n1,2\n")),
    ("is an archive of numpy arrays", arrays),
    ("is a TorchScript program", lambda path: torch.jit.script(nn.Linear(2, 2)).save(str(path))),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize(("words", "write"), REFUSED)
def test_what_is_no_fitting_weights_is_refused_in_a_sentence(
    folder: Path, words: str, write: Callable[[Path], Any]
) -> None:
    """Other names, shapes, kinds of numbers and files, damage and code: one sentence that says it."""
    write(folder / "run.pt")
    assert re.search(words, sentence("weights=run.pt"))


def test_a_missing_file_is_told_with_the_nearest(folder: Path) -> None:
    """A misspelt path is one sentence with what is near; a folder is told apart."""
    torch.save(saved(), "run.pt")
    assert "did you mean run.pt?" in sentence("weights=rum.pt")
    assert "it is a folder" in sentence("weights=.")


@pytest.mark.parametrize("spec", ["flows.py:make", "nflows:MaskedAffineAutoregressiveTransform"])
def test_a_misspelt_option_is_told(folder: Path, spec: str) -> None:
    """`wieghts=` is told with `weights`, for factories and for constructions of libraries."""
    with pytest.raises(FlowrefError, match="did you mean weights"):
        loading.load(registry.parse_target(f"{spec}?wieghts=run.pt"))


def test_a_factory_may_have_a_word_of_its_own(folder: Path) -> None:
    """A parameter of a user's factory keeps its meaning under the names of ours."""
    assert loaded("weights=mine", "own").forward is not None


def test_constructions_of_libraries_take_weights(folder: Path) -> None:
    """A construction of a library is loaded with weights as a factory of the user's is."""
    target = registry.parse_target("nflows:MaskedAffineAutoregressiveTransform?features=3")
    recipe = loading.recipe_of(target)
    with recipe.backend.sandbox(7, "float32"):
        state = recipe.build().state_dict()
    moved = {n: v + 0.01 if v.is_floating_point() else v for n, v in state.items()}
    torch.save(moved, "run.pt")
    given = loading.recipe_of(target.with_options(weights="run.pt"))
    with recipe.backend.sandbox(1, "float64"):
        held = given.build().state_dict()
    assert all(torch.equal(held[n].double(), v.double()) for n, v in moved.items())


def test_given_weights_are_measured_as_they_are(folder: Path) -> None:
    """No batch in train mode moves the statistics of a checkpoint before it is measured, and laws of
    how an object starts say nothing of it.
    """
    torch.save(saved(), "run.pt")
    target = registry.parse_target("flows.py:make?weights=run.pt")
    subject = loading.load(target, Condition(history="warm"))
    built = loading.load(target, Condition(history="fresh"))
    assert np.array_equal(scale_of(subject), scale_of(built))
    verdict = checking.pair_verdict(target, "gradient/reaches-parameters[start]")
    assert verdict.status is Status.NOT_APPLICABLE and "weights are given" in verdict.reason


def test_a_case_tells_when_its_weights_are_others(folder: Path) -> None:
    """A counterexample carries the digest of the file: replayed with another one, that is said."""
    wrong = SOURCE.replace("{wrong}", "1.001")
    (folder / "wrong.py").write_text(wrong, encoding="utf-8")
    torch.save(saved(), "run.pt")
    runner, laws = CliRunner(), ("--laws", "map/inverse", "--in-process")
    done = runner.invoke(main, ["audit", "wrong.py:make?weights=run.pt", *laws])
    assert done.exit_code == 1 and "with the weights of run.pt (sha256 " in done.stdout
    again = runner.invoke(main, ["replay", "--all"])
    assert "STILL FAILS" in again.stdout and "its weights have changed" not in again.stdout
    assert runner.invoke(main, ["baseline", "update"]).exit_code == 0
    torch.save({**saved(), "mask": torch.tensor([True, True, True])}, "run.pt")
    assert "its weights have changed since" in runner.invoke(main, ["replay", "--all"]).stdout
    (folder / "wrong.py").write_text(SOURCE.replace("{wrong}", "1"), encoding="utf-8")
    user_code.imported_from.cache_clear()
    loading.forget()
    told = runner.invoke(main, ["baseline", "check"]).stdout
    assert "its pinned case passes; its weights have changed since" in told


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("width", -0.5, Status.VIOLATED),
        ("mask", True, Status.HOLDS),
        ("net.0.bias", 3.0, Status.HOLDS),
    ],
)
def test_a_damaged_weight_is_seen_where_it_breaks_the_map(
    folder: Path, name: str, value: float, status: Status
) -> None:
    """A width below zero accuses at data, and replays; a damage that leaves a correct flow
    accuses nobody.
    """
    torch.save({**saved(), name: torch.full_like(saved()[name], value)}, "run.pt")
    np.save("points.npy", np.random.default_rng(0).standard_normal((100, 3)))
    target = registry.parse_target("flows.py:make?weights=run.pt")
    settings = checking.Settings(data="points.npy")
    verdict = checking.pair_verdict(target, "map/finite", settings)
    assert verdict.status is status
    if verdict.counterexample is not None:
        again = checking.remeasure(target, verdict.law, verdict.counterexample)
        assert again.status is Status.VIOLATED


def test_an_object_without_one_state_is_refused() -> None:
    """What holds no module, or several, has no state dict to load."""
    with pytest.raises(TargetError, match="without parameters and buffers"):
        load_weight_file(torch.distributions.AffineTransform(0.0, 1.0), Path("run.pt"))
    with pytest.raises(TargetError, match="with 2 modules"):
        load_weight_file([nn.Linear(2, 2), nn.Linear(2, 2)], Path("run.pt"))
