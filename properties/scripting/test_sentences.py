"""What no program can show is said in one sentence, which offers another way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowref import registry
from flowref.model import Condition, Counterexample, Evidence, FlowrefError, Status, Verdict
from flowref.reporting.programs import PROGRAMS
from flowref.scripting import script
from flowref.scripting.torch import TEMPLATES
from flowref.scripting.trial_run import ProgramOutcome, shows

LAW = "map/log-det"
CASE = Counterexample([[0.0, 0.5, 0.25, 1.0]], None, 0, Condition())


def verdict(target: str, law: str = LAW, status: Status = Status.VIOLATED) -> Verdict:
    """A verdict that is made up."""
    return Verdict(target, law, status, evidence=Evidence(1.0, 1e-14), counterexample=CASE)


def never(text: str) -> ProgramOutcome:
    """A trial of which nothing comes."""
    return ProgramOutcome(0, "holds\n")


@pytest.mark.parametrize(
    ("target", "law", "advice"),
    [
        ("object:Scaled#12345678", LAW, "file.py:factory"),
        ("torch:ExpTransform?mutant=map/log-det#sign", LAW, "only inside flowref"),
        ("reference:AffineCoupling", LAW, "part of flowref"),
        (
            "torch:ExpTransform",
            "composition/algebra[order]",
            "no short program for composition/algebra[order]",
        ),
        ("torch:ExpTransform", LAW, "no short program shows map/log-det"),
    ],
)
def test_what_no_program_can_show_is_a_sentence(target: str, law: str, advice: str) -> None:
    """One line, with the way to go on."""
    with pytest.raises(FlowrefError, match=re.escape(advice)) as caught:
        script(verdict(target, law), never)
    assert "\n" not in str(caught.value)
    found = str(caught.value)
    assert "flowref audit" in found or "only inside" in found or "flowref replay" in found


def test_without_a_case_there_is_no_program() -> None:
    """A time-out leaves nothing to write down."""
    with pytest.raises(FlowrefError, match="no case"):
        script(Verdict("torch:ExpTransform", LAW, Status.TIMEOUT))


def test_a_program_that_does_not_show_the_violation_is_never_given(tmp_path: Path) -> None:
    """Every trial of a healthy flow comes to nothing, so that no program comes out."""
    tried: list[str] = []

    def watched(text: str) -> ProgramOutcome:
        tried.append(text)
        return never(text)

    with pytest.raises(FlowrefError, match="none that was tried shows it"):
        script(verdict("torch:ExpTransform"), watched)
    assert tried
    assert all("ExpTransform()" in text for text in tried)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (ProgramOutcome(1, f"off by 1.0\nVIOLATED {LAW}\n"), True),
        (ProgramOutcome(1, f"off by 20\nVIOLATED {LAW}\n"), False),
        (ProgramOutcome(1, f"off by nan\nVIOLATED {LAW}\n"), False),
        (ProgramOutcome(1, f"VIOLATED {LAW}\n"), True),
        (ProgramOutcome(1, "VIOLATED shape/one-number-per-point[log-det]\n"), False),
        (ProgramOutcome(0, f"VIOLATED {LAW}\n"), False),
        (ProgramOutcome(1, "", "NameError: name 'y' is not defined"), False),
    ],
)
def test_an_outcome_is_held_against_the_verdict(outcome: ProgramOutcome, expected: bool) -> None:
    """Exit code, last line and the size of the number all count."""
    assert shows(outcome, verdict("torch:ExpTransform"), 10) is expected


def test_reports_name_the_laws_that_have_programs() -> None:
    """They print no command that is refused."""
    assert sorted(PROGRAMS["torch"]) == sorted(TEMPLATES)


@pytest.mark.parametrize("law", sorted(TEMPLATES))
def test_a_template_belongs_to_a_law(law: str) -> None:
    """Templates are filed under ids that there are, and measure something."""
    assert registry.find_law(law).id == law
    for template in TEMPLATES[law]:
        assert "off = " in template.text or "wrong" in template.text
        assert template.within >= 1
