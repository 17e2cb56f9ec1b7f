"""The command line: each command parses, calls one function, and prints what it gave."""

from __future__ import annotations

import contextlib
import math
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowref import __version__
from flowref.cli.diff import diff
from flowref.cli.fit import fit, sample
from flowref.cli.parameters import Duration, Jobs, Output

if TYPE_CHECKING:
    from flowref.reporting.report import Report

INTERRUPTED = 130
# Commands whose reports tell what is wrong with the catalogue.
AUDITING = ("audit", "fit", "selftest")


class Commands(click.Group):
    """Commands whose mistakes of the user's come out as one sentence, and exit 2."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        from flowref.model import FlowrefError

        refused = False
        try:
            return super().invoke(ctx)
        except FlowrefError as error:
            from flowref.reporting.text import clean

            click.echo(f"flowref: {clean(str(error))}", err=True)
            refused = True
            ctx.exit(2)
        finally:
            reported = ctx.invoked_subcommand in AUDITING and not refused
            if "flowref.registry" in sys.modules and not reported:
                _show_problems()


PROFILE = click.Choice(["quick", "standard", "thorough"])


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="flowref")
def main() -> None:
    """Check laws of normalizing flows on components of any library, and on your own code.

    A violation comes with an input that shows it and a line that replays it.
    """


@main.command()
@click.argument("specs", nargs=-1)
@click.option(
    "--laws",
    multiple=True,
    metavar="GLOB",
    help="Laws to check, such as 'bijection/*'; repeat or separate by commas.",
)
@click.option(
    "--profile", type=PROFILE, default="standard", show_default=True, help="How hard to look."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of everything that is drawn.")
@click.option(
    "-j",
    "--jobs",
    type=Jobs(),
    default="auto",
    show_default=True,
    metavar="N|auto",
    help="Worker processes.",
)
@click.option(
    "--in-process",
    is_flag=True,
    help="No workers: no time-out, no memory limit, no protection from crashes.",
)
@click.option(
    "--budget", type=Duration(), metavar="TIME", help="Start no pair after this long (60s, 5m)."
)
@click.option(
    "--timeout",
    type=Duration(),
    default="60s",
    show_default=True,
    metavar="TIME",
    help="For one pair.",
)
@click.option(
    "--memory",
    type=click.IntRange(64),
    default=2048,
    show_default=True,
    metavar="MIB",
    help="For one pair.",
)
@click.option(
    "--event", metavar="SHAPE", help="Event shape of targets that do not give one: 3 or 2,4,4."
)
@click.option("--dtype", type=click.Choice(["float32", "float64"]), help="Precision to judge in.")
@click.option(
    "--domain", metavar="SET", help="real, unit, positive, ordered, simplex or (low,high)."
)
@click.option(
    "--json",
    "json_path",
    type=Output(),
    metavar="PATH",
    help="Write the report as JSON (- for standard output).",
)
@click.option(
    "--markdown",
    "markdown_path",
    type=Output(),
    metavar="PATH",
    help="Write the report as Markdown (- for standard output).",
)
@click.option(
    "--brief",
    is_flag=True,
    help="In these files count what holds or does not apply, without numbers and reasons.",
)
@click.option(
    "--resume/--fresh",
    default=True,
    help="Go on with an interrupted audit (default), or start anew.",
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Say why laws were not decided or do not apply."
)
def audit(specs: tuple[str, ...], laws: tuple[str, ...], **choices: Any) -> None:
    """Check every law on every target; with no SPECS, on every supported library that is installed.

    A target is a library (zuko), a construction (nflows:AffineCouplingTransform, 'zuko:N*'), or
    your code (package.module:factory?event=4, path/to/file.py:make_flow). Quote specs that hold ?
    or &.

    Exit codes: 0 nothing found, 1 a violation, 2 usage or a target that cannot be loaded, 3 a crash
    or time-out, 5 nothing meaningful was checked.
    """
    from flowref.auditing.journal import FOLDER
    from flowref.auditing.pool import Limits
    from flowref.auditing.running import Options, conduct
    from flowref.cli.screen import Screen
    from flowref.reporting.terminal import summary_lines

    json_path, markdown_path = choices["json_path"], choices["markdown_path"]
    command = shlex.join(["flowref", *sys.argv[1:]])
    options = Options(
        profile=choices["profile"],
        seed=choices["seed"],
        jobs=0 if choices["in_process"] else choices["jobs"],
        limits=Limits(choices["timeout"], choices["memory"]),
        budget=choices["budget"] or math.inf,
        folder=Path(FOLDER),
        fresh=not choices["resume"],
        defaults={key: choices[key] for key in ("event", "dtype", "domain") if choices[key]},
        command=command,
    )
    screen = Screen(verbose=choices["verbose"], lines="-" not in (json_path, markdown_path))
    with _terminable(), screen:
        report = conduct(specs or None, laws, options, screen)
    screen.say(summary_lines(report))
    _write_formats(report.brief() if choices["brief"] else report, json_path, markdown_path)
    if not report.complete:
        click.echo("flowref: interrupted; the same command goes on from here:", err=True)
        resuming = shlex.join(["flowref", *(word for word in sys.argv[1:] if word != "--fresh")])
        click.echo(f"    {resuming}", err=True)
        sys.exit(INTERRUPTED)
    sys.exit(report.exit_code)


def _write_formats(report: Report, json_path: str | None, markdown_path: str | None) -> None:
    from flowref.reporting.files import write
    from flowref.reporting.markdown import to_markdown

    for path, make in ((json_path, report.to_json), (markdown_path, lambda: to_markdown(report))):
        if path == "-":
            click.echo(make(), nl=False)
        elif path:
            write(Path(path), make())


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """A polite kill ends an audit as Ctrl-C does: with what it has."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@main.command("laws")
@click.option(
    "--for",
    "spec",
    metavar="SPEC",
    help="Say for this target which laws apply, and why the others do not.",
)
@click.option("--profile", type=PROFILE, default="standard", show_default=True)
def list_laws(spec: str | None, profile: str) -> None:
    """The catalogue of laws."""
    from flowref import loading, registry
    from flowref.reporting.catalogue import law_lines

    laws = registry.laws()
    if spec is None:
        _print(law_lines(laws))
        sys.exit(2 if registry.problems() else 0)
    from flowref.auditing.worker import undisturbed
    from flowref.checking import Settings, not_applicable

    for target in registry.expand(spec):
        with undisturbed():
            subject = loading.load(target)
            why = {law.id: not_applicable(law, subject, Settings(profile)) for law in laws}
        _print([f"{target}:", *law_lines(laws, why)])
    sys.exit(2 if registry.problems() else 0)


