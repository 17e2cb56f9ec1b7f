"""The words of a failure: what a stranger reads first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flowref import registry
from flowref.model import Condition, Counterexample, Evidence, Status, Verdict
from flowref.reporting.causes import explained
from flowref.reporting.text import opening, plain
from flowref.reporting.words import failure, seen

CASE = Counterexample([[1.0, 2.0]], None, 3, Condition(), {})
NOTE = "a train batch of one row leaves scale not finite; at the weights as given"
FLAG = Verdict(
    "t", "state/x", Status.VIOLATED, NOTE, evidence=Evidence(1.0, 0.0), counterexample=CASE
)


@pytest.mark.parametrize("law", registry.laws(), ids=lambda law: str(law.id))
def test_statements_are_letters_outside_of_pages(law: object) -> None:
    """No statement shows TeX on a screen, and its opening is whole sentences of a readable length."""
    statement = getattr(law, "statement", "")
    assert not set("\\{}$") & set(plain(statement)), plain(statement)
    first = opening(statement)
    assert plain(statement).startswith(first.removesuffix(" ..."))
    assert first.removesuffix(" ...").endswith(".")
    assert len(first) < 300


def test_yes_or_no_has_no_numbers() -> None:
    """A law that only says yes or no is told by what it says, once; one that measured is told by its
    numbers.
    """
    lines = failure(FLAG, "A law.")
    assert lines[0] == f"VIOLATED  {FLAG.id}  state/x   {NOTE.partition(';')[0]}"
    assert sum("one row" in line for line in lines) == 1
    for evidence in (Evidence(0.5, 0.0), Evidence(1.0, 1e-3)):
        assert seen(replace(FLAG, evidence=evidence)).startswith("off by ")
    measured = replace(CASE, observed={"reported": 2.0})
    assert "reported 2" in seen(replace(FLAG, counterexample=measured))


def test_bits_are_told_of_rounding_alone() -> None:
    """Where no randomly rounded run stands behind a verdict, as in laws of chance, bits say nothing."""
    rounding, chance = Evidence(0.1, 1e-12, replicas=56), Evidence(8.6, 1.0)
    assert "of 53 bits lost" in seen(replace(FLAG, evidence=rounding))
    assert "bits" not in seen(replace(FLAG, evidence=chance))


def test_a_wrong_log_det_explains_what_samples_show() -> None:
    """Laws that compare samples with the density are symptoms of a log-det that is wrong."""
    laws = ("sampling/overlap", "sampling/detailed-balance", "density/samples-consistent")
    found = explained([replace(FLAG, law=law) for law in ("bijection/log-det", *laws)])
    assert set(found) == set(laws)
    assert not explained([replace(FLAG, law=law) for law in laws])


@pytest.mark.parametrize("side", [8, 32])
def test_a_witness_of_thousands_of_numbers_is_read_in_a_line(side: int) -> None:
    """Of an image a few entries are shown, rounded, and how many there are; a number that stands
    everywhere is shown once; short points are shown whole.
    """
    image = (np.arange(3.0 * side * side) / 7).reshape(3, side, side).tolist()
    case = replace(CASE, x=[image], observed={"x": image, "f(x)": (np.zeros((3, side))).tolist()})
    seen_twice = replace(FLAG, evidence=Evidence(0.5, 0.0), counterexample=case)
    lines = failure(seen_twice, "A law.", commands=False)
    assert max(map(len, lines)) < 250
    assert f"({3 * side * side} numbers, all in the JSON report)" in lines[-1]
    assert "0.14286" in lines[-1]
    assert "0.14285714" not in lines[-1]
    assert f"{3 * side} times 0" in lines[0] or side == 8
    assert "x = [1, 2]" in failure(FLAG, "A law.")[-2]
