"""Writing a violation down: numbers, sentences, and the part where it begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checking.fakes import TARGET, Shelf
from checking.standins import Standin
from flowref.checking.record import observations, record
from flowref.checking.tolerance import judge
from flowref.model import Array, Batch, Condition, Mapped, Requirement, Residual, Status, Subject
from flowref.model.cost import CallCost, Cost, LinearCost

BAD = 1e-3


def everywhere(batch: Batch) -> Array:
    """A residual that nothing explains."""
    return np.full(len(batch.x), BAD)


def observing(batch: Batch) -> dict[str, Any]:
    """Numbers for the reader, and a sentence."""
    return {"observed": {"sum": batch.x.sum(1)}, "note": "it is too large"}


@pytest.mark.parametrize(
    ("scale", "where"),
    [(0.0, "at the weights as given"), (0.3, "after moving the parameters by 0.3")],
)
def test_a_record_says_what_and_where(scale: float, where: str) -> None:
    """The law's own sentence, at which weights, and the numbers of the point that was shrunk to."""
    standin = Standin(everywhere, more=observing)
    condition = Condition(scale=scale)
    verdict = record(TARGET, standin.judged([0.123, 4.5, 6.7, 8.9], condition=condition))
    assert verdict.status is Status.VIOLATED
    assert verdict.reason == f"it is too large; {where}"
    assert verdict.counterexample is not None
    assert verdict.counterexample.x == [[0.0] * 4]
    assert verdict.counterexample.observed == {"sum": 0.0}
    assert verdict.counterexample.condition == condition
    assert verdict.evidence is not None
    assert verdict.evidence.residual == BAD


def arbitrated(number: float) -> dict[str, Any]:
    """The details of a law whose second oracle sees a number at the point alone."""
    return {"arbitrate": lambda subject, point: ({"sum": number, "more": 1.0}, "")}


def test_a_second_oracle_adds_its_numbers() -> None:
    """What it saw stands beside what the law saw, where both saw the same."""
    standin = Standin(everywhere, more=observing, details=arbitrated(4.0))
    observed, note = observations(standin.judged(np.ones(4)))
    assert observed == {"sum": 4.0, "more": 1.0}
    assert note == "it is too large"


def test_a_second_oracle_that_saw_something_else_is_not_quoted() -> None:
    """Numbers that contradict the report are left out, and the reader is told why."""
    standin = Standin(everywhere, more=observing, details=arbitrated(5.0))
    observed, note = observations(standin.judged(np.ones((2, 4))))
    assert observed == {"sum": 4.0}
    assert note == "it is too large; the point shows it in its batch of 2, not alone"


@pytest.mark.parametrize("dear", [False, True])
@pytest.mark.parametrize("needs", [(), ("jacobian",)])
def test_large_maps_are_not_taken_apart_again_to_write_down(
    dear: bool, needs: tuple[str, ...]
) -> None:
    """Where calls on thousands of entries take long, the second oracle is not asked again for its
    numbers, and a law of Jacobians keeps the point that it was violated at; others try zero.
    """
    asked: list[float] = []
    details = arbitrated(2048.0 if needs and dear else 0.0)
    oracle = details["arbitrate"]

    def counted(subject: Subject, point: Batch) -> Any:
        asked.append(1.0)
        return oracle(subject, point)

    details["arbitrate"] = counted
    details["needs"] = frozenset(needs)
    standin = Standin(everywhere, more=observing, details=details, features=2048)
    heavy = Cost({"forward": CallCost(1, work=LinearCost(0.0, 1e9))}) if dear else Cost()
    subject = replace(standin.subject, facts=replace(standin.subject.facts, cost=heavy))
    judgement = judge(replace(standin.measurement(np.ones((1, 2048))), subject=subject))
    verdict = record(TARGET, judgement)
    assert verdict.status is Status.VIOLATED
    assert verdict.counterexample is not None
    assert np.any(verdict.counterexample.x) == (dear and bool(needs))
    assert len(asked) == (0 if dear else 1)


def test_numbers_that_cannot_be_had_do_not_lose_the_violation() -> None:
    """A second oracle that raises leaves its error in place of the numbers."""

    def raising(subject: Subject, point: Batch) -> Any:
        raise ZeroDivisionError("at the point")

    judgement = Standin(everywhere, details={"arbitrate": raising}).judged(np.ones(4))
    assert observations(judgement) == ({}, "ZeroDivisionError: at the point")


def chain(bad: set[int], parts: int = 3) -> tuple[Standin, Callable[[Condition], Subject]]:
    """A composite of parts that each add one, of which some are wrong: it is as wrong as they are
    together.
    """
    standin = Standin(everywhere, details={"localize_in_parts": True})

    def add(x: Array, context: Array | None) -> Mapped:
        return Mapped(x + 1, np.zeros(len(x)))

    def build(condition: Condition) -> Subject:
        (index,) = condition.part or (None,)
        wrong = bool(bad) if index is None else index in bad
        return replace(
            standin.subject.with_facts(promises={"wrong": wrong, "at": index}),
            parts=[f"Part{index}" for index in range(parts)],
            part_maps=[add] * parts,
        )

    return standin, build


def localize_in_parts(
    standin: Standin, build: Callable[[Condition], Subject], **details: Any
) -> str:
    """The part that a record names, at the point zero."""

    def measure(subject: Subject, batch: Batch) -> Residual:
        index = subject.promises["at"]
        if index is not None:  # parts are reached with what those before them made
            assert (batch.x == index).all()
        return Residual(BAD * subject.promises["wrong"] * np.ones(len(batch.x)) + standin.level)

    judgement = standin.judged(np.zeros(4))
    measurement = replace(
        judgement.measurement,
        law=replace(standin.law, measure=measure, **details),
        subject=build(Condition()),
    )
    return record(TARGET, replace(judgement, measurement=measurement)).part


@pytest.mark.parametrize(
    ("bad", "part"),
    [({0}, "part 1 of 3 (Part0)"), ({1, 2}, "part 2 of 3 (Part1)"), (set(), "")],
)
def test_the_first_part_that_violates_is_named(shelf: Shelf, bad: set[int], part: str) -> None:
    """Each part is asked at the point that it is reached with, in the order of the map."""
    standin, build = chain(bad)
    shelf.put(build)
    assert localize_in_parts(standin, build) == part


def test_a_part_that_the_law_does_not_speak_about_is_passed_over(shelf: Shelf) -> None:
    """It cannot be where the violation begins."""
    standin, build = chain({0, 1})
    shelf.put(build)
    later = Requirement(lambda subject: subject.promises["at"] != 0, "it comes first")
    assert localize_in_parts(standin, build, applies=later) == "part 2 of 3 (Part1)"


def test_parts_that_cannot_be_run_are_not_named(shelf: Shelf) -> None:
    """A composite whose parts raise is accused as a whole."""
    standin, build = chain({0})
    shelf.put(build)

    def raising(x: Array, context: Array | None) -> Mapped:
        raise ValueError("alone it cannot be called")

    def broken(condition: Condition) -> Subject:
        return replace(build(condition), part_maps=[raising] * 3)

    assert localize_in_parts(standin, broken) == ""
