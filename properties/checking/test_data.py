"""Laws at a user's data: what is wrong there alone is found, drawn points stay the same, and data that
do not fit are one sentence.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from flowref import checking, loading, registry
from flowref.checking import Settings, described
from flowref.checking.data import data_of, picked, visits
from flowref.cli import main
from flowref.loading.estimators import fitted_to
from flowref.model import DataError, Status, Subject, Target, Verdict

SOURCE = '''
import torch
from torch import nn


class Scale(nn.Module):
    """A scale of three features, off beside points that no generator draws."""

    event_shape = (3,)

    def __init__(self, wrong: float = 0.0) -> None:
        super().__init__()
        self.scale, self.wrong = nn.Parameter(torch.ones(3)), wrong

    def forward(self, x):
        odd = ((x - x.new_tensor([7.25, -3.5, 5.75])).abs() < 0.01).all(-1)
        return x * self.scale.exp(), self.scale.sum() + self.wrong * odd.to(x.dtype)

    def inverse(self, y):
        return y * (-self.scale).exp(), -self.scale.sum().expand(len(y))


def make(wrong: float = 0.0):
    return Scale(wrong)


def given(context=2):
    flow = Scale()
    flow.context_shape = (2,)
    plain = flow.forward
    flow.forward = lambda x, context: plain(x)
    return flow
'''
LAW = "map/log-det"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    """A folder with a flow and points around a place where it is wrong, the working folder."""
    os.chdir(tmp_path)
    (tmp_path / "pointed.py").write_text(SOURCE, encoding="utf-8")
    rng = np.random.default_rng(0)
    np.save(
        "points.npy",
        ([7.25, -3.5, 5.75] + 1e-3 * rng.standard_normal((2000, 3))).astype(np.float32),
    )
    loading.forget()
    return tmp_path


def target(options: str = "") -> Target:
    """The flow with options."""
    return registry.parse_target(f"pointed.py:make{options}")


def measured(settings: Settings, options: str = "", law: str = LAW) -> Verdict:
    """The verdict on the flow, less its time."""
    return checking.pair_verdict(target(options), law, settings).without_time()


def test_what_is_wrong_at_data_alone_is_found_there() -> None:
    """A log-det that is off beside the data accuses with them, at a row that is told, and replays."""
    assert measured(Settings(), "?wrong=0.5").status is Status.HOLDS
    found = measured(Settings(data="points.npy"), "?wrong=0.5")
    assert found.status is Status.VIOLATED and "of points.npy" in found.reason
    assert found.counterexample is not None
    again = checking.remeasure(target("?wrong=0.5"), LAW, found.counterexample)
    assert again.status is Status.VIOLATED
    assert measured(Settings(data="points.npy")).status is Status.HOLDS


@pytest.mark.parametrize("law", [LAW, "map/inverse", "same/rows"])
def test_drawn_points_are_those_of_an_audit_without_data(law: str) -> None:
    """Data add batches to those that are drawn, and change none of them."""
    without, with_data = (
        measured(Settings(), law=law),
        measured(Settings(data="points.npy"), law=law),
    )
    assert with_data.counts.batches > without.counts.batches
    assert replace(with_data, counts=without.counts, evidence=without.evidence) == without


def test_rows_are_picked_by_the_seed_alone() -> None:
    """The rows are a function of the seed and the shape, without repetition; another seed, others."""
    rows = picked(2000, (3,), 0)
    assert len(set(rows)) == 512 and np.array_equal(rows, picked(2000, (3,), 0))
    assert not np.array_equal(rows, picked(2000, (3,), 1))
    assert sorted(picked(40, (3,), 0)) == list(range(40))


def test_rows_that_are_not_finite_are_counted_and_left_out() -> None:
    """Rows with nan or inf are told and left out; the others are measured."""
    x = np.load("points.npy")
    x[::10, 1], x[5, 0] = np.nan, np.inf
    np.save("holes.npy", x[:100])
    (line, *_) = described(target(), Settings(data="holes.npy"))
    assert line == "at 89 of 100 rows of holes.npy; 11 more hold nan or inf, and are left out"
    data = data_of(target(), Settings(data="holes.npy"))
    assert data is not None and np.isfinite(data.x).all()
    np.testing.assert_array_equal(data.x, x[data.numbers].astype(float))


@pytest.mark.parametrize(
    ("shape", "way"),
    [
        ((10, 4), "give points of its shape"),
        ((10, 1, 3), r"give them as x.reshape\(-1, 3\)"),
        ((10,), "give points of its shape"),
        ((12,), r"a row is a point; .* give x.reshape\(-1, 3\)"),
        ((3, 10), r"a row is a point; if a column is one here, give x.T"),
    ],
)
def test_points_of_another_shape_are_refused(shape: tuple[int, ...], way: str) -> None:
    """Both shapes are told, and how to reshape where there are as many entries."""
    np.save("other.npy", np.zeros(shape))
    with pytest.raises(DataError, match=rf"takes events of shape \(3,\): {way}"):
        described(target(), Settings(data="other.npy"))


def test_rows_outside_the_domain_are_told() -> None:
    """Points outside a declared domain are left out and counted; if all are, that is refused."""
    np.save("mixed.npy", np.concatenate([np.full((5, 3), 0.5), np.full((5, 3), 2.0)]))
    (line, *_) = described(target("?domain=unit"), Settings(data="mixed.npy"))
    assert "at 5 of 10 rows" in line and "5 more are not inside unit" in line
    with pytest.raises(DataError, match="are not inside unit: scale them, or declare"):
        described(target("?domain=unit"), Settings(data="points.npy"))
    np.save("pixels.npy", np.tile([0.0, 0.5, 1.0], (10, 1)))
    with pytest.raises(DataError, match="they touch its ends; add noise to levels"):
        described(target("?domain=unit"), Settings(data="pixels.npy"))


def test_levels_are_dequantized_where_their_distance_is_told() -> None:
    """Whole numbers become reals within their level, for a flow that tells how far levels are apart;
    the bits per dimension of the rows are told.
    """
    images = np.random.default_rng(0).integers(0, 256, (40, *_images().density_shape))
    np.save("images.npy", images.astype(np.uint8))
    spec = registry.parse_target(IMAGES)
    data = data_of(spec, Settings(data="images.npy"))
    assert data is not None and "levels, dequantized by uniform noise" in data.words
    assert np.array_equal(np.floor(data.x / _level()), images[data.numbers])
    assert "bits per dimension" in described(spec, Settings(data="images.npy"))[1]


IMAGES = "reference:Flow[logit]"


def _images() -> Subject:
    return loading.load(registry.parse_target(IMAGES))


def _level() -> float:
    """The distance of levels in the units of the data."""
    subject = _images()
    declared = subject.preprocessing
    told = float(subject.promises.get("level") or 0.0)
    return declared.bound / declared.bins if declared is not None and declared.bins else told


def test_images_with_channels_last_are_told_how_to_turn() -> None:
    """Points with the axes of an event in another order are refused with the transposition."""
    spec = registry.parse_target("reference:RealNVP")
    shape = loading.load(spec).density_shape
    assert len(shape) == 3
    np.save("last.npy", np.zeros((10, *shape[1:], shape[0])))
    with pytest.raises(DataError, match=r"give them as x.transpose\(0, 3, 1, 2\)"):
        described(spec, Settings(data="last.npy"))


def test_a_law_of_latents_sees_those_of_the_data() -> None:
    """Where points of a law are latents, they are what the rows are mapped to."""
    verdict = checking.pair_verdict(
        "nflows:AffineCouplingTransform", "map/log-det", Settings(data=str(_four()))
    )
    assert verdict.status is Status.HOLDS


def _four() -> Path:
    np.save("four.npy", np.random.default_rng(1).standard_normal((50, 4)))
    return Path("four.npy")


def test_an_audit_says_what_it_looked_at() -> None:
    """The lines of a target tell the rows, their likelihood and latents; so does the JSON; a mistake
    in the data ends with one sentence and exit code 2.
    """
    runner = CliRunner()
    command = ["audit", "pointed.py:make", "--laws", LAW, "--in-process", "--data"]
    done = runner.invoke(main, [*command, "points.npy", "--json", "out.json"])
    assert done.exit_code == 0
    assert "at 512 of 2,000 rows of points.npy" in done.stdout
    assert "their latents: mean" in done.stdout
    assert "at 512 of 2,000 rows of points.npy" in Path("out.json").read_text(encoding="utf-8")
    missing = runner.invoke(main, [*command, "pionts.npy"])
    assert missing.exit_code == 2 and "did you mean points.npy" in missing.stderr
    np.save("other.npy", np.zeros((10, 4)))
    unfit = runner.invoke(main, [*command, "other.npy"])
    assert unfit.exit_code == 2 and "takes events of shape (3,)" in unfit.stdout + unfit.stderr


def test_laws_of_moved_weights_alone_see_no_data() -> None:
    """A law that is silent about the weights as given, since many flows are the identity there, is
    not measured at data either: zero-initialized couplings are not accused of moving nothing.
    """
    law = registry.find_law("coupling/stack[promise]")
    assert 0.0 not in law.scales and not visits(law)
    spec = registry.parse_target("reference:RealNVP")
    np.save("flat.npy", np.zeros((10, *loading.load(spec).density_shape)) + 0.5)
    verdict = checking.pair_verdict(spec, law, Settings(data="flat.npy", profile="quick"))
    assert verdict.status is Status.HOLDS


def test_data_of_one_check_are_not_those_of_the_next(tmp_path: Path) -> None:
    """Estimators are fitted to the data of the settings, and afterwards as before."""
    law, spec = registry.find_law("map/finite"), registry.parse_target("reference:RealNVP")
    before = fitted_to()
    rows = tmp_path / "rows.npy"
    np.save(rows, np.zeros((10, *loading.load(spec).density_shape)) + 0.5)
    checking.pair_verdict(spec, law, Settings(data=str(rows), profile="quick"))
    assert fitted_to() == before
