"""Each row of the table of kinds of normalizers is shown by its example."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import torch
from torch import nn

from flowref import loading
from flowref.adapters.common.normalizers.kinds import KINDS, NormalizerKind


class Example(nn.Module):
    """What the body of a forward is the call of."""

    event_shape = (3,)
    mean: Any
    var: Any

    def __init__(self, body: str) -> None:
        super().__init__()
        scope: dict[str, Any] = {}
        exec(f"def forward(self, x):\n{textwrap.indent(body, '    ')}", scope)  # a row of our own
        self.body = scope["forward"]
        self.weight, self.bias = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("var", torch.ones(3))

    def forward(self, x: Any) -> Any:
        """The example."""
        return self.body(self, x)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.shows.__name__)
def test_an_example_is_of_its_kind(kind: NormalizerKind) -> None:
    """It is recognized by its row, in the words of it."""
    found = loading.load(loading.snapshot(Example(kind.example))).normalizer
    assert found is not None
    assert found.evidence == kind.said.format(found.channel)
