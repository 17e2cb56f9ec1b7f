"""The command that tests the tests: `flowref selftest`."""

from __future__ import annotations

import sys

import click

from flowref.cli.parameters import jobs_option


@click.command()
@click.option("--quick", is_flag=True, help="Half the batches.")
@click.option("--seed", type=int, default=0, show_default=True)
@jobs_option
@click.option("-v", "--verbose", is_flag=True, help="Also name the mutants that were caught.")
def selftest(quick: bool, seed: int, jobs: int, verbose: bool) -> None:
    """Every mutant is caught by its law, and every law holds on every healthy subject."""
    from flowref import registry
    from flowref.auditing import selftest as testing
    from flowref.auditing.options import Options
    from flowref.cli.audit_progress import AuditProgress

    def show(trial: testing.Trial, number: int, total: int) -> None:
        if verbose or not trial.caught:
            word, mutant = "caught" if trial.caught else "ESCAPED", trial.mutant
            click.echo(f"{word}  {number}/{total}  {mutant.id} on {mutant.host}: {trial.outcome}")
        elif number % 25 == 0:
            click.echo(f"{number} of {total} mutants", err=True)

    options = Options(profile="quick" if quick else "standard", seed=seed, jobs=jobs)
    with AuditProgress() as progress:
        escaped, report = testing.selftest(options, progress, show)
    total, wrong = len(registry.mutants()), testing.alarms(report)
    click.echo(f"{total - len(escaped)} of {total} mutants caught")
    click.echo(
        f"{len(report.targets)} healthy subjects, {len(report.verdicts)} pairs, {wrong} false "
        "alarms"
    )
    sys.exit(1 if escaped or wrong else 2 if report.problems else 0)
