"""Transforms of NumPyro: their events are found."""

from __future__ import annotations

import pytest

pytest.importorskip("numpyro", reason="the transforms are of NumPyro")

import jax
import jax.numpy as jnp
import numpyro.distributions.transforms as nt

from flowref.adapters.numpyro.facts import describe
from flowref.model import TargetError

TRIANGLE = jnp.array([[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [1.0, 1.0, 3.0]])
EVENTS = [
    (nt.ExpTransform(), ()),
    (nt.AffineTransform(0.0, 2.0), ()),
    (nt.AffineTransform(jnp.zeros(3), 2.0), (3,)),
    (nt.PermuteTransform(jnp.array([2, 0, 1])), (3,)),
    (nt.LowerCholeskyAffine(jnp.zeros(3), TRIANGLE), (3,)),
    (nt.CatTransform([nt.ExpTransform(), nt.SigmoidTransform()], dim=-1), (2,)),
    (nt.StickBreakingTransform(), (4,)),
]


@pytest.mark.parametrize(("transform", "event"), EVENTS)
def test_an_event_is_found(transform: nt.Transform, event: tuple[int, ...]) -> None:
    """A transform of numbers takes its arrays' shape, or numbers; one of vectors what its calls take."""
    with jax.enable_x64(True):
        assert describe(transform, None).event_shape == event


@pytest.mark.parametrize(("transform", "event"), EVENTS)
def test_an_event_that_is_given_counts(transform: nt.Transform, event: tuple[int, ...]) -> None:
    """What a user says is taken, and no other event is in question."""
    facts = describe(transform, (5, *event))
    assert facts.event_shape == (5, *event) and not facts.guessed


def test_what_no_call_shows_is_asked_for() -> None:
    """Where no event is taken that is tried, one is asked for."""
    wide = nt.ReshapeTransform(forward_shape=(19,), inverse_shape=(19, 1))
    with pytest.raises(TargetError, match=r"\?event="):
        describe(wide, None)
