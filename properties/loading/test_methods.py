"""The function at fault is named: which functions of a user's code each call runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flowref import loading
from flowref.model import Recognized, Status, Verdict
from flowref.registry import parse_target
from flowref.reporting.faults import fault
from flowref.reporting.verdict_json import recognized_from_json, recognized_to_json

CODE = """
import torch
from torch import nn
from torch.distributions import constraints, transforms


class Doubled(transforms.Transform):
    domain = codomain = constraints.real_vector
    bijective = True

    def _call(self, x):
        return 2 * x

    def _inverse(self, y):
        return y / 2

    def log_abs_det_jacobian(self, x, y):
        return torch.zeros(len(x))


class Layer(nn.Module):
    def forward(self, x):
        return self.scaled(x), torch.zeros(len(x))

    def scaled(self, x):
        return 2 * x


class Stack(nn.Module):
    event_shape = (2,)

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])

    def forward(self, x):
        total = 0
        for layer in self.layers:
            x, ladj = layer(x)
            total = total + ladj
        return x, total

    def inverse(self, z):
        return z / 4, torch.zeros(len(z))
"""
PART = "part 1 of 2 (Layer)"


def line_of(text: str, after: str = "class") -> int:
    """The line of a text, behind another."""
    start = CODE.index(after)
    return CODE[: CODE.index(text, start)].count("\n") + 1


@pytest.fixture
def recognized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Recognized]:
    """What a target of the file is taken for, with its functions, through JSON and back."""
    (tmp_path / "flows.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)

    def made(name: str) -> Recognized:
        target = parse_target(f"flows.py:{name}?event=2")
        methods = loading.entered_methods(loading.load(target))
        one = Recognized("bijection", path="flows.py", line=1, methods=methods)
        assert recognized_from_json(recognized_to_json(one)) == one
        return one

    return made


@pytest.mark.parametrize(
    ("target", "law", "part", "name", "after"),
    [
        ("Doubled", "map/log-det", "", "log_abs_det_jacobian", "class Doubled"),
        ("Doubled", "map/log-det[inverse]", "", "log_abs_det_jacobian", "class Doubled"),
        ("Doubled", "map/inverse", "", "_inverse", "class Doubled"),
        ("Doubled", "map/promised-jacobian[monotone]", "", "_call", "class Doubled"),
        ("Stack", "map/log-det", "", "forward", "class Stack"),
        ("Stack", "map/log-det", PART, "forward", "class Layer"),
        ("Stack", "map/log-det[inverse]", "", "inverse", "class Stack"),
    ],
)
def test_the_function_at_fault_is_named(
    recognized: Callable[[str], Recognized],
    target: str,
    law: str,
    part: str,
    name: str,
    after: str,
) -> None:
    """The method that returns the log-det, or the map, of the object or of the part that is wrong; helpers
    that it calls are none.
    """
    verdict = Verdict("t", law, Status.VIOLATED, part=part)
    line = line_of(f"def {name}(", after)
    assert fault(verdict, recognized(target)) == f"flows.py:{line} (def {name})"


def test_what_no_call_is_about_is_in_the_target(
    recognized: Callable[[str], Recognized],
) -> None:
    """Laws of state are about the whole object; where no source is known nothing is named."""
    verdict = Verdict("t", "same/saved[reload]", Status.VIOLATED)
    assert fault(verdict, recognized("Stack")) == "flows.py:1"
    assert fault(verdict, Recognized("bijection")) == ""
    assert fault(verdict, None) == ""
