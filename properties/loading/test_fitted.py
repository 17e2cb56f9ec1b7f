"""Densities that nothing but a method of their own moves are audited as it leaves them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from flowref.checking import pair_verdict
from flowref.loading import recipe_of
from flowref.loading.estimators import correlated, drawn
from flowref.model import Status
from flowref.registry import parse_target
from flowref.scripting.torch.torch_object_lines import ESTIMATING, FITTING


class Normal(nn.Module):
    """A normal density with the mean and the covariance of what it was fitted to."""

    mean: Any
    tril: Any

    def __init__(self, n_features: int = 3, refuses: bool = False, forgets: bool = False) -> None:
        super().__init__()
        self.n_features, self.refuses, self.forgets = n_features, refuses, forgets
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("tril", torch.eye(n_features))

    def fit(self, x: Any) -> Normal:
        """In closed form."""
        if self.refuses:
            raise RuntimeError("too few points")
        self.mean.copy_(x.mean(0))
        self.tril.copy_(torch.linalg.cholesky(torch.cov(x.T)))
        return self

    def log_prob(self, x: Any) -> Any:
        """Of points; without the spread, if it ``forgets`` that."""
        z = torch.linalg.solve_triangular(self.tril, (x - self.mean).T, upper=False).T
        volume = 0.0 if self.forgets else self.tril.diagonal().log().sum()
        return -(z**2).sum(-1) / 2 - self.n_features * math.log(2 * math.pi) / 2 - volume

    def sample(self, n: int) -> Any:
        """So many points."""
        noise = torch.randn(n, self.n_features, dtype=self.mean.dtype)
        return self.mean + noise @ self.tril.T


@pytest.mark.parametrize(("refuses", "fitted"), [("false", True), ("true", False)])
def test_what_fits_itself_is_fitted(refuses: str, fitted: bool) -> None:
    """To a sample whose entries are correlated; what refuses that is audited as it comes."""
    built: Any = recipe_of(parse_target(f"{__file__}:Normal?refuses={refuses}")).build()
    off = (built.tril - torch.eye(3)).abs().max()
    assert bool(off > 0.5) is fitted


@pytest.mark.parametrize(
    ("forgets", "status"), [("false", Status.HOLDS), ("true", Status.VIOLATED)]
)
def test_what_a_standard_form_hides_is_seen(forgets: str, status: Status) -> None:
    """A spread that is left out of a log-density shows where it is not one."""
    target = parse_target(f"{__file__}:Normal?forgets={forgets}")
    assert pair_verdict(target, "sampling/follows-density").status is status


def test_a_program_fits_to_the_same_sample() -> None:
    """Line for line what was fitted to."""
    import numpy as np

    names: dict[str, Any] = {"np": np}
    exec(FITTING[0].format(size=3), names)  # the line of the program
    assert (names["sample"] == correlated(3)).all()


@pytest.mark.parametrize("words", ESTIMATING)
def test_a_program_fits_estimators_to_the_same_points(words: str) -> None:
    """Whatever kind of points an estimator took."""
    import numpy as np

    kept: list[Any] = []
    names: dict[str, Any] = {"np": np, "flow": SimpleNamespace(fit=kept.append)}
    exec("\n".join(ESTIMATING[words]).format(size=3), names)  # the lines of the program
    assert [f"fitted to {one.words}" for one in drawn(3) if (one.points == kept[0]).all()] == [
        words
    ]
