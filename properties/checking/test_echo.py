"""Laws that compare a call with itself are held to how the call answers to noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flowref import registry
from flowref.checking.measurement import Measurement, measure, precision_of
from flowref.checking.response import Response
from flowref.laws.common.probes import echo_of
from flowref.loading import load
from flowref.model import Array, Batch, Condition, Manner, Mapped

LAWS = ("same/rows", "same/rows[large-batch]", "same/manner[strides]")
HOSTS = ("nflows:AffineCouplingTransform", "zuko:NSF?features=3&transforms=1")
X = np.random.default_rng(0).standard_normal((6, 4))


def response(law_id: str, host: str, echoes: bool) -> Response:
    """The response of a law's residual to noise, by its echo or by itself."""
    law = registry.find_law(law_id)
    subject = load(registry.parse_target(host))
    batch = Batch(X[:, : subject.event_shape[0]], None, 0)
    residual = measure(law, subject, batch)
    measurement = Measurement(
        law if echoes else replace(law, echo=None), subject, batch, residual,
        precision_of(subject), 0, Condition(),
    )  # fmt: skip
    found = Response(measurement, np.ones(len(batch.x), dtype=bool))
    found.runs(24)
    return found


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("law", LAWS)
def test_an_echo_moves_as_the_residual_does(law: str, host: str) -> None:
    """How far the echo moves is how far the residual moves, up to what two dozen runs tell, and no
    run is lost.
    """
    echo, own = response(law, host, True), response(law, host, False)
    assert echo.echo is not None
    assert own.echo is None
    assert echo.steady.all()
    ratio = np.median(echo.size / own.size)
    assert 0.3 < ratio < 3.0


def test_a_point_that_noise_refuses_loses_itself_alone() -> None:
    """Where a call raises at one point under noise, the others are told all the same."""
    subject = load(registry.parse_target(HOSTS[0]))
    plain = subject.calls["forward"]
    state = {"refuses": False}

    def picky(x: Array, context: Array | None = None) -> Mapped:
        if state["refuses"] and (x == X[2]).all(1).any():
            raise ValueError("outside")
        out: Mapped = plain(x, context)
        return out

    def mannered(inputs: tuple[Any, ...], manner: Manner) -> Mapped:
        return picky(*inputs)

    call = replace(plain, run=picky, mannered=mannered)
    moved = echo_of(("forward",))(replace(subject, calls={"forward": call}), Batch(X, None, 0))
    assert np.array_equal(moved(), np.zeros(len(X)))
    state["refuses"] = True
    assert np.array_equal(np.isnan(moved()), np.arange(len(X)) == 2)
