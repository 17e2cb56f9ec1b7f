"""Derivatives along parameters: what kinks hide from coarse differences, and what no step explains."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref.checking import pair_verdict
from flowref.laws.common.slopes import Slope
from flowref.model import Mapped, Status
from flowref.registry import parse_target


def slope(kinks: Any, claimed: float, dtype: str = "float64") -> Slope:
    """Of the sum of |t - k|, claimed to have some derivative at 0."""

    def along(call: str, x: Any, seed: int, t: float, only: str) -> Mapped:
        return Mapped(np.abs(t - kinks).sum(keepdims=True), None)

    flow: Any = SimpleNamespace(
        along=along,
        slope=lambda *asked: claimed,
        facts=SimpleNamespace(cost=SimpleNamespace(heavy=False)),
        dtype=dtype,
    )
    return Slope(flow, "forward", (np.zeros(1),), 0, lambda out: np.asarray(out.value), np.ones(1))


@pytest.mark.parametrize("nearest", [2.0**-20, 2.0**-16, 2.0**-9, 1.0])
def test_kinks_between_the_points_of_a_difference_accuse_nobody(nearest: float) -> None:
    """Beside a thousand kinks on one side the right derivative is that of what lies before them."""
    kinks = np.linspace(nearest, 2 * nearest, 1000)
    compared = slope(kinks, -1000.0).compared()
    assert not compared.decides or compared.excess <= 1


@pytest.mark.parametrize("claimed", [-990.0, 0.0, 1000.0])
def test_a_wrong_derivative_is_told_where_there_is_no_kink(claimed: float) -> None:
    """At whatever step."""
    compared = slope(np.linspace(1, 2, 1000), claimed).compared()
    assert compared.decides
    assert compared.excess > 1


class Lost(nn.Module):
    """A map of which no value is a number."""

    event_shape = (2,)

    def __init__(self) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.ones(2))

    def forward(self, x: Any) -> Any:
        """Values and log-dets."""
        return x * self.s + float("nan"), self.s.log().sum().expand(len(x))


@pytest.mark.parametrize("law", ["gradient/parameters[value]", "gradient/parameters[log-det]"])
def test_where_there_are_no_numbers_nothing_is_said(law: str) -> None:
    """Neither a derivative, nor an error of the law."""
    assert pair_verdict(parse_target(f"{__file__}:Lost"), law).status is Status.INCONCLUSIVE


def test_single_precision_has_no_echo() -> None:
    """A step as short as that of the echo tells nothing there."""
    with pytest.raises(Exception, match="judged as they are"):
        slope(np.ones(1), -1.0, "float32").echo(1)
