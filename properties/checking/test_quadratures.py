"""Maps that integrate a positive net at nodes: what falls with these is the quadrature's error, and a bug
in the log-det is none.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import checking, registry
from flowref.checking import Settings
from flowref.loading import recipe_of
from flowref.model import Status, Target

# Unconstrained monotonic networks (Wehenkel and Louppe 2019, arXiv:1908.05164): nodes that a call makes from
# an attribute, from what is written in it, or that are made with the object, by default or as it is told.
BODY = """
import math

import torch
from torch import nn


def rule(count):
    at = (torch.arange(count, dtype=torch.float64) + 0.5) / count  # midpoints
    return at, torch.full((count,), 1.0 / count, dtype=torch.float64)


def stacked(net, t):
    # Each coordinate by itself, by products of stacked matrices.
    first, bend, last = net
    columns = t.transpose(0, 1)
    hidden = bend(columns.reshape(2, -1, 1) @ first.weight.T.expand(2, 1, 12) + first.bias)
    return (hidden @ last.weight.T.expand(2, 12, 1)).reshape(*columns.shape, 1).transpose(0, 1)


class Integral(nn.Module):
    event_shape = (2,)

    def __init__(self{parameter}):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 12), nn.ReLU(), nn.Linear(12, 1))
        {made}

    def slope(self, t):
        return nn.functional.softplus({net})[..., 0] + 0.05

    def forward(self, x):
        at, weights = {nodes}
        values = self.slope(x[..., None] * at)
        z = x * (values * weights).sum(-1)
        return z, self.slope({share} * x).log().sum(-1)


def make():
    return Integral(32)
"""
NET = "self.net(t[..., None])"
STYLES = {
    "attribute": {"parameter": ", nb_steps=32", "made": "self.nb_steps = nb_steps", "nodes": "rule(self.nb_steps)"},
    "written": {"parameter": "", "made": "", "nodes": "rule(32)"},
    "stacked": {"parameter": "", "made": "", "nodes": "rule(32)", "net": "stacked(self.net, t)"},
    "buffers": {
        "parameter": ", nodes=32",
        "made": "for name, one in zip(('at', 'weights'), rule(nodes)): self.register_buffer(name, one)",
        "nodes": "self.at.to(x), self.weights.to(x)",
    },
    "kept": {
        "parameter": ", nb_steps",
        "made": "self.nb_steps = nb_steps; "
        "[self.register_buffer(name, one) for name, one in zip(('at', 'weights'), rule(nb_steps))]",
        "nodes": "self.at.to(x), self.weights.to(x).reshape(self.nb_steps)",
    },
}  # fmt: skip


def written(folder: Path, style: str, share: float = 1.0) -> Target:
    """One in a file; ``share``: at which share of x its log-det is taken."""
    path = folder / "flows.py"
    path.write_text(BODY.format(**{"net": NET} | STYLES[style], share=share))
    return registry.parse_target(f"{path}:" + ("make" if style == "kept" else "Integral"))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("share", "accused"), [(1.0, False), (0.9, True)], ids=["healthy", "short of the end"]
)
def test_a_quadrature_is_no_bug(tmp_path: Path, style: str, share: float, accused: bool) -> None:
    """Its error falls with the nodes; that of a log-det at another point does not."""
    target = written(tmp_path, style, share)
    verdict = checking.pair_verdict(target, "map/log-det", Settings(profile="quick"))
    assert (verdict.status is Status.VIOLATED) is accused, verdict.reason


@pytest.mark.parametrize("style", STYLES)
def test_it_is_told_from_what_is_exact(tmp_path: Path, style: str) -> None:
    """Its line says that it integrates, and nothing of an inverse that is not there."""
    recipe = recipe_of(written(tmp_path, style))
    assert recipe.facts.promises.get("assumed-accuracy")
    said = "; ".join(recipe.recognized.conventions)
    assert "it integrates at many nodes at once, and its log-det is held to" in said
    assert "its inverse iterates" not in said


IMAGES = """
import torch
from torch import nn


class Pixels(nn.Module):
    event_shape = (2, 3, 3)

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 1), nn.ReLU(), nn.Conv2d(8, 1, 1))

    def slope(self, t):
        return nn.functional.softplus(self.net(t.reshape(-1, 1, 3, 3))).reshape(t.shape) + 0.1

    def forward(self, x):
        at = ((torch.arange(24) + 0.5) / 24).to(x).reshape(-1, 1, 1, 1)
        return x * self.slope(x[:, None] * at).mean(1), self.slope({share} * x).log().flatten(1).sum(1)
"""


@pytest.mark.parametrize(("share", "accused"), [(1.0, False), (0.9, True)])
def test_nodes_go_through_convolutions_as_well(tmp_path: Path, share: float, accused: bool) -> None:
    """Of images: positions are what rows are elsewhere."""
    path = tmp_path / "images.py"
    path.write_text(IMAGES.format(share=share))
    target = registry.parse_target(f"{path}:Pixels")
    verdict = checking.pair_verdict(target, "map/log-det")
    assert (verdict.status is Status.VIOLATED) is accused, verdict.reason


def test_rows_that_are_coordinates_are_no_nodes(tmp_path: Path) -> None:
    """A net that sees each coordinate by itself, in a map that is exact, is held to what is exact."""
    path = tmp_path / "flows.py"
    path.write_text(
        BODY.format(**STYLES["written"], net=NET, share=1.0).replace(
            "z = x * (values * weights).sum(-1)",
            "z = x * self.slope(0.0 * x)\n        return z, self.slope(0.0 * x).log().sum(-1)",
        )
    )
    target = registry.parse_target(f"{path}:Integral")
    assert not recipe_of(target).facts.promises.get("assumed-accuracy")
