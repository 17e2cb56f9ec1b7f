"""A report in a notebook, and as lines of text."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

import flowref
from effort import PATIENCE
from flowref.model import Evidence, Problem, SpecError, Status, Verdict
from flowref.reporting import notebook
from flowref.reporting.contents import Environment
from flowref.reporting.report import Report
from rows import DEEP

NASTY = "x.py:<script>alert('$1$')</script>"
FAILURE = Verdict(NASTY, "map/log-det", Status.VIOLATED, "<b>", evidence=Evidence(1.0, 0.1))
WAITING = Verdict(
    NASTY, "density/base-constant[quadratic-form]", Status.INCONCLUSIVE, "a <i>kink</i>"
)
# A notebook as a user has it: a flow, an audit, and a check that fails.
CELLS = (
    "import torch, flowref\n"
    "class Scale(torch.nn.Module):\n"
    "    def __init__(self, bug=0.0):\n"
    "        super().__init__()\n"
    "        self.log_scale = torch.nn.Parameter(torch.tensor([0.1, -0.2]))\n"
    "        self.bug = bug\n"
    "    def forward(self, x):\n"
    "        return x * self.log_scale.exp(), (self.log_scale.sum() + self.bug).expand(len(x))\n"
    "    def inverse(self, z):\n"
    "        return z / self.log_scale.exp(), -self.log_scale.sum().expand(len(z))\n",
    "flowref.audit(Scale(0.1), laws='map/log-det*', profile='quick')",
    "flowref.check_flow(Scale(0.1), event_shape=2, laws='map/log-det', profile='quick')",
)

BOOK: dict[str, Any] = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}}
CELL: dict[str, Any] = {
    "cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
}  # fmt: skip


class Tags(HTMLParser):
    """The tags of a piece of HTML, and that each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open one."""
        self.open.append(tag)
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Close the last one."""
        assert self.open.pop() == tag


def report(*verdicts: Verdict, problems: tuple[Problem, ...] = ()) -> Report:
    """A report of these verdicts."""
    targets = tuple(dict.fromkeys(verdict.target for verdict in verdicts))
    environment = Environment("0", "3", "none")
    return Report(environment, (), targets, verdicts, problems)


def test_a_report_folds_and_is_escaped() -> None:
    """A target is a line that unfolds to its failures and to what was not judged; whatever comes
    from it stays text, and mathematics is not made of it.
    """
    text = report(FAILURE, WAITING, problems=(Problem("y", "y <u>"),))._repr_html_()
    tags = Tags(text)
    assert {tag for tag, _ in tags.seen} <= set("div b details summary table tr td ul li".split())
    assert ("details", {"open": None}) in tags.seen
    assert "flowref: 1 violation in 1 target" in text
    assert "&lt;script&gt;" in text and "a &lt;i&gt;kink" in text and "y &lt;u&gt;" in text
    assert "$" not in text


def test_what_fails_comes_first_and_much_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets that fail stand before those that do not; of many the rest is counted."""
    monkeypatch.setattr(notebook, "TARGETS", 2)
    fine = [Verdict(name, "l", Status.HOLDS) for name in ("a", "b", "c")]
    text = report(*fine, FAILURE)._repr_html_()
    assert text.index("script") < text.index("<summary>a · ")
    assert "and 2 more targets" in text


def test_a_summary_is_a_line_a_target_and_its_failures() -> None:
    """One line for each target, its failures below it, and one for each that could not be audited,
    without control characters; a live object is called by its class.
    """
    fine = Verdict("object:b\x1b#1a2b?event=3", "l", Status.HOLDS)
    lines = report(FAILURE, fine, problems=(Problem("y", "y!"),)).summary().splitlines()
    assert lines[0].startswith(f"{NASTY}   1 check: 1 VIOLATED")
    assert lines[1].startswith(f"  VIOLATED  {FAILURE.id}  {FAILURE.law}")
    assert lines[-2].startswith("b\\x1b (event 3)   1 check: 1 passed")
    assert lines[-1] == "cannot be audited: y!"


def test_the_scorecard_is_one_call_away() -> None:
    """`flowref.scorecard.page` makes an HTML page of a report."""
    assert flowref.scorecard.page(report(FAILURE)).lower().startswith("<!doctype html>")


@DEEP
def test_in_a_notebook(tmp_path: Path) -> None:
    """In a real kernel a report shows as a table, no bar is left, and a failed check names the law in
    words below the cell's own line.
    """
    cells = [CELL | {"id": str(number), "source": source} for number, source in enumerate(CELLS)]
    text = json.dumps(BOOK | {"cells": cells})
    book = nbformat.reads(text, as_version=4)
    client = nbclient.NotebookClient(
        book, timeout=PATIENCE, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    _, audited, checked = book.cells
    (shown,) = [output for output in audited.outputs if output.output_type == "execute_result"]
    assert "violation" in shown.data["text/html"] and "<details open>" in shown.data["text/html"]
    for output in audited.outputs:
        if output.output_type == "display_data":
            assert output.data["text/html"] == ""
    told = "".join(output.text for output in checked.outputs if output.output_type == "stream")
    assert "line 1" in told and "flowref.check_flow(Scale(0.1)" in told
    assert "FlowrefViolations: 1 violation (map/log-det)" in told
    assert "VIOLATED" in told and "The log-det returned by forward" in told


def test_values_are_readable_where_they_are_shown() -> None:
    """A report is a line, a verdict a few, without its input; nothing in them steers a terminal; of a
    report on nothing nobody is told that nothing is violated.
    """
    assert repr(report(FAILURE, WAITING)) == "<Report on 1 target under 0 laws: 1 violation>"
    evil = Verdict(
        "t\x1b[2J", "a/b", Status.VIOLATED, "r", evidence=Evidence(1.0, 0.1), diagnosis="d"
    )
    assert str(evil).splitlines() == [
        "VIOLATED  a/b  in t\\x1b[2J", "    off by 1, allowed 0.1", "    r", "    diagnosis: d",
    ]  # fmt: skip
    waiting = Verdict("t", "a/b", Status.NOT_APPLICABLE, "no inverse", remedy="say ?inverse=g")
    assert str(waiting).splitlines()[1:] == ["    no inverse", "    say ?inverse=g"]
    empty = report(problems=(Problem("y", "y is no flow"),))._repr_html_()
    assert "nothing was audited; 1 could not be audited" in empty and "no violation" not in empty


def test_a_mistake_shows_no_code_of_ours() -> None:
    """A law that does not exist is told from the line of the caller."""
    with pytest.raises(SpecError) as caught:
        flowref.audit([], laws="nope/*")
    assert [entry.name for entry in caught.traceback][1:] == ["audit"]
