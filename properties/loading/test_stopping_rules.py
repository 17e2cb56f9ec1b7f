"""An inverse that goes on until a rule is met is known by it, however few steps it takes; one that is
told how many steps to take is not.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import checking
from flowref.checking import Settings
from flowref.model import Status

FLOWS = """
import torch


class Block(torch.nn.Module):
    event_shape = (3,)

    def __init__(self, steps=400, rule=1e-13):
        super().__init__()
        self.weight = torch.nn.Parameter(0.2 * torch.tensor([[1.0, -0.5, 0.3], [0.4, 0.9, -0.2], [0.1, 0.3, -0.8]]))
        self.steps, self.rule = steps, rule

    def g(self, x):
        return torch.tanh(x @ self.weight.T / self.weight.norm().clamp(min=1.0)) * 0.6

    def forward(self, x):
        jacobian = torch.func.vmap(torch.func.jacrev(lambda v: self.g(v[None])[0]))(x)
        return x + self.g(x), torch.linalg.slogdet(torch.eye(3, dtype=x.dtype) + jacobian)[1]

    def inverse(self, y):
        x = y
        for _ in range(self.steps):
            last, x = x, y - self.g(x)
            if (x - last).abs().max() < self.rule:
                break
        return x
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a residual block."""
    path = tmp_path_factory.mktemp("rules") / "flows.py"
    path.write_text(FLOWS)
    return path


@pytest.mark.parametrize(
    ("options", "status"),
    [("", Status.HOLDS), ("?rule=1e-8", Status.HOLDS), ("?steps=3", Status.VIOLATED)],
)
def test_what_a_rule_leaves_is_no_error(file: Path, options: str, status: Status) -> None:
    """A rule is as good as it is; too few steps are too few."""
    verdict = checking.pair_verdict(f"{file}:Block{options}", "map/inverse", Settings("quick"))
    assert verdict.status is status
