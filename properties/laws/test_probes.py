"""Probes: the calls that a law of conduct is judged for, and the statements made of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from flowref.laws.common.probes import (
    DEARLY_DRAWN,
    DRAWN,
    GIVE_UP,
    HEAVILY_DRAWN,
    Outcomes,
    Probe,
    absent,
    agree,
    few,
    lived,
    probes,
)
from flowref.model import (
    Array,
    Batch,
    Call,
    Facts,
    Life,
    Manner,
    Mapped,
    Subject,
    Undecidable,
    Unsupported,
)
from flowref.model.cost import CallCost, Cost, LinearCost

ROWS = 4
BATCH = Batch(np.arange(2.0 * ROWS).reshape(ROWS, 2) - 3, np.arange(1.0 * ROWS)[:, None], 0)
Inputs = tuple[Any, ...]


def doubled(x: Array, context: Array | None) -> Mapped:
    """The map of the tests."""
    return Mapped(2 * x, np.full(len(x), np.log(4.0)))


def refusing(below: float, y: Array, context: Array | None) -> Mapped:
    """An inverse that refuses a batch with a point below a bound."""
    if (y < below).any():
        raise ValueError("out of range")
    return Mapped(y / 2, np.full(len(y), -np.log(4.0)))


@pytest.mark.parametrize(
    ("cost", "drawn"),
    [
        (CallCost(), DRAWN),
        (CallCost(work=LinearCost(per_row=1e9)), HEAVILY_DRAWN),
        (CallCost(work=LinearCost(per_row=1e9), repeats=True), DEARLY_DRAWN),
    ],
)
def test_fewer_points_are_drawn_where_drawing_is_heavy(cost: CallCost, drawn: int) -> None:
    """Two of a model of images, and one where each is solved step by step."""
    sampler = Subject(name="s", facts=Facts((2,), cost=Cost({"sample": cost})), calls={})
    assert few(sampler, "sample") == drawn


def subject(promises: dict[str, Any] | None = None, **maps: Callable[..., Mapped]) -> Subject:
    """A subject of which every call is the same in every manner."""

    def mannered(run: Callable[..., Mapped], inputs: Inputs, manner: Manner) -> Mapped:
        return run(*inputs)

    def unseen(inputs: Inputs, default: str, training: bool) -> Any:
        raise AssertionError("these tests observe no call")

    calls = {name: Call(name, run, partial(mannered, run), unseen) for name, run in maps.items()}
    return Subject(name="s", facts=Facts((2,), promises=promises or {}), calls=calls)


def other(answer: Mapped | None, probe: Probe) -> Outcomes:
    """The outcome of a probe, and the answer of another manner."""
    yield probe(), answer


def test_points_that_a_call_refuses_are_replaced_by_one_that_it_takes() -> None:
    """An inverse is probed at the images that it takes, and at one of them in place of others."""
    forward, inverse = probes(subject(forward=doubled, inverse=partial(refusing, -4.0)), BATCH)
    assert (forward.name, inverse.name) == ("forward", "inverse")
    assert np.array_equal(forward.points, BATCH.x)
    assert np.array_equal(inverse.points[1:], 2 * BATCH.x[1:])
    assert np.array_equal(inverse.points[0], inverse.points[1])


def test_a_call_that_takes_no_point_is_left_out_or_leaves_nothing_to_say() -> None:
    """Rounding laws need every call; exact ones are judged for those that are there."""
    flow = subject(forward=doubled, inverse=partial(refusing, np.inf))
    assert [probe.name for probe in probes(flow, BATCH, complete=False)] == ["forward"]
    with pytest.raises(Undecidable, match="inverse raises ValueError: out of range"):
        probes(flow, BATCH)


def test_a_call_that_keeps_refusing_is_not_asked_for_every_point() -> None:
    """After so many refused points in a row, a call counts as refusing all."""
    asked: list[int] = []

    def never(y: Array, context: Array | None) -> Mapped:
        asked.append(len(y))
        raise ValueError("no")

    large = Batch(np.zeros((50, 2)), None, 0)
    probes(subject(forward=doubled, inverse=never), large, complete=False)
    assert asked == [50, *[1] * (GIVE_UP + 1)]


def test_nothing_can_be_said_of_a_flow_without_calls() -> None:
    """A flow that offers none of the calls is not applicable."""
    with pytest.raises(Unsupported, match="offers no call"):
        probes(subject(), BATCH)


@pytest.mark.parametrize(
    ("promises", "tolerances"),
    [
        ({}, [0.0, 0.0]),
        ({"inverse-tolerance": 1e-3}, [0.0, 1e-3]),
        ({"inverse-tolerance": 1e-3, "iterative-forward": True}, [1e-3, 0.0]),
    ],
)
def test_a_probe_knows_what_an_iterative_call_promises(
    promises: dict[str, Any], tolerances: list[float]
) -> None:
    """The tolerance belongs to the direction that iterates."""
    flow = subject(promises, forward=doubled, inverse=partial(refusing, -np.inf))
    assert [probe.tolerance for probe in probes(flow, BATCH)] == tolerances


def test_rows_of_a_probe_take_their_contexts_along() -> None:
    """Points and contexts are chosen together."""
    (probe,) = probes(subject(forward=doubled), BATCH)
    chosen = probe.rows(np.array([2, 0]))
    assert np.array_equal(chosen.points, BATCH.x[[2, 0]])
    assert chosen.inputs[1].ravel().tolist() == [2.0, 0.0]
    assert np.array_equal(chosen().value, 2 * BATCH.x[[2, 0]])


def test_agree_sees_an_outcome_that_differs_and_names_it() -> None:
    """The residual is the relative difference; the note is there where something differs."""
    flow = subject(forward=doubled)
    same, off = doubled(BATCH.x, None), doubled(BATCH.x + 1e-3, None)
    equal = agree(probes(flow, BATCH), partial(other, same), "it differs")
    apart = agree(probes(flow, BATCH), partial(other, off), "it differs")
    assert (equal.per_row().max(), equal.note) == (0.0, "")
    assert apart.per_row().min() > 1e-4
    assert apart.note == "it differs"


def test_a_refused_outcome_is_no_difference() -> None:
    """What is refused is loud and no wrong value; where all is refused a law may say nothing."""
    (probe,) = probes(subject(forward=doubled), BATCH)
    assert agree([probe], partial(other, None), "it differs").per_row().max() == 0.0
    with pytest.raises(Unsupported, match="in no other manner"):
        agree([probe], partial(other, None), "it differs", "it runs in no other manner")


def test_absent_names_what_was_seen() -> None:
    """Nothing seen is a residual of zero; what was seen is named in the note."""
    assert absent([], 3, "it wrote to {}").per_row().tolist() == [0.0, 0.0, 0.0]
    seen = absent(["x (by {forward})"], 3, "it wrote to {}")
    assert seen.per_row().tolist() == [1.0, 1.0, 1.0]
    assert seen.note == "it wrote to x (by {forward})"


def test_a_life_that_is_refused_is_not_applicable_for_its_reason() -> None:
    """The error is part of the reason."""

    def play(steps: Any, fresh: bool = False) -> Life:
        raise RuntimeError("not in train mode")

    flow: Any = Subject(name="s", facts=Facts((2,)), play=play)
    with pytest.raises(Unsupported, match=r"it refuses \(RuntimeError: not in train mode\)"):
        lived(flow, [], "it refuses")
