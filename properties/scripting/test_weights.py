"""Programs for flows with weights from a file: they load them as a user does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flowref import checking, loading, registry, scripting
from flowref.model import Status

SOURCE = '''
import torch
from torch import nn


class Bug(nn.Module):
    """A scale whose log-det lacks the last feature."""

    event_shape = (3,)

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        return x * self.scale.exp(), self.scale[:-1].sum().expand(len(x))


def make():
    return Bug()
'''


def test_a_program_loads_the_weights_of_its_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug that shows with trained weights alone is shown by a program that loads them from inside
    the checkpoint, without the prefix of a larger model.
    """
    monkeypatch.chdir(tmp_path)
    Path("trained_flows.py").write_text(SOURCE, encoding="utf-8")
    state = {"flow.scale": torch.tensor([0.1, 0.2, 0.4]), "head.bias": torch.ones(2)}
    torch.save({"epoch": 1, "state_dict": state}, "run.pt")
    loading.forget()
    target = registry.parse_target("trained_flows.py:make?weights=run.pt")
    verdict = checking.pair_verdict(target, "map/log-det")
    assert verdict.status is Status.VIOLATED and verdict.counterexample is not None
    assert verdict.counterexample.condition.weights == loading.weights_digest(target)
    text = scripting.script(verdict)  # which runs it, and hands it out only if it shows the bug
    assert 'torch.load("run.pt", weights_only=True)["state_dict"]' in text
    assert "flow.load_state_dict(" in text and "removeprefix" in text
