"""The maps of batch norm are proved where they are these, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import registry
from flowref.proving import certified

EVAL, TRAIN, BIAS = (
    "batch-norm/eval-map",
    "batch-norm/train-map",
    "batch-norm/gradient[bias-before]",
)
STATISTICS = "gradient/input[batch]"
ALL = (EVAL, TRAIN, BIAS, STATISTICS)
LAYERS = """
import torch
from torch import nn


class Norm(nn.Module):
    event_shape = (3,)
    over = (0,)

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.bias = nn.Parameter(torch.zeros(3))
        self.register_buffer("running_mean", torch.zeros(3))
        self.register_buffer("running_var", torch.ones(3))
        self.eps, self.momentum = 1e-5, 0.1

    def moments(self, x):
        return x.mean(self.over), x.var(self.over, unbiased=False)

    def wide(self, one, x):
        return one.reshape(1, 3, *(1,) * (x.dim() - 2)) if one.dim() == 1 else one

    def forward(self, x):
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = self.moments(x)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
        return self.map(x, self.wide(mean, x), self.wide(var, x))

    def map(self, x, mean, var):
        hat = (x - mean) / torch.sqrt(var + self.eps)
        return hat * self.wide(self.weight, x) + self.wide(self.bias, x)


class Images(Norm):
    event_shape = (3, 2, 4)
    over = (0, 2, 3)


class MeanDetached(Norm):
    def moments(self, x):
        mean, var = super().moments(x)
        return mean.detach(), var


class VarianceDetached(Norm):
    def moments(self, x):
        mean, var = super().moments(x)
        return mean, var.detach()


class Cubic(Norm):
    def map(self, x, mean, var):
        return super().map(x, mean, var) + 0 * x if self.training else super().map(x**3, mean, var)


class FirstRow(Images):
    def moments(self, x):
        mean, var = super().moments(x)
        return (mean, var) if len(x) > 1 else (mean.detach() * 0, var)
"""
# A layer, and what is proved of it for all inputs and weights.
RIGHT = {
    "Norm": set(ALL),
    "Images": set(ALL),
    "MeanDetached": {EVAL, TRAIN},
    "VarianceDetached": {EVAL, TRAIN, BIAS},
    "Cubic": {TRAIN, BIAS, STATISTICS},
    "FirstRow": {EVAL, BIAS, STATISTICS},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of layers."""
    path = tmp_path_factory.mktemp("normalizers")
    (path / "layers.py").write_text(LAYERS)
    return path


@pytest.mark.parametrize("name", RIGHT)
def test_what_a_layer_is_is_proved(name: str, folder: Path) -> None:
    """In both modes; and of what it is not nothing is."""
    target = registry.parse_target(f"{folder / 'layers.py'}:{name}?kind=batch-norm")
    laws = map(registry.find_law, ALL)
    found = {one.statement: one.proof for one in certified(target, laws, quick=True)}
    assert {law for law, proof in found.items() if proof.whole} == RIGHT[name], found
    assert not [law for law, proof in found.items() if proof.proved and law not in RIGHT[name]]
