"""Vectors that are written as images of one pixel, running log-dets that are counted from zero, and
arithmetic in single precision that train mode alone shows.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import check
from flowref.loading import recipe_of
from flowref.model import Status
from flowref.registry import parse_target


class OnePixel(nn.Module):
    """An affine coupling of four numbers that are images of one pixel."""

    vectors = False

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(2, 4)

    def forward(self, x: Any, reverse: bool = False) -> Any:
        """Both ways."""
        if len(x.shape) == 2 and self.vectors and not reverse:
            x = x[:, :, None, None]
        if len(x.shape) != 4:
            raise ValueError("expected images")
        kept, moved = x.flatten(1).chunk(2, 1)
        s, t = self.net(kept).tanh().chunk(2, 1)
        moved = (moved - t) * (-s).exp() if reverse else moved * s.exp() + t
        out = torch.cat([kept, moved], 1)[:, :, None, None]
        return out if reverse else (out, s.sum(1))


class TakesVectors(OnePixel):
    """The same, which takes vectors too and gives images."""

    vectors = True


class CountedFromZero(nn.Module):
    """x -> x exp(s), of four features, with a number to which the log-det is added."""

    def __init__(self) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.linspace(-0.5, 0.5, 4) + 0.25)

    def forward(self, x: Any, log0: Any = 0) -> Any:
        """The map."""
        return x * self.s.exp(), log0 + self.s.sum().expand(len(x))

    def reverse(self, x: Any, log0: Any = 0) -> Any:
        """The way back."""
        return x * (-self.s).exp(), log0 - self.s.sum().expand(len(x))


class CounterDropped(CountedFromZero):
    """What came in is forgotten by the way back."""

    def reverse(self, x: Any, log0: Any = 0) -> Any:
        """The way back."""
        return x * (-self.s).exp(), -self.s.sum().expand(len(x))


class CounterDoubled(CountedFromZero):
    """The way ahead counts what came in twice."""

    def forward(self, x: Any, log0: Any = 0) -> Any:
        """The map."""
        return x * self.s.exp(), 2 * log0 + self.s.sum().expand(len(x))


class HotMap(CountedFromZero):
    """A number that is zero by default and no log-det."""

    def forward(self, x: Any, heat: float = 0.0) -> Any:
        """The map."""
        return x * self.s.exp() + heat, self.s.sum().expand(len(x))

    def reverse(self, x: Any, heat: float = 0.0) -> Any:
        """The way back."""
        return (x - heat) * (-self.s).exp(), -self.s.sum().expand(len(x))


class SingleInTraining(nn.BatchNorm1d):
    """A batch norm that computes the moments of a batch in single precision."""

    def __init__(self) -> None:
        super().__init__(3)

    def forward(self, x: Any) -> Any:
        """Train mode by hand."""
        if not self.training:
            return super().forward(x)
        mean = x.float().mean(0).to(x.dtype)
        var = (x - mean).float().pow(2).mean(0).to(x.dtype)
        running = {"running_mean": mean, "running_var": var * len(x) / max(len(x) - 1, 1)}
        with torch.no_grad():
            for name, value in running.items():
                self.get_buffer(name).lerp_(value, 0.1)
        return self.weight * (x - mean) / (var + self.eps).sqrt() + self.bias


def spec(name: str) -> str:
    """The target of a class of this file."""
    return f"{Path(__file__)}:{name}"


@pytest.mark.parametrize("name", ["OnePixel", "TakesVectors"])
def test_an_image_of_one_pixel_is_an_event(name: str) -> None:
    """It is found where no other event is taken, and where another one has no way back."""
    recognized = recipe_of(parse_target(spec(name))).recognized
    assert recognized.event_shape == (4, 1, 1)
    assert "inverse: reverse=True" in recognized.conventions[0]
    assert check(spec(name), "map/inverse").status is Status.HOLDS


@pytest.mark.parametrize("name", ["CountedFromZero", "CounterDropped", "CounterDoubled", "HotMap"])
def test_what_is_counted_from_zero_is_a_running_log_det(name: str) -> None:
    """It is one where it moves the log-det by what it moves by, whatever it is called."""
    said = recipe_of(parse_target(spec(name))).recognized.conventions
    counts = name in ("CountedFromZero", "CounterDropped")
    assert any("running log-det, added (log0)" in one for one in said) == counts
    assert check(spec(name), "map/log-det").status is Status.HOLDS


def test_single_precision_in_train_mode_is_one_accusation() -> None:
    """It is told as what it is, and nothing else is accused of what it rounds."""
    target = spec("SingleInTraining")
    assert check(target, "dtype/follows").status is Status.VIOLATED
    laws = "moments", "matches-reference", "measured-gradient", "shift-law", "statistics-follow"
    for law in laws:
        verdict = check(target, f"batch-norm/{law}")
        assert verdict.status is not Status.VIOLATED, (law, verdict.reason)


def test_a_file_called_as_a_module_of_python_is_in_nobodys_way(tmp_path: Path) -> None:
    """The module of the command is found, not the user's."""
    (tmp_path / "statistics.py").write_text("raise RuntimeError('of the user')\n")
    run = subprocess.run(
        [sys.executable, "-m", "flowref", "laws"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


class MaskOfNumpy(nn.Module):
    """A coupling whose mask is made in numpy at every call, and kept in single precision on its way."""

    def __init__(self, narrow: bool = False) -> None:
        super().__init__()
        self.net = nn.Linear(4, 4)
        self.narrow = narrow

    def forward(self, x: Any, reverse: bool = False) -> Any:
        """Both ways."""
        mask = 1 - torch.Tensor(np.array([0.0, 1.0, 0.0, 1.0])).expand_as(x).to(x)
        s = self.net(x * (1 - mask)).tanh() * mask
        if self.narrow:
            s = s.float().to(x)
        return (x * (-s).exp() if reverse else x * s.exp()), (-s if reverse else s).sum(1)


@pytest.mark.parametrize(
    ("narrow", "status"), [(False, Status.HOLDS), (True, Status.VIOLATED)], ids=["exact", "rounded"]
)
def test_a_mask_loses_nothing_in_single_precision(narrow: bool, status: Status) -> None:
    """Numbers that are rounded do."""
    assert check(f"{spec('MaskOfNumpy')}?narrow={narrow}", "dtype/follows").status is status
