"""A series that is cut off is to be long enough for the weights that a map is given, not for all that these
may be moved to.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status

QUICK = Settings("quick")


class Exponential(nn.Module):
    """A matrix exponential by its series, and back by that of the other sign; or with a bug."""

    event_shape = (3,)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.sin(torch.arange(9.0)).reshape(3, 3))
        self.bug = bug

    def series(self, x: Any, weight: Any) -> Any:
        """The first terms."""
        total, term = x, x
        for k in range(1, 5 if self.bug == "short" else 13):
            term = term @ weight / k
            total = total + term
        return total

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        trace = self.weight.diagonal().sum()
        return self.series(x, self.weight), trace.expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        weight = self.weight.T if self.bug == "transposed" else self.weight
        return self.series(z, -weight)


class Twice(nn.Module):
    """Two of them, of which each takes a half of the operations."""

    event_shape = (3,)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.layers = nn.ModuleList([Exponential(bug), Exponential(bug)])

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        total = 0.0
        for layer in self.layers:
            x, ladj = layer(x)
            total = total + ladj
        return x, total

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        layers: list[Any] = [*self.layers]
        for layer in reversed(layers):
            z = layer.inverse(z)
        return z


LAWS = ("map/inverse", "map/inverse[latents]")
BUILDS = pytest.mark.parametrize("build", [Exponential, Twice])


@BUILDS
@pytest.mark.parametrize("law", [*LAWS, "map/log-det"])
def test_terms_that_moved_weights_lack_are_not_accused(build: Any, law: str) -> None:
    """They are enough as it is built."""
    assert check(build(), law, QUICK).status is Status.HOLDS


@BUILDS
@pytest.mark.parametrize("bug", ["short", "transposed"])
def test_bugs_are_accused(build: Any, bug: str) -> None:
    """Too few terms for the weights as given, and what no term makes right."""
    assert check(build(bug), LAWS[0]).status is Status.VIOLATED
