"""The command for a first answer: `flowref check`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowref.cli.completion import Specs
from flowref.cli.formats import format_options, printing, write_formats
from flowref.cli.help import Command
from flowref.cli.interruption import INTERRUPTED, terminable
from flowref.cli.parameters import Duration, device_option, verbose_option

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from flowref.auditing.options import AuditListener
    from flowref.model import KnownFailure, Law, Recognized, Target, Verdict


@click.command(
    cls=Command,
    examples=(
        ("flowref check flows.py", "all flows that a file defines"),
        ("flowref check flows.py:Coupling", "one of them"),
        ("flowref check 'flows.py:Flow?dim=3&hidden=8'", "with arguments"),
        ("flowref check mine.flows zuko:NSF", "a module, a library"),
        ("flowref check flows.py --output-format concise", "a line for each failure"),
    ),
)
@click.argument("specs", nargs=-1, required=True, type=Specs(), metavar="FILE[:NAME]...")
@click.option(
    "--event", metavar="SHAPE", help="Event shape of flows that declare none: 3 or 2,4,4."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of everything drawn.")
@click.option(
    "--timeout",
    type=Duration(),
    default="20s",
    show_default=True,
    metavar="TIME",
    help="CPU time of one check.",
)
@device_option
@format_options
@verbose_option
def check(
    specs: tuple[str, ...],
    event: str | None,
    seed: int,
    timeout: float,
    device: str,
    **choices: Any,
) -> None:
    """Check the flows of a file or a module in seconds: a dozen decisive laws for each, a line
    each.

    `flowref audit` checks all laws. Known failures (flowref baseline) do not count.

    Exit codes: 0 all passed, 1 a check failed, 2 nothing to check, 3 a crash or time-out.
    """
    from flowref.auditing.audit_run import conduct
    from flowref.auditing.journal import FOLDER
    from flowref.auditing.options import Options
    from flowref.auditing.pool import Limits
    from flowref.baseline.baseline_parser import load_baseline
    from flowref.reporting import checks
    from flowref.reporting.report import NOTHING, USAGE
    from flowref.reporting.text import wrapped_lines

    options = Options(
        profile="standard",
        seed=seed,
        limits=Limits(timeout),
        folder=Path(FOLDER),
        fresh=True,
        defaults={"event": event} if event else {},
        command=shlex.join(["flowref", *sys.argv[1:]]),
        baseline=load_baseline(),
        device=device,
    )
    laws = (*checks.LAWS, *(checks.DEVICE if device else ()))
    taken = printing(choices)
    with terminable():
        report = conduct(specs, laws, options, _screen(choices["verbose"] > 0, silent=taken))
    for target, verdicts in report.by_target().items():
        accepted = {verdict.law for verdict in verdicts if report.accepts(verdict)}
        for line in wrapped_lines([checks.sentence(_flow_name(target), verdicts, accepted)]):
            click.echo(line, err=taken)
    write_formats(report, choices)
    if not report.complete:
        sys.exit(INTERRUPTED)
    sys.exit(USAGE if report.exit_code == NOTHING else report.exit_code)


def _flow_name(target: str) -> str:
    head, _, query = target.partition("?")
    return head.rpartition(":")[2] + ("?" + query if query else "")


def _screen(verbose: bool, *, silent: bool) -> AuditListener:
    """The listener that prints a line for each check; ``silent``: standard output carries a report."""
    from flowref.auditing.options import AuditListener
    from flowref.cli.audit_progress import styled
    from flowref.model import Problem, Standing
    from flowref.registry import Listing
    from flowref.reporting import checks
    from flowref.reporting.terminal import failing, known_line, recognition_lines
    from flowref.reporting.text import clean, wrapped_lines

    class Screen(AuditListener):
        statements: dict[str, str]

        def begin(self, targets: Sequence[Target], laws: Sequence[Law], earlier: int) -> None:
            self.statements = {law.id: law.statement for law in laws}

        def notice(self, text: str) -> None:
            click.echo(f"flowref: {clean(text)}", err=True)

        def problem(self, problem: Problem) -> None:
            click.echo(f"flowref: {clean(problem.message)}", err=True)

        def listing(self, listing: Listing) -> None:
            names = ", ".join(str(one).removeprefix(f"{listing.place}:") for one in listing.targets)
            left = (f"  left out: {clean(name)}: {clean(reason)}" for name, reason in listing.left)
            for line in wrapped_lines(
                [f"{clean(listing.place)} defines {clean(names)}", *left, ""]
            ):
                click.echo(line, err=silent)

        def left_out(self, problem: Problem) -> None:
            for line in wrapped_lines([f"left out: {clean(problem.message)}", ""]):
                click.echo(line, err=silent)

        def target(
            self,
            target: Target,
            verdicts: Sequence[Verdict],
            recognized: Recognized | None = None,
            known: Sequence[KnownFailure] = (),
        ) -> None:
            if silent:
                return
            accepted = {one.law for one in known if one.standing is Standing.KNOWN}
            new = [verdict for verdict in verdicts if verdict.law not in accepted]
            kind = f": {clean(recognized.kind)}" if recognized else ""
            how = (
                [*recognition_lines(recognized), *map(clean, recognized.hints)]
                if recognized
                else []
            )
            below = (
                *how,
                *checks.check_lines(verdicts, accepted, verbose=verbose),
                *failing(new, self.statements, recognized, verbose=verbose),
                *map(known_line, known),
            )
            lines = [f"{clean(str(target))}{kind}", *(f"  {line}" for line in below), ""]
            for line in wrapped_lines(lines):
                click.echo(styled(line))

    return Screen()
