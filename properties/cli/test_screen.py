"""What a person sees while work goes on: a bar on a terminal only, lines that nothing is drawn
over, and a line now and then elsewhere.
"""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable

import pytest

from flowref.cli.audit_progress import AuditProgress
from flowref.cli.screen import BAR, COUNT, ELAPSED, LEFT, Bar, Pulse
from flowref.model import Problem, Status, Verdict
from flowref.registry import find_law, parse_target

LAW = "map/log-det"


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


either = pytest.mark.parametrize("stderr", [Terminal, io.StringIO], ids=["terminal", "file"])


@either
def test_a_bar_is_drawn_on_a_terminal_only(
    stderr: Callable[[], io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal the bar shows its description, count and fields; elsewhere not a letter is
    written.
    """
    stream = stderr()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with Bar("{task.description}", BAR, COUNT, "{task.fields[values]}", ELAPSED, LEFT) as bar:
        bar.begin("first", 7, values="nothing yet")
        bar.update(completed=3, values="half [of] it")
        assert bar.drawn is stream.isatty()
        with bar.paused():
            pass
        bar.begin("second", 9, values="")
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    for part in ("first", "3/7", "half [of] it", "second", "0/9"):
        assert (part in shown) is stream.isatty()
    assert shown == "" or stream.isatty()
    assert not bar.drawn


@pytest.mark.parametrize("at_once", [True, False])
def test_a_pulse_beats_once_in_its_time(monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    """A sign of life is due once in so many seconds, and later after a restart."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pulse = Pulse(10, at_once=at_once)

    def due(seconds: float) -> bool:
        now[0] = seconds
        return pulse.due()

    beats = [due(seconds) for seconds in (100.0, 105.0, 109.9, 110.0, 111.0, 119.0, 121.0)]
    assert beats == [at_once, False, False, True, False, False, True]
    now[0] = 130.0
    pulse.restart()
    assert not due(139.0)


@either
def test_an_audit_is_followed(
    stderr: Callable[[], io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines about targets go to standard output, remarks to standard error, and where there is no
    bar a line tells from time to time how far the audit is.
    """
    out, err = io.StringIO(), stderr()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("TERM", "xterm")
    target, law = parse_target("zuko:NSF"), find_law(LAW)
    holds = Verdict(str(target), LAW, Status.HOLDS)
    violated = Verdict(str(target), LAW, Status.VIOLATED, "it is\x1b wrong")
    with AuditProgress() as progress:
        progress.begin([target], [law, law], 1)
        progress.problem(Problem("x", "x cannot be found"))
        progress.verdict(holds)
        progress.pulse.last -= 60
        progress.verdict(violated)
        progress.target(target, [holds, violated], None)
        progress.target(target, [Verdict(str(target), LAW, Status.NOT_RUN)], None)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("zuko:NSF   2 checks: 1 passed, 1 VIOLATED")
    assert lines[1].strip().startswith("VIOLATED")
    assert "it is\\x1b wrong" in out.getvalue()
    assert not any("not run" in line for line in lines)
    assert "1 of 2 checks are done" in err.getvalue()
    assert "flowref: x cannot be found" in err.getvalue()
    assert (
        "2 checks done, at most 0 left, 1 suspected bug, at zuko:NSF" in err.getvalue()
    ) is not err.isatty()


def test_a_report_on_standard_output_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without lines, standard output is left to the report."""
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with AuditProgress(lines=False) as progress:
        progress.say(["a line"])
    assert (out.getvalue(), err.getvalue()) == ("", "a line\n")
