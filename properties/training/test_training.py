"""Training: data that are what they are said to be, runs that survive being killed, bits that are
counted right.
"""

from __future__ import annotations

import functools
import gzip
import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from effort import PATIENCE
from flowref.cli import main
from flowref.model import DataError, SpecError
from flowref.reference import (
    Affine,
    Bijection,
    Chain,
    Dequantize,
    Flow,
    RealNVP,
    StandardNormal,
    bits_per_dim,
)
from flowref.reference.bijection import over_event
from flowref.training import (
    baselines,
    data,
    extras,
    fit,
    loop,
    models,
    plane,
    readers,
    runs,
    sampling,
)
from flowref.training.extras import RunError
from flowref.training.families import FAMILIES
from flowref.training.recipes import RECIPES, Recipe

POINTS = Recipe(
    "moons", model={"depth": 2, "hidden": [8]}, epochs=3, batch=32, rate=1e-2, patience=9
)
IMAGES = Recipe(
    "digits",
    model={"scales": 2, "couplings": 1, "final": 1, "hidden": 4, "blocks": 1},
    epochs=2,
    batch=16,
    flips=True,
)


def small(recipe: Recipe) -> data.Dataset:
    """Little data in three parts; the last batch of an epoch is not full."""
    random = np.random.default_rng(0)
    if recipe.dataset == "digits":
        train, validation, test = (
            random.integers(0, 17, (number, 1, 8, 8)).astype(float) for number in (41, 10, 10)
        )
        return data.Dataset("digits", train, validation, test, levels=17)
    train, validation, test = (
        data.moons(number, seed) for seed, number in enumerate((107, 40, 40))
    )
    return data.Dataset("moons", train, validation, test)


def invoke(*words: str) -> Result:
    """Run the command line."""
    return CliRunner().invoke(main, list(words))


# Data sets


@pytest.mark.parametrize("name", [*data.TOYS, "digits"])
def test_data_sets_are_the_same_each_time_and_their_parts_differ(name: str) -> None:
    """A data set depends on its name alone, and no event is in two of its parts."""
    first, second = data.load_dataset(name), data.load_dataset(name)
    assert all(np.array_equal(getattr(first, part), getattr(second, part)) for part in data.POINTS)
    rows = [{row.tobytes() for row in getattr(first, part)} for part in data.POINTS]
    assert not rows[0] & rows[2] or name == "digits"
    assert first.event_shape == ((1, 8, 8) if name == "digits" else (2,))


def test_digits_have_seventeen_levels() -> None:
    """The digits use the levels 0 to 16, all of them."""
    found = data.load_dataset("digits")
    assert set(np.unique(found.train)) == set(range(17))
    assert (len(found.train), len(found.validation), len(found.test), found.levels) == (
        1197,
        300,
        300,
        17,
    )


def test_blobs_have_the_centres_of_scikit_learn() -> None:
    """The centers are those that make_blobs draws with random_state=8, whatever the seed of the
    points.
    """
    drawn = extras.package("sklearn.datasets").make_blobs(50, random_state=8, return_centers=True)[
        2
    ]
    means = data.blobs(30_000, 5)
    nearest = ((means[:, None] - drawn) ** 2).sum(-1).argmin(1)
    found = np.stack([means[nearest == place].mean(0) for place in range(3)])
    assert np.abs(found - drawn).max() < 0.1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.array([[0.0], [17.0]]), "from 0 to 17"),
        (np.array([[-1], [3]]), "from -1 to 3"),
        (np.array([[0.5], [3.0]]), "no whole numbers"),
        (np.array([[np.nan], [3.0]]), "1 values that are not finite"),
    ],
    ids=["above", "below", "between", "nan"],
)
def test_pixels_that_are_no_levels_are_refused(values: Any, said: str) -> None:
    """Scaled, fractional and missing pixels are refused in a sentence, rather than trained on."""
    with pytest.raises(DataError, match=said):
        data.Dataset("digits", values, values, values, levels=17)


# Readers, on files in the formats in which the sets are published


def idx(images: Any, magic: int = readers.IDX_IMAGES) -> bytes:
    """An IDX file."""
    content: bytes = (
        b"".join(number.to_bytes(4, "big") for number in (magic, *images.shape)) + images.tobytes()
    )
    return content


