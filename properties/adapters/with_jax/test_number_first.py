"""Maps in JAX that return a number for each point, and then a point: it is their log-det, or they are asked."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax", reason="what is JAX's is checked where JAX is installed")

import jax
import jax.numpy as jnp

from flowref import check
from flowref.checking import Settings
from flowref.model import Status, TargetError

QUICK = Settings("quick")


class Stretched:
    """Each entry by a function of its own; the log-det, or the log-density, comes first."""

    event_shape: tuple[int, ...] = (2,)

    def __init__(self, told: str = "log-det") -> None:
        self.told, self.weight = told, jnp.array([0.3, 0.6])

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z = x + self.weight * jnp.tanh(x)
        ladj = jnp.log1p(self.weight / jnp.cosh(x) ** 2).sum(-1)
        if self.told == "log-density":
            return jax.scipy.stats.norm.logpdf(z).sum(-1) + ladj, z
        return (2 * ladj if self.told == "twice" else ladj), z


@pytest.mark.parametrize("told", ["log-density", "twice"])
def test_a_number_that_is_no_log_det_is_asked_about(told: str) -> None:
    """A log-density was taken for a log-det, and accused."""
    with pytest.raises(TargetError, match=r"may be a log-density.*\(value, log_det\)"):
        check(Stretched(told), "map/log-det", QUICK)


def test_a_log_det_that_comes_first_is_judged() -> None:
    """It is that of the map."""
    assert check(Stretched(), "map/log-det", QUICK).status is Status.HOLDS


def test_events_of_one_entry_come_first() -> None:
    """There both are one number, and the value stands before its log-det."""

    class Doubled:
        event_shape = (1,)

        def forward(self, x: Any) -> Any:
            """Data to latents."""
            return 2 * x, jnp.full(x.shape[:-1], jnp.log(2.0))

    assert check(Doubled(), "map/log-det", QUICK).status is Status.HOLDS
