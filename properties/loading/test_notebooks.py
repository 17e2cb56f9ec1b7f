"""Notebooks are targets: what their cells define, or the cells that are chosen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flowref import checking, registry
from flowref.loading.recipe import recipe_of
from flowref.model import SpecError, Status, TargetError

CELLS = [
    "%matplotlib inline\nimport torch\nfrom torch import nn\nFEATURES = 3",
    "data = open('/nowhere/data.csv').read()\nraise RuntimeError('a cell that trains')",
    "class Flow(nn.Module):\n"
    "    event_shape = (FEATURES,)\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.w = nn.Parameter(torch.randn(FEATURES))\n"
    "    def forward(self, x):\n"
    "        return x * self.w.exp(), self.w.sum().expand(len(x))\n"
    "    def inverse(self, z):\n"
    "        return z * (-self.w).exp(), -self.w.sum().expand(len(z))\n",
    "!pip list\nflow = Flow()\nflow",
]


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A notebook that trains on data that is not there."""
    cells = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in CELLS]
    path = tmp_path / "book.ipynb"
    path.write_text(
        json.dumps({"cells": [{"cell_type": "markdown", "source": ["# text"]}, *cells]})
    )
    return path


@pytest.mark.parametrize("name", ["Flow", "Flow?cells=1,3", "flow?cells=1,3-4"])
def test_what_cells_define_is_audited(book: Path, name: str) -> None:
    """A class of a notebook is found without running what trains, and an object by its cells."""
    target = registry.parse_target(f"{book}:{name}")
    assert checking.pair_verdict(target, "map/log-det").status is Status.HOLDS


def test_a_cell_that_raises_is_named(book: Path) -> None:
    """Its number, what it raised, and how to choose others."""
    with pytest.raises(TargetError, match=r"cell 2 of .* raised FileNotFoundError.*\?cells="):
        recipe_of(registry.parse_target(f"{book}:Flow?cells=all"))


@pytest.mark.parametrize("cells", ["9", "one"])
def test_cells_that_are_none_are_refused(book: Path, cells: str) -> None:
    """A number that is too large, and what is no number."""
    with pytest.raises(SpecError, match="cell"):
        recipe_of(registry.parse_target(f"{book}:Flow?cells={cells}"))
