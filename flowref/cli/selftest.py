"""The command that tests the laws: `flowref selftest`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowref.cli.help import Command
from flowref.cli.interruption import INTERRUPTED, terminable
from flowref.cli.parameters import Output, jobs_option

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from flowref.auditing.options import Options

MILLION = 1_000_000


@click.command(
    cls=Command,
    examples=(
        ("flowref selftest --quick", "half the batches"),
        ("flowref selftest --kills kills.json", "every bug under every law"),
    ),
)
@click.option("--quick", is_flag=True, help="Half the batches.")
@click.option("--seed", type=int, default=0, show_default=True)
@jobs_option
@click.option("-v", "--verbose", is_flag=True, help="Also list the mutants that were caught.")
@click.option(
    "--kills",
    type=Output(),
    metavar="PATH",
    help="Instead: every planted bug under every law, as JSON.",
)
@click.option(
    "--sizes",
    type=Output(),
    metavar="PATH",
    help="Instead: the smallest size of every mutant that its law still catches, as JSON lines; a later "
    "call resumes.",
)
@click.option(
    "--soak",
    type=Output(),
    metavar="PATH",
    help="Instead: healthy subjects under one root seed after another, as JSON lines; a later call "
    "resumes.",
)
@click.option(
    "--round",
    "round_",
    type=Output(),
    metavar="PATH",
    help="Also: the result on healthy subjects, as a line for the file of a soak.",
)
@click.option("--points", default=MILLION, show_default=True, help="Points that a soak must judge.")
def selftest(
    quick: bool,
    seed: int,
    jobs: int,
    verbose: bool,
    kills: str | None,
    sizes: str | None,
    soak: str | None,
    round_: str | None,
    points: int,
) -> None:
    """Test that every mutant is caught by its law, and that every law holds on every healthy
    subject. A mutant whose library is not installed is planted in other code, such as JAX code
    without torch; one that fits nowhere is counted with the reason. An interrupted test is resumed.

    Exit codes: 0 no mutant escaped and no false alarm, 1 a mutant escaped or a healthy subject was
    reported, 2 a subject could not be loaded.
    """
    from flowref import registry
    from flowref.auditing.journal import FOLDER
    from flowref.auditing.options import Options

    if not registry.in_checkout():
        raise click.UsageError(
            "the mutants and healthy subjects are not part of the installed package: clone the repository of "
            "flowref, and run `flowref selftest` there"
        )
    folder = Path(FOLDER) / "selftest"
    options = Options(profile="quick" if quick else "standard", seed=seed, jobs=jobs, folder=folder)
    with terminable():
        if kills is not None:
            sys.exit(_kills(kills, options))
        if sizes is not None:
            sys.exit(_sizes(sizes, options))
        if soak is not None:
            sys.exit(_soak(soak, points, options))
        sys.exit(_both_halves(options, verbose, round_))


def _both_halves(options: Options, verbose: bool, round_: str | None) -> int:
    """Run mutants under their laws, and healthy subjects under all; the latter can be added to a
    soak.
    """
    from flowref import registry
    from flowref.auditing import selftest as testing
    from flowref.auditing.power import lines, soak
    from flowref.cli.audit_progress import AuditProgress
    from flowref.model import Status

    def show(trial: testing.Trial, number: int, total: int) -> None:
        if verbose or trial.word == "ESCAPED":
            name, host = trial.mutant.id, trial.host or trial.mutant.host
            click.echo(f"{trial.word}  {number}/{total}  {name} on {host}: {trial.outcome}")
        elif number % 25 == 0:
            click.echo(f"{number} of {total} mutants", err=True)

    with AuditProgress() as progress:
        missed, report = testing.selftest(options, progress, show)
    if round_ is not None and report.complete:
        lines.append_line(Path(round_), soak.soak_round(report, options.seed, options.profile))
    words = [one.word for one in missed]
    escaped, unseen, left = (words.count(word) for word in ("ESCAPED", "unseen", "no host"))
    total, wrong = len(registry.mutants()) - left, testing.alarms(report)
    click.echo(f"{total - escaped - unseen} of {total} mutants caught")
    if unseen or left:
        click.echo(
            f"of libraries that are not installed: {unseen} are no visible defect of the substitute code, "
            f"{left} cannot be planted in it:"
        )
        for reason, count in testing.unplanted_reasons(missed).most_common():
            click.echo(f"  {count:4d}  {reason}")
    ahead = report.counts[Status.NOT_RUN]
    pairs = len(report.verdicts) - ahead
    click.echo(f"{len(report.targets)} healthy subjects, {pairs} pairs, {wrong} false alarms")
    if not report.complete:
        click.echo(f"{ahead} pairs are left: the same command resumes them")
        return INTERRUPTED
    return 1 if escaped or wrong else 2 if report.problems else 0


def _kills(path: str, options: Options) -> int:
    import json

    from flowref.auditing.journal import FOLDER
    from flowref.auditing.power import kills
    from flowref.cli.audit_progress import AuditProgress
    from flowref.reporting.files import replace_file

    with AuditProgress(lines=False) as progress:
        report = kills.matrix(replace(options, folder=Path(FOLDER) / "kills"), progress)
    killed = kills.kills(report)
    replace_file(Path(path), json.dumps(kills.kills_to_json(report), indent=1) + "\n")
    caught = sum(kill.caught for kill in killed)
    click.echo(f"{caught} of {len(killed)} planted bugs caught by a law that must catch them")
    for kill in killed:
        if not kill.caught:
            why = "; ".join(f"{law}: {reason}" for law, reason in kill.silence.items())
            click.echo(f"ESCAPED  {kill.spec}  {why}")
    if not report.complete:
        return INTERRUPTED
    return 0 if caught == len(killed) else 1


def _sizes(path: str, options: Options) -> int:
    from flowref.auditing.power import sizes

    def show(one: sizes.Threshold, number: int, total: int) -> None:
        size = "ESCAPED" if one.smallest is None else f"{one.smallest:.1e}"
        click.echo(f"{number:4d}/{total}  {size}  {one.mutant}")

    every = sizes.thresholds(Path(path), options.profile, options.seed, show)
    return 1 if any(one.smallest is None for one in every) else 0


def _soak(path: str, points: int, options: Options) -> int:
    from flowref.auditing.journal import FOLDER
    from flowref.auditing.power import soak
    from flowref.cli.audit_progress import AuditProgress

    def show(one: soak.Round, done: soak.Soak) -> None:
        for alarm in one.accused:
            click.echo(f"FALSE ALARM  seed {one.seed}  {alarm}")
        bound = "" if done.bound is None else f"; at most {done.bound:.1e} a pair (95 %)"
        click.echo(
            f"seed {one.seed}: {one.pairs} pairs, {one.points} points, {one.alarms} false alarms "
            f"in {one.seconds:.0f} s; in all {done.pairs} pairs, {done.points} points, "
            f"{done.alarms} false alarms{bound}"
        )

    with AuditProgress(lines=False) as progress:
        folder = Path(FOLDER) / "soak"
        done = soak.soak(Path(path), points, replace(options, folder=folder), progress, show)
    return 1 if done.alarms else 0
