"""Causes before symptoms: a violation that another one explains says so, and is counted once."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowref import registry
from flowref.model import Evidence, Size, Status, Verdict, named_by
from flowref.reporting.causes import CAUSES, by_size, deepest, explained
from flowref.reporting.contents import Environment
from flowref.reporting.markdown import to_markdown
from flowref.reporting.outcomes import labels, tally, violations
from flowref.reporting.report import FlowrefViolation, Report
from flowref.reporting.terminal import target_lines

RANDOM, ROWS, VALUES = CAUSES[0].law, CAUSES[1].law, "map/inverse"
LAWS = [law.id for law in registry.laws()]


def found(law: str, status: Status = Status.VIOLATED, residual: float = 1.0) -> Verdict:
    """A verdict with numbers."""
    return Verdict("t", law, status, evidence=Evidence(residual, 1e-14))


@pytest.mark.parametrize("glob", sorted({glob for cause in CAUSES for glob in cause.symptoms}))
def test_every_symptom_is_a_law(glob: str) -> None:
    """Causes and symptoms name laws that there are."""
    laws = {law.id for law in registry.laws()}
    assert any(named_by(glob, law) for law in laws)
    assert {cause.law for cause in CAUSES} <= laws


@given(st.lists(st.sampled_from(LAWS), unique=True))
def test_something_is_left_to_stand_for_itself(laws: list[str]) -> None:
    """Whatever is violated, each symptom leads to a violation that nothing explains."""
    verdicts = [found(law) for law in laws]
    causes = explained(verdicts)
    assert bool(verdicts) == (len(causes) < len(verdicts))
    for verdict in verdicts:
        root = deepest(verdict, causes)
        assert (root == "") == (verdict.law not in causes)
        assert root not in causes


def test_of_cases_the_gravest_stands_for_the_others() -> None:
    """Where a law holds by itself, one of the circumstances in which it fails explains the rest."""
    law = "same/history[same-tensor, {}]"
    verdicts = [
        found("same/history[same-tensor]", Status.HOLDS),
        found(law.format("no-grad"), residual=0.1),
        found(law.format("context")),
    ]
    (symptom,) = explained(verdicts)
    assert symptom == law.format("no-grad")


def test_only_a_violation_explains() -> None:
    """A cause that holds, or is undecided, explains nothing; nor does one of another target."""
    assert set(explained([found(RANDOM), found(VALUES)])) == {VALUES}
    for status in set(Status) - {Status.VIOLATED}:
        assert not explained([found(RANDOM, status), found(VALUES)])
    other = Verdict("u", RANDOM, Status.VIOLATED)
    assert labels([other, found(VALUES)]) == ["VIOLATED", "VIOLATED"]


@pytest.mark.parametrize(("residual", "symptom"), [(3e-11, False), (1e-5, True), (0.0, True)])
def test_what_is_far_larger_is_no_symptom(residual: float, symptom: bool) -> None:
    """A log-det that is off by one is not put down to rows that differ in the eleventh digit."""
    verdicts = [found(ROWS, residual=residual), found("map/log-det")]
    assert ("map/log-det" in explained(verdicts)) is symptom


@pytest.mark.parametrize("symptom", ["map/log-det[antisymmetry]", "map/log-det[differences]"])
@pytest.mark.parametrize("cause", ["map/log-det", "map/log-det[inverse]"])
def test_a_wrong_log_det_is_counted_once(cause: str, symptom: str) -> None:
    """What compares the log-dets of both directions, or measures them by differences, follows from
    the one that is wrong, and stands for itself where neither is.
    """
    verdicts = [found(cause), found(symptom)]
    assert set(explained(verdicts)) == {symptom}
    assert not explained(verdicts[1:])


@pytest.mark.parametrize(("size", "symptom"), [(Size(0.5, 1.0, 3, 2), True), (None, False)])
def test_a_log_det_that_is_not_the_sum_of_its_parts_is_counted_once(
    size: Size | None, symptom: bool
) -> None:
    """Only if the composite maps as its parts do: otherwise they have no error in nats in common."""
    parts = replace(found("composition/parts"), size=size)
    assert ("composition/parts" in explained([found("map/log-det"), parts])) is symptom
    assert not explained([parts])


@pytest.mark.parametrize("symptom", ["map/singular-jacobian", "map/one-to-one"])
def test_what_rests_on_the_log_det_follows_from_it(symptom: str) -> None:
    """Laws that ask of a flat map whether its log-det admits it follow from one that is wrong where
    the map is not flat, but not from one that is softened by a millionth.
    """
    verdicts = [found("map/log-det"), found(symptom)]
    assert set(explained(verdicts)) == {symptom}
    assert not explained(verdicts[1:])
    assert not explained([found("map/log-det", residual=1e-7), verdicts[1]])


@pytest.mark.parametrize(
    ("law", "symptom"),
    [
        ("train-map[deviation]", True),
        ("gradient[weight-scale]", True),
        ("statistics[counter]", False),
    ],
)
def test_another_formula_is_counted_once(law: str, symptom: bool) -> None:
    """What a batch normalizer makes of a batch explains its moments and its gradients, but not what it
    counts.
    """
    verdicts = [found("batch-norm/train-map[reference]"), found(f"batch-norm/{law}")]
    assert (f"batch-norm/{law}" in explained(verdicts)) is symptom


def test_the_same_tensor_is_another_after_a_call_that_writes_to_it() -> None:
    """A call that writes to its input is not accused of answering from before as well."""
    verdicts = [found("effects/process[input]"), found("same/history[same-tensor]")]
    assert set(explained(verdicts)) == {"same/history[same-tensor]"}
    assert not explained(verdicts[1:])


@pytest.mark.parametrize("status", [Status.HOLDS, Status.NOT_RUN, Status.VIOLATED])
def test_one_log_det_of_two_directions_is_counted_once(status: Status) -> None:
    """Where the log-dets of both directions cancel, that of the inverse is wrong because that of forward
    is; where nobody knows whether they do, both stand for themselves.
    """
    pair = [found("map/log-det"), found("map/log-det[inverse]")]
    opposite = replace(found("map/log-det[antisymmetry]"), status=status)
    symptom = "map/log-det[inverse]" in explained([*pair, opposite])
    assert symptom is (status is Status.HOLDS)
    assert tally([*pair, opposite]).count("explained") == (status is not Status.NOT_RUN)


def test_a_cause_is_counted_once() -> None:
    """Counts, headings and messages tell the violations that stand for themselves from the others,
    and the others say why.
    """
    verdicts = [found(VALUES), found(ROWS), found(RANDOM), found("effects/process[output]")]
    assert tally(verdicts) == "2 VIOLATED, 2 explained"
    assert violations(verdicts) == "2 violations, 2 more explained by them"
    report = Report(Environment("0", "3", "here"), (), ("t",), tuple(verdicts))
    assert "**2 violations, 2 more explained by them**" in to_markdown(report)
    with pytest.raises(FlowrefViolation, match="2 violations, 2 violations that others explain"):
        report.raise_for_violations()
    screen = " ".join("\n".join(target_lines("t", verdicts, {})).split())
    for text, times in ((screen, 1), (to_markdown(report), 2), (to_markdown(report.brief()), 2)):
        assert text.count("because its results are random") == times
        assert text.index(RANDOM) < text.index("because") < len(text)


@given(st.lists(st.floats(0, 1e30), max_size=5))
def test_the_largest_comes_first(sizes: list[float]) -> None:
    """Failures are listed by margin, the largest first; those without numbers stand before them."""
    verdicts = [found("effects/process[output]", residual=size) for size in sizes]
    broken = [
        Verdict("t", "l", Status.CRASHED),
        found("effects/process[output]", residual=math.nan),
    ]
    listed = by_size([*verdicts, *broken])
    assert listed[:2] == broken or {repr(one) for one in listed[:2]} == {
        repr(one) for one in broken
    }
    margins = [one.evidence.margin for one in listed[2:] if one.evidence]
    assert margins == sorted(margins, reverse=True)