def cifar(images: Any, classes: Any) -> bytes:
    """A binary batch of CIFAR-10."""
    return b"".join(
        bytes([kind]) + image.tobytes() for kind, image in zip(classes, images, strict=True)
    )


def bytes_of(*shape: int) -> Any:
    """Pixels."""
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("place", [".", "MNIST/raw"])
def test_mnist_is_read_as_it_was_written(tmp_path: Path, end: str, place: str) -> None:
    """IDX files, plain or packed, give their images; a tenth of the training images is held out."""
    train, test = bytes_of(50, 28, 28), bytes_of(7, 28, 28)
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    for stem, images in (("train", train), ("t10k", test)):
        packed = gzip.compress(idx(images)) if end else idx(images)
        (tmp_path / place / f"{stem}-images-idx3-ubyte{end}").write_bytes(packed)
    found = data.load_dataset("mnist", str(tmp_path))
    assert (
        found.train.shape == (45, 1, 28, 28)
        and found.validation.shape == (5, 1, 28, 28)
        and found.levels == 256
    )
    assert np.array_equal(found.test[:, 0], test)
    together = {image.tobytes() for part in (found.train, found.validation) for image in part}
    assert together == {image.tobytes() for image in train}


def test_cifar10_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Binary batches give their images, colors first."""
    train, test = bytes_of(40, 3, 32, 32), bytes_of(4, 3, 32, 32)
    (tmp_path / "data_batch_1.bin").write_bytes(cifar(train[:20], [1] * 20))
    (tmp_path / "data_batch_2.bin").write_bytes(cifar(train[20:], [9] * 20))
    (tmp_path / "test_batch.bin").write_bytes(cifar(test, [0] * 4))
    assert np.array_equal(readers.cifar10(tmp_path, True), train)
    assert np.array_equal(data.load_dataset("cifar10", str(tmp_path)).test, test)


def test_celeba_is_cropped_and_resized(tmp_path: Path) -> None:
    """Of an aligned image the middle 148 pixels are kept; a square is taken whole, and others in
    three colors.
    """
    Image = extras.package("PIL.Image")
    face = np.zeros((218, 178, 3), np.uint8)
    face[35:183, 15:163] = 200  # the square of 148 in the middle
    Image.fromarray(face).save(tmp_path / "000001.png")
    Image.fromarray(np.full((64, 64), 90, np.uint8)).save(tmp_path / "000002.png")
    found = readers.celeba(tmp_path, 32)
    assert found.shape == (2, 3, 32, 32)
    assert (found[0] == 200).all() and (found[1] == 90).all()


def damaged(folder: Path, kind: str) -> tuple[str, str]:
    """Write damaged files; the data set to read them as, and what should be said."""
    Image = extras.package("PIL.Image")
    whole, mnist = idx(bytes_of(50, 28, 28)), folder / "train-images-idx3-ubyte"
    batch = cifar(bytes_of(3, 3, 32, 32), [1, 2, 3])
    picture = folder / "1.png"
    match kind:
        case "idx cut off":
            mnist.write_bytes(whole[:-100])
            return "mnist", "cut off: it has 39100 bytes of pixels; expected 39200 for 50 images"
        case "idx too long":
            mnist.write_bytes(whole + b"\0")
            return "mnist", "is too long"
        case "idx empty":
            mnist.write_bytes(b"")
            return "mnist", "has 0 bytes"
        case "idx labels":
            mnist.write_bytes(idx(bytes_of(5, 2, 2), readers.IDX_LABELS))
            return "mnist", "0x00000801; expected 0x00000803.*labels"
        case "idx floats":
            mnist.write_bytes(idx(bytes_of(5, 2, 2), 0x0D03))
            return "mnist", "kind 0x0d rather than unsigned bytes"
        case "idx text":
            mnist.write_bytes(b"<html>not found</html>")
            return "mnist", "0x3c68746d; expected 0x00000803"
        case "gzip cut off":
            mnist.with_name(f"{mnist.name}.gz").write_bytes(gzip.compress(whole)[:-200])
            return "mnist", "packed by gzip but cannot be unpacked"
        case "no mnist":
            return "mnist", "neither train-images-idx3-ubyte nor"
        case "cifar cut off":
            (folder / "data_batch_1.bin").write_bytes(batch[:-1])
            return "cifar10", "expected a multiple of 3073"
        case "cifar class":
            (folder / "data_batch_1.bin").write_bytes(cifar(bytes_of(3, 3, 32, 32), [1, 2, 10]))
            return "cifar10", "names class 10 in record 2; expected 0 to 9"
        case "cifar python":
            (folder / "data_batch_1").write_bytes(b"pickled")
            return "cifar10", "the version for Python"
        case "picture cut off":
            Image.fromarray(bytes_of(218, 178, 3)).save(picture)
            picture.write_bytes(picture.read_bytes()[:4000])
            return "celeba", "cannot be read as a picture"
        case "picture odd":
            Image.fromarray(bytes_of(50, 33, 3)).save(picture)
            return "celeba", "33 by 50 pixels; expected 178 by 218"
        case "picture deep":
            Image.fromarray(np.zeros((64, 64), np.uint16)).save(picture)
            return "celeba", "mode I;16; expected 8 bits"
        case _:
            return "celeba", "has no pictures"


KINDS = (
    "idx cut off", "idx too long", "idx empty", "idx labels", "idx floats", "idx text", "gzip cut off", "no mnist",
    "cifar cut off", "cifar class", "cifar python", "picture cut off", "picture odd", "picture deep", "no pictures",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_refused_in_one_sentence(tmp_path: Path, kind: str) -> None:
    """Files that are cut off, of another kind or of another size: exit 2, what was given, what was
    expected; no run begins.
    """
    import re

    name, said = damaged(tmp_path, kind)
    result = invoke("fit", name, "--data", str(tmp_path), "--runs", str(tmp_path / "runs"))
    assert result.exit_code == 2, result.output
    assert re.search(said, result.output) and str(tmp_path) in result.output
    assert len(result.output.splitlines()) == 2 and not (tmp_path / "runs").exists()


def test_images_that_cannot_be_halved_are_refused(tmp_path: Path) -> None:
    """Images of 27 by 27 do not fit the levels of the model; that is said before a run begins."""
    for stem in ("train", "t10k"):
        (tmp_path / f"{stem}-images-idx3-ubyte").write_bytes(idx(bytes_of(50, 27, 27)))
    result = invoke("fit", "mnist", "--data", str(tmp_path), "--runs", str(tmp_path / "runs"))
    assert result.exit_code == 2 and "27 by 27" in result.output, result.output
    assert not (tmp_path / "runs").exists()


# Units


class Uniform(Bijection):
    """Uniform data on [0, 256) to a standard normal distribution."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The normal quantile of x / 256."""
        z = torch.special.ndtri(x / 256)
        return z, over_event(0.5 * z**2 + 0.5 * math.log(2 * math.pi) - math.log(256))

    def inverse(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """256 times the normal distribution function."""
        x = 256 * torch.special.ndtr(z)
        return x, -self.forward(x)[1]


def test_uniform_pixels_have_eight_bits() -> None:
    """The density that is constant on [0, 256) spends 8 bits on every pixel of every image."""
    flow = Flow(StandardNormal((1, 4, 4)), Uniform()).double()
    x = Dequantize()(torch.as_tensor(bytes_of(20, 1, 4, 4)).double(), generator=runs.seeded(0))[0]
    assert (flow.bits_per_dim(x) - 8).abs().max() < 1e-13
    assert bits_per_dim(torch.tensor(-12 * math.log(256), dtype=torch.float64), 12).item() == 8


@pytest.mark.parametrize("factor", [1 / 256, 0.5, 3.0, 1000.0])
def test_rescaling_data_costs_the_logarithm_of_the_factor(factor: float) -> None:
    """The model of c x is that of x after a division by c: log2 c more bits in each dimension, and
    none if c is the level.
    """
    model = RealNVP((1, 4, 4), bins=17, couplings=1, final=1, hidden=4, blocks=1)
    flow = Flow(StandardNormal((16,)), model).double().eval()
    scaled = Flow(StandardNormal((16,)), Chain(Affine(0.0, 1 / factor), model)).double().eval()
    x = 17 * torch.rand(20, 1, 4, 4, generator=runs.seeded(0), dtype=torch.float64)
    more = scaled.bits_per_dim(factor * x) - flow.bits_per_dim(x)
    # The buffer of Affine was made in float32.
    assert (more - math.log2(factor)).abs().max() < 2e-6
    assert (scaled.bits_per_dim(factor * x, level=factor) - flow.bits_per_dim(x)).abs().max() < 2e-6


def test_standardizing_is_part_of_the_density() -> None:
    """Moons a thousand times as large have the same density up to that factor, whatever the flow
    makes of it inside.
    """
    found = small(POINTS)
    large = replace(
        found, train=1000 * found.train, validation=1000 * found.validation, test=1000 * found.test
    )
    flows = []
    for dataset in (found, large):
        torch.manual_seed(0)
        flows.append(models.build(POINTS, (2,), None))
        models.standardize(flows[-1], dataset)
    one, other = (
        loop.mean_nll(flow, dataset.test, None, runs.seeded(0))
        for flow, dataset in zip(flows, (found, large), strict=True)
    )
    assert other - one == pytest.approx(2 * math.log(1000), abs=1e-4)


def test_the_normal_baseline_is_the_normal_density() -> None:
    """The baseline for points is the density of scipy's multivariate normal distribution at the
    fitted moments.
    """
    stats = pytest.importorskip("scipy.stats")
    train, test = data.moons(500, 0), data.moons(100, 1)
    fitted = stats.multivariate_normal(train.mean(0), np.cov(train.T, bias=True))
    assert baselines.normal_nll(train, test) == pytest.approx(
        -fitted.logpdf(test).mean(), rel=1e-12
    )


def test_the_histogram_baseline_counts_levels() -> None:
    """One pixel of two levels, seen 7 times and once: (7 + 1) / 10 for what is usual."""
    train = np.array([0, 0, 0, 0, 0, 0, 0, 1]).reshape(8, 1, 1, 1)
    test = np.array([0, 1]).reshape(2, 1, 1, 1)
    expected = -0.5 * (math.log2(8 / 10) + math.log2(2 / 10))
    assert baselines.histogram_bits(train, test, 2) == pytest.approx(expected, rel=1e-12)


def test_the_integral_sees_missing_mass() -> None:
    """A flow integrates to one; one whose log-determinant is off by a hundredth does not."""
    torch.manual_seed(1)
    flow, found = models.build(POINTS, (2,), None).eval(), small(POINTS)
    assert isinstance(flow, Flow) and isinstance(flow.bijection, Bijection)
    models.standardize(flow, found)
    assert plane.plane_integral(flow) == pytest.approx(1, abs=1e-3)

    class Off(Flow):
        def log_prob(self, x: torch.Tensor) -> torch.Tensor:
            return super().log_prob(x) + 0.01

    assert plane.plane_integral(Off(flow.base, flow.bijection)) == pytest.approx(
        math.exp(0.01), abs=1e-3
    )


# Runs


def reached(progress: loop.Progress, step: int) -> bool:
    """Whether a training is at a step."""
    return progress.step >= step


def trained(folder: Path, recipe: Recipe, stops: tuple[int, ...] = ()) -> Path:
    """A run trained to its end; it is interrupted, and begun again from its files, at each of the
    steps.
    """
    folder.mkdir()
    runs.replace_file(folder / runs.CONFIG, recipe.to_json().encode())
    for step in (*stops, 10**9):
        training = loop.Training(recipe, small(recipe), folder)
        training.restore()
        done = training.run(
            loop.TrainingListener(), functools.partial(reached, training.progress, step)
        )
        assert done is (step == 10**9)
    return folder


def same(one: Path, other: Path) -> None:
    """Two runs end with the same bits, but for the time that they took."""
    for name in (runs.WEIGHTS, runs.STATE):
        (first, about), (second, note) = (
            runs.read_tensors(folder / name) for folder in (one, other)
        )
        for said in (about, note):
            said.get("progress", {}).pop("seconds", None)
        assert about == note and first.keys() == second.keys()
        assert all(torch.equal(first[key], second[key]) for key in first)
    timeless = [[{**row, "seconds": 0} for row in runs.metrics(folder)] for folder in (one, other)]
    assert timeless[0] == timeless[1]


@pytest.mark.parametrize(
    ("recipe", "stops"),
    [(POINTS, (1,)), (POINTS, (4, 5, 11)), (IMAGES, (2, 3))],
    ids=["first step", "at an end", "images"],
)
def test_an_interrupted_training_ends_as_if_it_had_not_been(
    tmp_path: Path, recipe: Recipe, stops: tuple[int, ...]
) -> None:
    """Weights, optimizer, random state, metrics and best epoch: all bits are the same, however
    often it was interrupted.
    """
    same(trained(tmp_path / "whole", recipe), trained(tmp_path / "parts", recipe, stops))


KILLED = """
import os, signal, sys
from pathlib import Path
from test_training import POINTS, small
from flowref.training import loop
loop.SAVE_EPOCHS = 0.0  # so that there is something to go on from

class Killer(loop.TrainingListener):
    def step(self, training):
        if training.progress.step == 6:
            os.kill(os.getpid(), signal.SIGKILL)

training = loop.Training(POINTS, small(POINTS), Path(sys.argv[1]))
training.restore()
training.run(Killer())
"""


def test_a_killed_training_loses_nothing(tmp_path: Path) -> None:
    """A process that is killed within its second epoch, and the rest of another one, give the bits
    of a single one.
    """
    folder = tmp_path / "killed"
    folder.mkdir()
    folders = [str(one) for one in Path(__file__).parents[:2]]
    runs.replace_file(folder / runs.CONFIG, POINTS.to_json().encode())
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {folders!r}\n{KILLED}", str(folder)],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == -9, done.stderr
    assert runs.read_tensors(folder / runs.STATE)[1]["progress"]["step"] == 4
    runs.add_metrics(folder, {"epoch": 2, "validation_nll": -99.0})  # written before the state was
    with (folder / runs.METRICS).open("a") as file:
        file.write('{"epoch": 2, "st')
    training = loop.Training(POINTS, small(POINTS), folder)
    training.restore()
    assert training.run(loop.TrainingListener())
    same(trained(tmp_path / "whole", POINTS), folder)


def test_the_best_weights_are_kept(tmp_path: Path) -> None:
    """Training stops when patience is over, and the run is known by the weights of its best epoch."""
    recipe = replace(POINTS, rate=0.5, epochs=30, patience=3)
    folder = trained(tmp_path / "run", recipe)
    rows = runs.metrics(folder)
    best = min(rows, key=lambda row: row["validation_nll"])
    assert len(rows) == best["epoch"] + 3 < 30
    value = loop.mean_nll(runs.load(str(folder)), small(recipe).validation, None, runs.seeded(0))
    assert value == pytest.approx(best["validation_nll"], rel=1e-6)


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk costs nothing but the write, and leaves no half files behind."""
    path = tmp_path / "file"
    runs.replace_file(path, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(RunError, match="No space left on device"):
        runs.replace_file(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", [runs.CONFIG, runs.WEIGHTS, runs.STATE])
@pytest.mark.parametrize("part", [0.0, 0.4, 0.99])
def test_cut_off_files_of_a_run_are_refused(tmp_path: Path, name: str, part: float) -> None:
    """A file of a run that is cut off anywhere gives one sentence that names it."""
    folder = trained(tmp_path / "run", replace(POINTS, epochs=1))
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(part * len(content))])
    use: Callable[[], Any] = (
        loop.Training(POINTS, small(POINTS), folder).restore
        if name == runs.STATE
        else lambda: runs.load(str(folder))
    )
    with pytest.raises(RunError, match=name):
        use()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dataset": "suns"}, "was changed"),
        ({"epochs": -3}, "expected a positive number"),
        ({"color": 1}, "was changed"),
        ({"flowref-run": 9}, "another version"),
        ({"model": {"depth": 3, "hidden": [8]}}, "does not fit"),
    ],
    ids=["name", "number", "unknown", "version", "model"],
)
def test_a_changed_recipe_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    """A recipe that was edited is no recipe of these weights."""
    folder = trained(tmp_path / "run", replace(POINTS, epochs=1))
    row = json.loads((folder / runs.CONFIG).read_text()) | change
    (folder / runs.CONFIG).write_text(json.dumps(row))
    with pytest.raises(RunError, match=said):
        runs.load(str(folder))


def test_other_data_are_noticed(tmp_path: Path) -> None:
    """A run does not go on with data other than those that it was begun with."""
    folder = trained(tmp_path / "run", replace(POINTS, epochs=1))
    found = small(POINTS)
    with pytest.raises(RunError, match="the data are not those"):
        loop.Training(POINTS, replace(found, train=found.train + 1e-9), folder).restore()


def test_a_loss_that_is_not_finite_ends_the_training(tmp_path: Path) -> None:
    """Training does not go on with NaN, and says what to do."""
    training = loop.Training(replace(POINTS, rate=1e20), small(POINTS), tmp_path)
    with pytest.raises(RunError, match="smaller --rate"):
        training.run(loop.TrainingListener())


def test_runs_are_numbered(tmp_path: Path) -> None:
    """Each run has a folder of its own."""
    assert [runs.new_folder(tmp_path / "runs", "moons").name for _ in range(3)] == [
        "moons-1",
        "moons-2",
        "moons-3",
    ]


# The command line


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Small data, small models, a coarse grid, and a folder to work in."""
    monkeypatch.setattr(data, "POINTS", {"train": 300, "validation": 50, "test": 50})
    monkeypatch.setattr(plane, "EVALUATIONS", 30_000)
    monkeypatch.setitem(RECIPES, "moons", replace(POINTS, epochs=2))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("quick")
def test_a_run_from_fit_to_sample(tmp_path: Path) -> None:
    """`fit` trains, compares, draws and keeps; a run is a target of `audit`; `sample` draws from
    it.
    """
    result = invoke("fit", "moons", "--no-audit")
    assert result.exit_code == 0, result.output
    assert (
        "normal distribution, full covariance" in result.output and "integrates to" in result.output
    )
    run = tmp_path / "runs" / "moons-1"
    pictures = {path.name for path in run.glob("*.png")}
    assert pictures == {"samples.png", "latents.png", "training.png", "density.png"}
    assert json.loads((run / runs.SUMMARY).read_text())["dataset"] == "moons"
    again = invoke("fit", "runs/moons-1")
    assert again.exit_code == 2 and "is finished" in again.output

    audited = invoke(
        "audit", "runs/moons-1", "--laws", "map/inverse,density/change-of-variables",
        "--in-process", "--profile", "quick", "--json", "report.json",
    )  # fmt: skip
    report = json.loads((tmp_path / "report.json").read_text())
    assert audited.exit_code == 0, audited.output
    assert {verdict["status"] for verdict in report["verdicts"]} == {"HOLDS"}

    for name in ("a.npz", "b.npz", "c.png"):
        assert invoke("sample", "runs/moons-1", "-n", "9", "--out", name).exit_code == 0
    with np.load("a.npz") as one, np.load("b.npz") as other:
        assert one["samples"].shape == (9, 2) and np.array_equal(one["samples"], other["samples"])
    assert Path("c.png").read_bytes()[:4] == b"\x89PNG"
    wrong = invoke("sample", "runs/moons-1", "--out", "samples.txt")
    assert wrong.exit_code == 2 and ".png or .npz" in wrong.output


@pytest.mark.usefixtures("quick")
def test_a_polite_end_leaves_a_run_to_go_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C: exit 130 and the line to type; `--resume` finds the run, which ends with the weights
    of another one.
    """
    import contextlib

    from flowref.cli import fit as fitting

    @contextlib.contextmanager
    def at_once() -> Any:
        yield lambda: True

    with monkeypatch.context() as patched:
        patched.setattr(fitting, "stopping", at_once)
        result = invoke("fit", "moons", "--no-audit")
    assert result.exit_code == 130 and "flowref fit runs/moons-1" in result.output
    assert invoke("fit", "moons", "--resume", "--no-audit").exit_code == 0
    assert invoke("fit", "moons", "--no-audit").exit_code == 0
    same(Path("runs/moons-1"), Path("runs/moons-2"))
    result = invoke("fit", "moons", "--resume")
    assert result.exit_code == 2 and "no interrupted run of moons" in result.output


@pytest.mark.usefixtures("quick")
def test_images_are_sampled_as_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of images are whole levels; the pictures of a run of images can be drawn."""
    monkeypatch.setattr(data, "digits", lambda: small(IMAGES))
    folder = trained(tmp_path / "run", IMAGES)
    summary = fit.finish(folder, small(IMAGES))
    assert summary.unit == "bits per dimension" and summary.baselines[
        "all levels alike"
    ] == math.log2(17)
    assert {path.name for path in folder.glob("*.png")} == {
        "samples.png",
        "latents.png",
        "training.png",
    }
    drawn, levels = sampling.sample_run(folder, 5, 0)
    assert drawn.shape == (5, 1, 8, 8) and drawn.dtype == np.dtype("uint8") and levels == 17
    assert drawn.max() < 17
    sampling.write_samples(folder, 5, 0, tmp_path / "images.png")
    assert (tmp_path / "images.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("fit", "mooons"),
            "did you mean moons.*expected one of moons, circles, blobs, random, digits, mnist, "
            "cifar10",
        ),
        (("fit", "mnist"), "nothing is downloaded; give the folder with train-images-idx3-ubyte"),
        (("fit", "moons", "--data", "x"), "--data and --limit are for mnist, cifar10, celeba"),
        (("fit", "mnist", "--data", ".", "--size", "32"), "--size is for celeba"),
        (("fit", "moons", "--rate", "0"), "rate is 0.0; expected a positive number"),
        (("fit", "mnist", "--data", "nowhere"), "there is no folder .*nowhere"),
        (("sample", "nowhere"), "nowhere is no run"),
        (("audit", "nowhere"), "names no library.*or the folder of a run"),
    ],
)
def test_mistakes_get_one_sentence(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """A mistake in the command: exit 2 and one sentence that says what was expected."""
    import re

    monkeypatch.chdir(tmp_path)
    result = invoke(*words)
    assert result.exit_code == 2 and re.search(said, " ".join(result.output.split())), result.output
    assert not Path("runs").exists()


def test_the_list_names_every_data_set() -> None:
    """`fit --list` names them all."""
    lines = invoke("fit", "--list").output.splitlines()
    assert [line.split()[0] for line in lines] == list(data.NAMES) and set(RECIPES) == set(
        data.NAMES
    )


@pytest.mark.parametrize("words", [["fit", "--help"], ["sample", "--help"], ["fit", "--list"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    """Help and the list of data sets load neither torch nor what training needs."""
    program = (
        "import sys, flowref.cli\n"
        f"sys.argv = ['flowref', *{words!r}]\n"
        "try:\n    flowref.cli.main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "found = {'torch', 'sklearn', 'matplotlib', 'safetensors', 'PIL'} & "
        "set(sys.modules)\nassert not found, found\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_an_unknown_data_set_is_a_mistake_of_the_command() -> None:
    """The Python function says the same."""
    with pytest.raises(SpecError, match="there is no data set"):
        fit.recipe_for("suns")


@pytest.mark.parametrize("flow", ["spline", "maf", "residual", "cnf"])
def test_every_family_learns_points(flow: str, tmp_path: Path) -> None:
    """In a few steps the likelihood rises above that of a normal with the moments of the data, the flow
    goes back, and the run is read as the same recipe.
    """
    options = {**FAMILIES[flow][1], "hidden": [16, 16]}
    recipe = replace(POINTS, flow=flow, model=options, epochs=30)
    dataset = small(recipe)
    folder = fit.begin(recipe, dataset, tmp_path)
    assert runs.recipe_of(folder) == recipe
    training = loop.Training(recipe, dataset, folder)
    assert training.run(loop.TrainingListener())
    trained = training.flow.eval()
    assert isinstance(trained, Flow)
    points = models.tensor(dataset.train)
    with torch.no_grad():
        likelihood = trained.log_prob(points).mean().item()
        back = trained.inverse(trained(points)[0])[0]
    normal = np.linalg.slogdet(2 * math.pi * math.e * np.cov(dataset.train.T, bias=True))[1]
    assert likelihood > -0.5 * normal
    torch.testing.assert_close(back, points, rtol=0, atol=5e-3)


def test_images_are_for_real_nvp() -> None:
    """Another flow is refused before anything is read, with the data that it takes."""
    with pytest.raises(SpecError, match="spline is fitted to points"):
        fit.recipe_for("digits", flow="spline")


def test_a_recipe_of_another_flow_is_refused() -> None:
    """As written by another version."""
    text = POINTS.to_json().replace('"real-nvp"', '"unheard-of"')
    with pytest.raises(RunError, match="another version of flowref"):
        Recipe.from_json(text, "run.json")
