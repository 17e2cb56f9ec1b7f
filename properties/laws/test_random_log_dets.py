"""Laws that call an object and its parts, or twice, accuse no log-det of being drawn anew."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from flowref import checking
from flowref.model import Status


def network(*, lost: bool) -> Any:
    """A residual layer, whose log-det is an estimate with random vectors, behind a layer whose hook
    for loading holds the layer itself: a copy's hook holds the original. ``lost``: its parameters
    are kept where no one finds them, as a true defect has it.
    """
    ff, fm = pytest.importorskip("FrEIA.framework"), pytest.importorskip("FrEIA.modules")
    stack = ff.SequenceINN(2)
    stack.append(fm.ActNorm)
    stack.append(fm.IResNetLayer, internal_size=4)
    if lost:
        scale = stack.module_list[0].scale
        del stack.module_list[0].scale
        stack.module_list[0].__dict__["scale"] = torch.nn.Parameter(scale.detach().clone())
    return stack


@pytest.mark.parametrize("law", ["state/registered", "composition/parts"])
def test_a_random_log_det_is_no_defect(law: str) -> None:
    """The same vectors are drawn where results are compared; where that cannot be, values are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert checking.pair_verdict(network(lost=False), law).status is Status.HOLDS


def test_a_parameter_that_nobody_lists_is_seen_beside_a_random_log_det() -> None:
    """The random states are the same, so that what moves is what the parameter moves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdict = checking.pair_verdict(network(lost=True), "state/registered")
    assert verdict.status is Status.VIOLATED
    assert "module_list.0.scale" in verdict.reason
    assert "hook" not in verdict.reason
