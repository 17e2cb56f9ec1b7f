"""The words of a failure: what a stranger reads first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flowref import registry
from flowref.model import Condition, Counterexample, Evidence, Recognized, Size, Status, Verdict
from flowref.reporting.causes import explained
from flowref.reporting.terminal import target_lines
from flowref.reporting.text import opening, plain_statement
from flowref.reporting.words import again, evidence_text, failure, seen

CASE = Counterexample([[1.0, 2.0]], None, 3, Condition(), {})
NOTE = "a train batch of one row leaves scale not finite; at the weights as given"
FLAG = Verdict(
    "t", "state/x", Status.VIOLATED, NOTE, evidence=Evidence(1.0, 0.0), counterexample=CASE
)


@pytest.mark.parametrize("law", registry.laws(), ids=lambda law: str(law.id))
def test_statements_are_letters_outside_of_pages(law: object) -> None:
    """No statement shows TeX on a screen, and its opening is whole sentences of a readable length."""
    statement = getattr(law, "statement", "")
    assert not set("\\{}$") & set(plain_statement(statement)), plain_statement(statement)
    first = opening(statement)
    assert plain_statement(statement).startswith(first.removesuffix(" ..."))
    assert first.removesuffix(" ...").endswith(".")
    assert len(first) < 300


def test_yes_or_no_has_no_numbers() -> None:
    """A law that only says yes or no shows what it says, once; one that measured shows its numbers."""
    lines = failure(FLAG, "A law.")
    assert lines[0] == f"VIOLATED  {FLAG.id}  state/x   [state]"
    assert lines[1:3] == ["  Law: A law.", f"  {NOTE.partition(';')[0]}"]
    assert not any("off by" in line for line in lines)
    for evidence in (Evidence(0.5, 0.0), Evidence(1.0, 1e-3)):
        assert seen(replace(FLAG, evidence=evidence)).startswith("off by ")
    case = replace(CASE, observed={"reported": 2.0})
    assert "reported 2" in seen(replace(FLAG, counterexample=case))


@pytest.mark.parametrize(
    ("observed", "told"),
    [
        ({"reported": 2.0, "autograd": 1.0, "differences": 1.0}, "reported 2, expected 1"),
        ({"forward's": [2.0], "inverse's": [-1.0]}, "forward's 2, inverse's -1"),
        ({"integral": 6.28}, "integral 6.28; off by 5.28, allowed 1e-05"),
        ({"moments": list(range(20)), "others": list(range(20))}, "off by 5.28, allowed 1e-05"),
        ({}, "off by 5.28, allowed 1e-05"),
    ],
)
def test_two_numbers_are_shown(observed: dict[str, object], told: str) -> None:
    """What was reported beside what was expected; where a law names one number, or long ones, how far
    off it is.
    """
    case = replace(CASE, observed=observed)
    assert seen(replace(FLAG, evidence=Evidence(5.28, 1e-5), counterexample=case)) == told


@pytest.mark.parametrize("law", ["batch-norm/train-map[reference]", "density/mass", "state/x"])
def test_noise_is_no_input(law: str) -> None:
    """Of laws that draw their own points no input is shown."""
    shown = "\n".join(failure(replace(FLAG, law=law), "A law."))
    assert ("x = [1, 2]" in shown) is (law == "state/x")


@pytest.mark.parametrize(("width", "between"), [(80, "\n  "), (120, "   ")])
def test_the_order_of_a_failure(width: int, between: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name and its size, on lines of their own where the screen is narrow; the sentence, the diagnosis,
    two numbers, the place, the command.
    """
    monkeypatch.setenv("COLUMNS", str(width))
    case = replace(CASE, observed={"reported": 2.0, "autograd": 1.0})
    sized = replace(
        FLAG, law="map/log-det", evidence=Evidence(1.0, 1e-9), size=Size(1.0, 1.0, 3, 2)
    )
    found = replace(sized, counterexample=case, diagnosis="it is 2 of it (16 points tried)")
    head = (
        f"VIOLATED  {found.id}  map/log-det{between}"
        "[wrong likelihood: 1 nats per point, 0.72 bits per dimension]"
    )
    assert failure(found, "A law.", where="a.py:3 in f") == [
        *head.split("\n"),
        "  Law: A law.",
        "  a train batch of one row leaves scale not finite",
        "  Diagnosis: it is 2 of it.",
        "  reported 2, expected 1   at x = [1, 2]",
        "  a.py:3 in f",
        f"  flowref script {found.id} > repro.py",
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a screen no line is wider than that, commands aside."""
    monkeypatch.setenv("COLUMNS", str(width))
    long = replace(FLAG, diagnosis="it is wrong " * 40)
    lines = target_lines("t", [long], {"state/x": "It holds. " * 30}, verbosity=1)
    assert max(map(len, lines)) <= width < 2 * max(map(len, lines))


def test_a_wrong_log_det_explains_what_samples_show() -> None:
    """Laws that compare samples with the density are symptoms of a log-det that is wrong."""
    laws = (
        "sampling/follows-density",
        "sampling/follows-density[balance]",
        "sampling/follows-density[ratios]",
    )
    found = explained([replace(FLAG, law=law) for law in ("map/log-det", *laws)])
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
    assert f"0 in each of {3 * side} entries" in evidence_text(seen_twice) or side == 8
    assert any("x = [1, 2]" in line for line in failure(FLAG, "A law."))


@pytest.mark.parametrize(
    ("framework", "law", "offered"),
    [
        ("torch", "map/inverse", True),
        ("jax", "map/inverse", True),
        ("torch", "dtype/follows", True),
        ("jax", "dtype/follows", False),
        ("elsewhere", "map/inverse", False),
    ],
)
def test_programs_are_offered_where_they_are_written(
    framework: str, law: str, offered: bool
) -> None:
    """`flowref script` is named if it has programs of the law in the target's framework."""
    case = Counterexample([[0.0]], None, 0, Condition())
    violated = Verdict("flows.py:make", law, Status.VIOLATED, counterexample=case)
    commands = again(violated, recognized=Recognized("bijection", framework=framework))
    assert any(" script " in one for one in commands) is offered
