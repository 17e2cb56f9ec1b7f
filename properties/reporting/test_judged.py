"""What is not checked is said: how many laws were skipped, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowref.model import Recognized, Status, Verdict
from flowref.reporting.contents import Environment, LawNote
from flowref.reporting.coverage import FEW, concerns, put_to_the_test, share, waiting
from flowref.reporting.markdown import to_markdown
from flowref.reporting.report import Report
from flowref.reporting.terminal import target_lines

REASON, REMEDY = "it offers no inverse", "say ?inverse=NAME"


def idle(number: int, blocked: bool = True) -> list[Verdict]:
    """So many laws that do not apply, for one reason."""
    remedy = REMEDY if blocked else ""
    return [
        Verdict(
            "t",
            f"a/{place}-{blocked}",
            Status.NOT_APPLICABLE,
            REASON,
            blocked=blocked,
            remedy=remedy,
        )
        for place in range(number)
    ]


verdicts = st.lists(
    st.builds(
        Verdict, st.just("t"), st.text(max_size=4), st.sampled_from(Status), blocked=st.booleans()
    )
)


@given(verdicts, st.integers(0, 5))
def test_laws_about_something_else_are_not_counted(found: list[Verdict], more: int) -> None:
    """Laws about what the target plainly is not change no number that a reader sees."""
    assert share([*found, *idle(more, blocked=False)]) == share(found)
    judged, about = put_to_the_test(found)
    assert 0 <= judged <= about == sum(map(concerns, found))


@pytest.mark.parametrize("status", [Status.HOLDS, Status.VIOLATED, Status.ADVICE, Status.ERROR])
def test_what_was_judged_was_put_to_the_test(status: Status) -> None:
    """A law that gave an answer counts on both sides, one that gave none on one."""
    assert put_to_the_test([Verdict("t", "l", status)]) == (1, 1)
    assert put_to_the_test([Verdict("t", "l", Status.INCONCLUSIVE), *idle(1)]) == (0, 2)


def test_a_reason_that_skips_three_laws_has_a_line() -> None:
    """Three laws that are skipped for one reason are a line with what to say; two are none."""
    (line,) = [one.line for one in waiting(idle(FEW))]
    assert line == f"{FEW} skipped: no inverse; {REMEDY}"
    assert not waiting(idle(FEW - 1))
    assert not waiting(idle(9, blocked=False))
    shown = target_lines("t", [Verdict("t", "l", Status.HOLDS), *idle(FEW)], {})
    assert shown[0].startswith("t   4 checks: 1 passed, 3 skipped")
    assert shown[1:] == [f"  {line}"]


def test_what_waits_is_in_every_format() -> None:
    """The JSON keeps of which kind a silence is, brief or in full; Markdown says what to say."""
    found = (Verdict("t", "l", Status.HOLDS), *idle(FEW), *idle(2, blocked=False))
    notes = tuple(LawNote(one.law, 1, "It holds.", "claim", "rounding") for one in found)
    taken = {"t": Recognized("bijection without inverse", (2,), conventions=("one number",))}
    report = Report(Environment("0", "3", "here"), notes, ("t",), found, recognized=taken)
    for one in (report, report.brief()):
        back = Report.from_json(one.to_json())
        assert back == one
        assert put_to_the_test(back.verdicts) == (1, 4)
    text = to_markdown(report)
    assert "| `t` | 1 of 4 | 1 | 3 | 2 |" in text
    assert REASON in text and REMEDY in text
    assert "bijection without inverse" in text and "one number" in text


def test_an_older_report_is_read() -> None:
    """A report that tells neither what was recognized nor what is blocked is read as one without them."""
    report = Report(Environment("0", "3", "here"), (), ("t",), (Verdict("t", "l", Status.HOLDS),))
    old = report.to_json().replace('"recognized": []', '"problems": []')
    assert Report.from_json(old) == replace(report, recognized={})


def test_what_does_not_apply_is_counted_by_reason() -> None:
    """On request laws about something else are a line for each reason, and one for all rare ones; those
    that were skipped are named.
    """
    other = [
        Verdict("t", f"b/{n}", Status.NOT_APPLICABLE, "no squeeze" if n < FEW else f"rare {n}")
        for n in range(FEW + 2)
    ]
    shown = target_lines("t", [*idle(2), *other], {}, verbosity=1)
    for line in (
        "  Skipped (2):",
        f"    2 skipped: no inverse; {REMEDY}: a/0-True, a/1-True",
        f"  Not applicable ({FEW + 2}):",
        f"    {FEW}: no squeeze",
        "    2: other reasons (flowref laws --for SPEC lists them)",
    ):
        assert line in shown