@main.command()
@click.argument("law")
def explain(law: str) -> None:
    """What a law states, how it is judged, and which defects it is known to catch."""
    from flowref import registry
    from flowref.reporting.catalogue import explanation

    found = registry.find_law(law)
    _print(explanation(found, [mutant for mutant in registry.mutants() if mutant.law == found.id]))
    sys.exit(2 if registry.problems() else 0)


@main.command()
@click.argument("what", required=False)
@click.option("--all", "everything", is_flag=True, help="Every violation of the report.")
@click.option(
    "--report",
    "path",
    metavar="PATH",
    help="A report file; by default that of the last audit in this folder.",
)
def replay(what: str | None, everything: bool, path: str | None) -> None:
    """Measure recorded violations again: STILL FAILS, FIXED or ERROR.

    WHAT is the short name of a violation (K7Q2), or a report file.
    """
    from flowref.auditing import replaying
    from flowref.reporting.text import clean
    from flowref.reporting.words import measured

    if what is None and not everything and path is None:
        raise click.UsageError(
            "name a violation (flowref replay K7Q2) or a report file, or give --all"
        )
    if what is not None and _is_file(what):
        what, path = None, what
    report = _report(path)
    chosen = report.violations if what is None else replaying.violation(report, what)
    labels = set()
    for found in replaying.replay(chosen, report):
        labels.add(found.label)
        detail = found.reason or (measured(found.now) if found.now is not None else "")
        recorded = found.recorded
        head = f"{found.label:<11}  {recorded.id}  {clean(recorded.target)}  {recorded.law}"
        _print([f"{head}   {clean(detail)}  ({1000 * found.seconds:.0f} ms)"])
    if not chosen:
        _print(["this report has no violations"])
    sys.exit(1 if replaying.STILL_FAILS in labels else 3 if replaying.ERROR in labels else 0)


@main.command()
@click.argument("identity", metavar="ID")
@click.option(
    "--report",
    "path",
    metavar="PATH",
    help="A report file; by default that of the last audit in this folder.",
)
def script(identity: str, path: str | None) -> None:
    """Print a stand-alone program that shows a violation; it needs only the library and its
    framework.
    """
    from flowref.auditing import replaying

    found = replaying.violation(_report(path), identity)
    if len(found) > 1:
        pairs = "; ".join(f"{verdict.law} in {verdict.target}" for verdict in found)
        click.echo(
            f"flowref: {identity} names {len(found)} violations ({pairs}); this is the first",
            err=True,
        )
    from flowref.scripting import script as write_script

    click.echo(write_script(found[0]))


@main.command()
@click.option("--quick", is_flag=True, help="Half the batches.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "-j",
    "--jobs",
    type=Jobs(),
    default="auto",
    show_default=True,
    metavar="N|auto",
    help="Worker processes.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also name the mutants that were caught.")
def selftest(quick: bool, seed: int, jobs: int, verbose: bool) -> None:
    """Every mutant is caught by its law, and every law holds on every healthy subject."""
    from flowref.auditing.running import Options
    from flowref.auditing.selftest import Catch, alarms
    from flowref.auditing.selftest import selftest as run
    from flowref.cli.screen import Screen

    def tell(found: Catch, place: int, total: int) -> None:
        if verbose or not found.caught:
            word = "caught" if found.caught else "ESCAPED"
            _print(
                [f"{word}  {place}/{total}  {found.mutant.id} on {found.mutant.host}: {found.said}"]
            )
        elif place % 25 == 0:
            click.echo(f"{place} of {total} mutants", err=True)

    options = Options(profile="quick" if quick else "standard", seed=seed, jobs=jobs)
    with Screen() as screen:
        escaped, report = run(options, screen, tell)
    from flowref import registry

    total, wrong = len(registry.mutants()), alarms(report)
    _print(
        [
            f"{total - len(escaped)} of {total} mutants caught",
            f"{len(report.targets)} healthy subjects, {len(report.verdicts)} pairs, {wrong} false "
            "alarms",
        ]
    )
    sys.exit(1 if escaped or wrong else 2 if report.problems else 0)


main.add_command(diff)
main.add_command(fit)
main.add_command(sample)


def _show_problems() -> None:
    """Say what is wrong with what other distributions offer."""
    from flowref import registry
    from flowref.reporting.text import clean

    for problem in registry.problems():
        click.echo(f"flowref: {clean(problem.message)}", err=True)


def _is_file(what: str) -> bool:
    return what.endswith(".json") or Path(what).is_file()


def _report(path: str | None) -> Report:
    from flowref.auditing.journal import last_report
    from flowref.reporting.report import Report

    return last_report() if path is None else Report.load(Path(path))


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(line)
