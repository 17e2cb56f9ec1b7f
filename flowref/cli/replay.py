"""The commands that reproduce a recorded violation: `flowref replay`, `script` and `issue`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowref.cli.help import Command

if TYPE_CHECKING:
    from flowref.model import Verdict
    from flowref.reporting.report import Report

# CPU seconds of the search for a patch.
PATIENCE = 60.0

report_option = click.option(
    "--report",
    "path",
    metavar="PATH",
    help="A report file; by default the newest report of this folder with the violation.",
)


@click.command(
    cls=Command,
    examples=(
        ("flowref replay K7Q2", "a violation of the last audit"),
        ("flowref replay --all", "all of them"),
        ("flowref replay old.json", "all of a report"),
        ("flowref replay .flowref/watch/step-57", "a case of flowref.watch"),
    ),
)
@click.argument("what", required=False)
@click.option("--all", "everything", is_flag=True, help="Every violation of the report.")
@report_option
def replay(what: str | None, everything: bool, path: str | None) -> None:
    """Measure recorded violations again: STILL FAILS, FIXED or ERROR.

    WHAT is the short name of a violation (K7Q2), in the newest report with its case or in the file
    of known failures; or a report file, or a folder that flowref.watch saved.
    """
    from flowref.auditing import replays
    from flowref.reporting.text import clean
    from flowref.reporting.words import evidence_text

    if what is None and not everything and path is None:
        raise click.UsageError(
            "name a violation (flowref replay K7Q2) or a report file, or give --all"
        )
    if what is not None and Path(what).is_dir():
        if not (report_file := Path(what) / "report.json").is_file():
            sys.exit(_replay_case(Path(what)))
        what = str(report_file)
    if what is not None and (what.endswith(".json") or Path(what).is_file()):
        what, path = None, what
    report = _report_with(path, what)
    chosen = report.violations if what is None else _with_cases(report, what)
    labels = set()
    for replayed in replays.replay_violations(chosen, report):
        labels.add(replayed.label)
        detail = replayed.reason or (
            evidence_text(replayed.now) if replayed.now is not None else ""
        )
        verdict = replayed.recorded
        head = f"{replayed.label:<11}  {verdict.id}  {clean(verdict.target)}  {verdict.law}"
        click.echo(f"{head}   {clean(detail)}  ({replayed.seconds:.1f} s)")
    if not chosen:
        click.echo("this report has no violations")
    sys.exit(1 if replays.STILL_FAILS in labels else 3 if replays.ERROR in labels else 0)


@click.command(
    cls=Command, examples=(("flowref script K7Q2 > bug.py", "a program without flowref"),)
)
@click.argument("identity", metavar="ID")
@report_option
def script(identity: str, path: str | None) -> None:
    """Print a program of 15 to 40 lines that reproduces a violation; it needs only the library and
    its framework, and has been run. If no program does, a sentence says so (exit code 2).
    """
    from flowref import scripting

    click.echo(scripting.script(_first_violation(_report_with(path, identity), identity)))


@click.command(
    cls=Command, examples=(("flowref issue K7Q2 > issue.md", "with that program, and a patch"),)
)
@click.argument("identity", metavar="ID")
@report_option
@click.option("--no-script", is_flag=True, help="Leave out the program, whose making runs it.")
def issue(identity: str, path: str | None, no_script: bool) -> None:
    """Print a violation as the text of an issue, in Markdown: expected and observed numbers, input,
    versions, the program of `flowref script` if there is one, and a patch of your file if a repair
    is proved for the edited source.
    """
    from flowref import scripting
    from flowref.model import FlowrefError
    from flowref.reporting.issue import issue

    report = _report_with(path, identity)
    verdict = _first_violation(report, identity)
    program = ""
    if not no_script:
        try:
            program = scripting.script(verdict)
        except FlowrefError as error:
            click.echo(f"flowref: without a program: {error}", err=True)
    click.echo(issue(report, verdict, program, _patch(verdict)), nl=False)


def _replay_case(folder: Path) -> int:
    """Repeat the call of a case that was not finite, print the result, and return the exit code."""
    from flowref.auditing import replays
    from flowref.model import FlowrefError
    from flowref.watching import cases

    try:
        clause = cases.replay_case(folder)
    except FlowrefError as error:
        click.echo(f"{replays.ERROR:<11}  {folder}   {error}")
        return 3
    label = replays.STILL_FAILS if clause else replays.FIXED
    click.echo(f"{label:<11}  {folder}   {clause or 'everything is finite'}")
    return 1 if clause else 0


def _patch(verdict: Verdict) -> str:
    """The diff of a repair; empty if none is found within a minute."""
    from flowref import registry
    from flowref.auditing.deadline import OutOfTime, deadline
    from flowref.model import FlowrefError
    from flowref.proving import patch

    with contextlib.suppress(FlowrefError, OutOfTime), deadline(PATIENCE):
        law, target = registry.find_law(verdict.law), registry.parse_target(verdict.target)
        return patch(target, law, verdict.repairs)
    return ""


def _with_cases(report: Report, identity: str) -> Sequence[Verdict]:
    """The verdicts of a short name, with the cases of the baseline file for those without one."""
    from flowref.auditing import replays
    from flowref.baseline.baseline_parser import load_baseline

    pinned = load_baseline(lenient=True).cases.values()
    cases = {
        (case.target, case.law): case for case in pinned if case.id == identity.strip().upper()
    }
    if not report.find(identity) and cases:
        return tuple(cases.values())
    return [
        verdict if verdict.counterexample else cases.get((verdict.target, verdict.law), verdict)
        for verdict in replays.violation(report, identity)
    ]


def _first_violation(report: Report, identity: str) -> Verdict:
    from flowref.auditing import replays

    verdicts = replays.violation(report, identity)
    if len(verdicts) > 1:
        pairs = "; ".join(f"{verdict.law} in {verdict.target}" for verdict in verdicts)
        click.echo(
            f"flowref: {identity} names {len(verdicts)} violations ({pairs}); this is the first",
            err=True,
        )
    return verdicts[0]


def _report_with(path: str | None, identity: str | None) -> Report:
    """The report of a file, or the newest one of this folder with this violation."""
    from flowref.auditing.journal import report_of
    from flowref.reporting.report import Report

    return report_of(identity or "") if path is None else Report.load(Path(path))
