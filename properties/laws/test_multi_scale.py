"""What users say of their squeezes and multi-scale maps reaches the laws, and the laws see what
only levels show.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import checking
from flowref.model import Status, TargetError

QUICK = checking.Settings("quick")
FLOWS = '''
import torch
from torch import nn


class Squeeze(nn.Module):
    """Windows of two by two become channels; or the image is only reshaped."""

    event_shape = (2, 4, 6)

    def __init__(self, only=False, order="pixel_unshuffle", say=True):
        super().__init__()
        self.only = only
        if say:
            self.squeezing = {"order": order}

    def forward(self, x):
        z = x.reshape(len(x), 8, 2, 3) if self.only else nn.functional.pixel_unshuffle(x, 2)
        return z, x.new_zeros(len(x))

    def inverse(self, z):
        x = z.reshape(len(z), 2, 4, 6) if self.only else nn.functional.pixel_shuffle(z, 2)
        return x, z.new_zeros(len(z))


class Level(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(-0.3, 0.4, features))

    def forward(self, x):
        return x * self.scale.exp(), self.scale.sum().expand(len(x))

    def inverse(self, z):
        return z * (-self.scale).exp(), -self.scale.sum().expand(len(z))


class Levels(nn.Module):
    """Two levels on four features; the second half leaves after the first level."""

    event_shape = (4,)
    multi_scale = {"shapes": [(2,), (2,)], "levels": [["first"], ["second", "final"]]}

    def __init__(self, defect=""):
        super().__init__()
        self.first, self.second, self.final, self.defect = Level(4), Level(2), Level(2), defect

    def forward(self, x):
        h, one = self.first(x)
        onward, leaves = h.chunk(2, 1)
        z, two = self.second(onward + 0.1 * leaves if self.defect == "looks-back" else onward)
        if self.defect == "shares":
            z = z + leaves.tanh()
        total = two if self.defect == "overwritten" else one + two
        if self.defect != "final-not-run":
            z, three = self.final(z)
            total = total + three
        return torch.cat([leaves, z], 1), total

    def inverse(self, z):
        leaves, last = z.chunk(2, 1)
        total = z.new_zeros(len(z))
        if self.defect != "final-not-run":
            last, total = self.final.inverse(last)
        onward, two = self.second.inverse(last)
        if self.defect == "looks-back":
            onward = onward - 0.1 * leaves
        parts = [leaves, onward] if self.defect == "joined-wrongly" else [onward, leaves]
        x, one = self.first.inverse(torch.cat(parts, 1))
        return x, total + one + two
'''
BROKEN = (
    ("Squeeze?only=1", "squeeze/permutes[windows]", Status.VIOLATED),
    ("Squeeze?order=space_to_depth", "squeeze/order[declared]", Status.VIOLATED),
    ("Squeeze?say=False&squeeze=real_nvp", "squeeze/order[declared]", Status.VIOLATED),
    ("Levels?defect=looks-back", "multi-scale/factored-inert", Status.VIOLATED),
    ("Levels?defect=looks-back", "multi-scale/split", Status.VIOLATED),
    ("Levels?defect=overwritten", "density/change-of-variables[levels]", Status.VIOLATED),
    ("Levels?defect=joined-wrongly", "multi-scale/split[inverse]", Status.VIOLATED),
    ("Levels?defect=final-not-run", "multi-scale/all-layers-run", Status.ADVICE),
    ("Levels?defect=shares", "multi-scale/factored-inert", Status.VIOLATED),
)
HEALTHY = (
    ("Squeeze", "squeeze/permutes"),
    ("Squeeze", "squeeze/permutes[windows]"),
    ("Squeeze", "squeeze/order[declared]"),
    ("Squeeze", "shape/wrong-refused[image-size]"),
    ("Squeeze?say=False&squeeze=undeclared", "squeeze/order[known]"),
    *(
        ("Levels", f"multi-scale/{law}")
        for law in (
            "all-layers-run",
            "dims-conserved",
            "factored-inert",
            "log-det-total",
            "recombines",
            "split-exact",
        )
    ),
)


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file as a user has it."""
    path: Path = tmp_path_factory.mktemp("user") / "levels.py"
    path.write_text(FLOWS)
    return path


@pytest.mark.parametrize(("target", "law", "status"), BROKEN, ids=lambda value: str(value))
def test_a_defect_is_seen(flows: Path, target: str, law: str, status: Status) -> None:
    """A bug in a squeeze or in a multi-scale map breaks the law about it."""
    verdict = checking.pair_verdict(f"{flows}:{target}", law, QUICK)
    assert verdict.status is status, verdict.reason


@pytest.mark.parametrize(("target", "law"), HEALTHY, ids=lambda value: str(value))
def test_without_defects_the_laws_hold(flows: Path, target: str, law: str) -> None:
    """The same flows without the bugs are not accused."""
    verdict = checking.pair_verdict(f"{flows}:{target}", law, QUICK)
    assert verdict.status is Status.HOLDS, verdict.reason


def test_what_is_not_said_is_not_judged(flows: Path) -> None:
    """A map that reshapes and says nothing of squeezes is held to no law of theirs."""
    verdict = checking.pair_verdict(
        f"{flows}:Squeeze?only=1&say=False", "squeeze/permutes[windows]", QUICK
    )
    assert verdict.status is Status.NOT_APPLICABLE


def test_an_order_that_is_not_known_is_refused(flows: Path) -> None:
    """A sentence says which orders there are."""
    with pytest.raises(TargetError, match="space_to_depth"):
        checking.pair_verdict(f"{flows}:Squeeze?squeeze=diagonal", "squeeze/permutes", QUICK)
