"""Judging residuals: rounding is excused, defects are not, each point by itself."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checking.standins import RESPONSE, UNIT, Standin, allowed
from flowref.checking.judgement import (
    DROPPED,
    HELD,
    TRIVIAL,
    UNDECIDED,
    VIOLATED,
)
from flowref.checking.measurement import DOUBLE, SINGLE, Precision
from flowref.checking.tolerance import SCREEN, guess, judge
from flowref.model import BOUND, EXACT, ROUNDING, STATISTICAL, Array, Batch, Evidence
from flowref.model.cost import CallCost, Cost, LinearCost


def itself(batch: Batch) -> Array:
    """The only coordinate of each point is its residual."""
    return batch.x[:, 0]


def standin(response: float = RESPONSE, tolerance: str = ROUNDING, **more: Any) -> Standin:
    """A law of which each point is its own residual. ``more``: what it measures besides."""
    return Standin(
        itself,
        features=1,
        response=lambda magnitude: response * magnitude,
        details={"tolerance": tolerance},
        more=lambda batch: more,
    )


@pytest.mark.parametrize("units", [0.0, 1.0, -4.0, 15.9, -16.0])
def test_a_few_units_of_rounding_hold_at_once(units: float) -> None:
    """Up to sixteen units of roundoff a point holds, and no noise is paid for."""
    tried = standin()
    assert list(tried.judged(units * UNIT).outcome) == [HELD]
    assert tried.seeds == []


@pytest.mark.parametrize("fraction", [0.2, 0.5, 0.9, -0.9])
def test_what_rounding_explains_holds(fraction: float) -> None:
    """A residual within k times the measured response, though far beyond the screen, is excused."""
    size = fraction * allowed()
    assert abs(size) > SCREEN * UNIT
    assert list(standin().judged(size).outcome) == [HELD]


@pytest.mark.parametrize(("response", "expected"), [(1e6, HELD), (1e9, UNDECIDED)])
def test_what_single_precision_moves_beyond_its_size_decides_nothing(
    response: float, expected: str
) -> None:
    """Noise that is what rounding does excuses a residual, but not where it moves the result by more
    than all that is compared.
    """
    tried = standin(response)
    measured = tried.measurement([[0.5]], precision=SINGLE)
    assert list(judge(measured).outcome) == [expected]


@pytest.mark.parametrize("factor", [1.1, 2.0, 1e3, 1e9, -1.1, -1e9])
def test_what_rounding_does_not_explain_is_accused(factor: float) -> None:
    """A residual beyond k times the measured response is a violation, with its margin."""
    judgement = standin().judged(factor * allowed())
    assert list(judgement.outcome) == [VIOLATED]
    assert judgement.margin[0] == pytest.approx(abs(factor), rel=1e-6)
    assert judgement.evidence(0).margin == pytest.approx(abs(factor), rel=1e-6)


@pytest.mark.parametrize("response", [1e12, 1e14])
def test_a_response_that_is_not_small_decides_nothing(response: float) -> None:
    """Where noise moves the result by more than a hundredth of its scale, ordinary residuals are
    undecided, not held.
    """
    assert list(standin(response).judged(0.1).outcome) == [UNDECIDED]


def test_an_unsteady_result_is_still_accused_of_more_than_noise_can_do() -> None:
    """A residual far beyond even the amplified response is a violation in the worst conditions."""
    response = 1e12
    size = 100 * DOUBLE.factor * DOUBLE.amplify * UNIT * response
    assert list(standin(response).judged(size).outcome) == [VIOLATED]


@pytest.mark.parametrize(("span", "said"), [(1.0, VIOLATED), (1e-4, UNDECIDED)])
def test_beyond_its_span_a_residual_decides_nothing(span: float, said: str) -> None:
    """A response that is small beside the scale, and larger than the span, says that what was
    measured may be rounding altogether.
    """
    tried = standin(1e10, scale=1e6, span=span)
    assert list(tried.judged(1e3).outcome) == [said]


@pytest.mark.parametrize(
    ("response", "fraction", "outcome", "runs"),
    [
        (RESPONSE, 0.2, HELD, 1),  # far from what it is allowed
        (RESPONSE, 0.9, HELD, 4),  # near it: two runs, and two of a larger batch
        (1e14, 1e-3, UNDECIDED, 1),  # moved too far for anything to be told
        (1e11, 1e-3, UNDECIDED, 4),  # moved about as far as can be told
    ],
)
def test_runs_end_where_they_can_tell_nothing_more(
    response: float, fraction: float, outcome: int, runs: int
) -> None:
    """A first judgement ends with the run that settles every point."""
    tried = standin(response)
    assert list(tried.judged(fraction * allowed(response)).outcome) == [outcome]
    assert len(tried.seeds) == runs


@pytest.mark.parametrize(
    ("margin", "replicas", "runs"),
    [
        (1e4, 6, 1),  # a thousand times beyond noise: the first run shows it
        (1e4, 8, 2),  # and two with noise of their own confirm it
        (10.0, 6, 6),  # what is nearer takes all of them
        (10.0, 8, 8),
        (0.2, 6, 1),
    ],
)
def test_few_runs_show_what_is_far_beyond_noise_where_each_is_dear(
    margin: float, replicas: int, runs: int
) -> None:
    """Of events of thousands of entries that take long, a violation that is a thousand times beyond
    noise is one in the first run; everything else takes as many as ever.
    """
    tried = standin()
    heavy = Cost({"forward": CallCost(1, work=LinearCost(0.0, 1e9))})
    facts = replace(tried.subject.facts, event_shape=(3, 32, 32), cost=heavy)
    subject = replace(tried.subject, facts=facts)
    measured = replace(tried.measurement([[margin * allowed()]]), subject=subject)
    judgement = judge(measured, replicas)
    assert list(judgement.outcome) == [VIOLATED if margin > 1 else HELD]
    assert judgement.replicas == len(tried.seeds) == runs


@pytest.mark.parametrize("value", [1e-3, 1.0])
def test_a_value_that_is_wrong_alone_is_not_given_up(value: float) -> None:
    """That noise moves a point far says nothing against a law of values that is violated there alone:
    it is looked at as often as it takes to tell.
    """

    def alone(batch: Batch) -> Array:
        return np.where(tried.level == 0.0, value, 0.0) * np.ones(len(batch.x))

    tried = Standin(alone, features=1, details={"local": False})
    assert list(tried.judged([0.5]).outcome) == [VIOLATED]


def test_points_are_judged_one_by_one() -> None:
    """A bad point does not condemn its batch, and a good batch does not excuse its bad point."""
    judgement = standin().judged([0.0, 1e3 * allowed(), UNIT])
    assert list(judgement.outcome) == [HELD, VIOLATED, HELD]
    assert judgement.worst() == 1


def test_a_scale_belongs_to_its_point() -> None:
    """A large point in the batch does not raise what is allowed at a small one."""
    judgement = standin(scale=np.array([1e-6, 1e6])).judged([1e-9, 1e-9])
    assert list(judgement.outcome) == [VIOLATED, HELD]


def test_silence_is_counted_apart() -> None:
    """Points about which the law says nothing, and points that hold whatever the subject does, are
    neither held nor bad.
    """
    tried = standin(decidable=np.array([False, True, True]), trivial=np.array([False, True, True]))
    assert list(tried.judged([1.0, 0.0, 1.0]).outcome) == [DROPPED, TRIVIAL, VIOLATED]


@pytest.mark.parametrize(("sizes", "asked"), [([0.0, 0.0], 0), ([0.0, 1.0], 1)])
def test_an_excuse_is_asked_for_only_where_it_is_needed(sizes: list[float], asked: int) -> None:
    """What a law can excuse at a cost is not computed while everything holds, and drops its rows
    where something does not.
    """
    calls = []

    def flat() -> Array:
        calls.append(1)
        return np.array([False, True])

    judgement = standin(exempt={"it is flat there": flat}).judged(sizes)
    assert list(judgement.outcome) == [HELD, DROPPED if asked else HELD]
    assert judgement.exempt == ({"it is flat there": 1} if asked else {})
    assert len(calls) == asked


@pytest.mark.parametrize("tolerance", [BOUND, STATISTICAL])
def test_a_stated_bound_is_the_whole_allowance(tolerance: str) -> None:
    """Laws with a bound of their own allow that and nothing for rounding; no noise is paid for."""
    tried = standin(tolerance=tolerance, allowed=1.0)
    assert list(tried.judged([0.9, 1.1]).outcome) == [HELD, VIOLATED]
    assert tried.seeds == []


def test_an_exact_law_allows_nothing() -> None:
    """For an exact law the smallest number is a violation, with an infinite margin."""
    judgement = standin(tolerance=EXACT).judged([0.0, 5e-324])
    assert list(judgement.outcome) == [HELD, VIOLATED]
    assert math.isinf(judgement.margin[1])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_never_finite_is_accused(bad: float) -> None:
    """Nan and infinity at an ordinary point, in every run, are violations: rounding is no excuse."""
    tried = Standin(lambda batch: np.full(len(batch.x), bad), features=1)
    assert list(tried.judged([1.0]).outcome) == [VIOLATED]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_far_out_may_overflow(bad: float) -> None:
    """Nan and infinity at a point of unusual size are undecided."""
    tried = Standin(lambda batch: np.full(len(batch.x), bad), features=1)
    assert list(tried.judged([1e3]).outcome) == [UNDECIDED]


def test_a_subject_without_noise_is_not_accused_of_rounding() -> None:
    """Where rounding cannot be measured, what the screen does not pass is undecided."""
    measurement = standin().measurement([1.0, 0.0])
    measurement = replace(measurement, subject=replace(measurement.subject, noise=None))
    assert list(judge(measurement).outcome) == [UNDECIDED, HELD]


def test_judging_is_a_function_of_its_arguments() -> None:
    """Judged again, a batch meets the same noise: seeds come from no counter. First judgements
    share them, so that laws share noisy calls; another purpose has seeds of its own, for each batch.
    """
    tried = standin()
    measurement = tried.measurement(1e-9)
    seeds = []
    other = tried.measurement(2e-9)
    asked = [(one, purpose) for purpose in ("", "confirm") for one in (measurement, other)]
    for judged, purpose in (*asked, (measurement, "")):
        judge(judged, purpose=purpose)
        seeds.append(tuple(tried.seeds))
        tried.seeds.clear()
    assert seeds[0] == seeds[1] == seeds[4]
    assert not set(seeds[0]) & set(seeds[2])
    assert not set(seeds[2]) & set(seeds[3])


@pytest.mark.parametrize("precision", [DOUBLE, SINGLE], ids=["float64", "float32"])
@pytest.mark.parametrize(("units", "outcome"), [(8.0, HELD), (1e6, VIOLATED)])
def test_a_format_is_judged_at_its_own_roundoff(
    precision: Precision, units: float, outcome: str
) -> None:
    """Residuals of eight units of roundoff of the format hold, and those of a million units do not."""
    judgement = standin().judged(units * precision.unit, precision=precision)
    assert list(judgement.outcome) == [outcome]


@pytest.mark.parametrize(("replicas", "runs"), [(6, 4), (8, 5), (16, 9), (32, 12)])
def test_a_batch_that_stands_several_times_over_saves_runs(replicas: int, runs: int) -> None:
    """Where the larger batch gives the residual of the batch, fewer runs give as many replicas."""
    tried = standin()
    judgement = judge(tried.measurement([30 * allowed()] * 3), replicas)
    assert len(tried.seeds) == runs
    assert judgement.replicas == replicas
    assert judgement.violated.all()


def test_a_larger_batch_that_measures_something_else_is_not_used() -> None:
    """What shows in a small batch only is not excused by what a larger one would give."""
    lonely = Standin(lambda batch: batch.x[:, 0] * (len(batch.x) == 1), features=1)
    judgement = judge(lonely.measurement(30 * allowed()), 32)
    assert len(lonely.seeds) == 32
    assert judgement.violated.all()


def test_a_guess_sorts_by_the_allowance_of_another_point() -> None:
    """Without noise, a point is held against what a judged point was allowed, grown with its scale."""
    tried = standin()
    like = tried.judged(100 * allowed()).evidence(0)
    tried.seeds.clear()
    measurement = tried.measurement([0.5 * like.allowed, 2 * like.allowed, 2 * like.allowed])
    residual = replace(measurement.residual, scale=np.array([1.0, 1.0, 10.0]))
    outcome = guess(replace(measurement, residual=residual), like).outcome
    assert list(outcome) == [HELD, VIOLATED, HELD]
    assert tried.seeds == []


def test_evidence_without_allowance_has_an_infinite_margin() -> None:
    """The margin of a residual where nothing is allowed is infinite, and zero where the residual is
    zero.
    """
    assert math.isinf(Evidence(1e-300, 0.0).margin)
    assert Evidence(0.0, 0.0).margin == 0.0
