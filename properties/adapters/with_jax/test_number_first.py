"""Maps in JAX that return a number for each point, and then a point: it is their log-det, or they are asked."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax", reason="what is JAX's is checked where JAX is installed")

import jax
import jax.numpy as jnp

from flowref import check
from flowref.checking import Settings
from flowref.model import Ambiguous, Status

QUICK = Settings("quick")


class Stretched:
    """Each entry by a function of its own; the log-det, or the log-density, comes first."""

    event_shape: tuple[int, ...] = (2,)

    def __init__(self, told: str = "log-det") -> None:
        self.told, self.weight = told, jnp.array([0.3, 0.6])
        self.returns = ""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z = x + self.weight * jnp.tanh(x)
        ladj = jnp.log1p(self.weight / jnp.cosh(x) ** 2).sum(-1)
        if self.told.endswith("log-density"):
            off = 1e-2 * self.told.startswith("shifted")
            return jax.scipy.stats.norm.logpdf(z).sum(-1) + ladj + off, z
        return (2 * ladj if self.told == "twice" else ladj), z


@pytest.mark.parametrize("told", ["log-det", "log-density", "twice"])
def test_a_number_before_a_point_is_asked_about(told: str) -> None:
    """No agreement with a Jacobian chooses: what is right, and what is wrong, may be a log-det or a log-density."""
    with pytest.raises(Ambiguous, match=r"\?returns=ladj,z or \?returns=log_prob,z"):
        check(Stretched(told), "map/log-det", QUICK)


@pytest.mark.parametrize(
    ("told", "returns", "law", "status"),
    [
        ("log-det", "ladj,z", "map/log-det", Status.HOLDS),
        ("twice", "ladj,z", "map/log-det", Status.VIOLATED),
        ("log-density", "log_prob,z", "density/mass", Status.HOLDS),
        ("shifted log-density", "log_prob,z", "density/mass", Status.VIOLATED),
    ],
)
def test_what_is_said_of_it_is_judged(told: str, returns: str, law: str, status: Status) -> None:
    """A number that is named is held to what it is said to be."""
    flow = Stretched(told)
    flow.returns = returns
    assert check(flow, law, QUICK).status is status


def test_events_of_one_entry_come_first() -> None:
    """There both are one number, and the value stands before its log-det."""

    class Doubled:
        event_shape = (1,)

        def forward(self, x: Any) -> Any:
            """Data to latents."""
            return 2 * x, jnp.full(x.shape[:-1], jnp.log(2.0))

    assert check(Doubled(), "map/log-det", QUICK).status is Status.HOLDS
