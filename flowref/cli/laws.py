"""The commands of the catalogue: `flowref laws` and `flowref explain`."""

from __future__ import annotations

import re
import sys

import click

from flowref.cli import names
from flowref.cli.completion import Laws, Specs
from flowref.cli.help import Command
from flowref.cli.parameters import profile_option


@click.command(
    "laws",
    cls=Command,
    examples=(
        ("flowref laws", "the catalogue"),
        ("flowref laws --for flow.py:make", "which apply to a flow, and why not"),
    ),
)
@click.option(
    "--for",
    "spec",
    type=Specs(),
    metavar="SPEC",
    help="Show which laws apply to this target, and why the others do not.",
)
@profile_option
def list_laws(spec: str | None, profile: str) -> None:
    """List the laws."""
    from flowref.reporting.law_list import law_lines

    if spec is None and not names.others():
        click.echo("\n".join(law_lines(names.declared_law_names())))
        return
    from flowref import registry

    if spec is None:
        click.echo("\n".join(law_lines(registry.laws())))
    else:
        _echo_applying_laws(spec, profile)
    sys.exit(2 if registry.problems() else 0)


def _echo_applying_laws(spec: str, profile: str) -> None:
    from flowref import loading, registry
    from flowref.auditing.worker import undisturbed
    from flowref.checking import Settings, not_applicable
    from flowref.reporting.catalogue import applying

    laws, settings = registry.laws(), Settings(profile)
    for target in registry.expand(spec):
        with undisturbed():
            subject = loading.load(target)
            silences = {law.id: not_applicable(law, subject, settings) for law in laws}
        why_not = {law: None if one is None else one.reason for law, one in silences.items()}
        click.echo("\n".join([f"{target}:", *applying(laws, why_not)]))


@click.command(
    cls=Command,
    examples=(("flowref explain map/log-det", "the law that finds wrong log-dets"),),
)
@click.argument("law", type=Laws())
def explain(law: str) -> None:
    """Explain a law: its statement, how it is judged, and which bugs it is known to catch; the cases
    of a statement; or the law of a violation, by its four letters.
    """
    from flowref import registry
    from flowref.reporting.catalogue import explanation, overview

    law = _law_of_violation(law)
    for hint in registry.renamings((law,)):
        click.echo(f"flowref: {hint}", err=True)
    cases = registry.select_laws((law,)) if law in registry.statements() else ()
    if len(cases) > 1:
        click.echo("\n".join(overview(law, registry.statement(law), cases)))
    else:
        chosen = registry.find_law(law)
        mutants = [mutant for mutant in registry.mutants() if mutant.law == chosen.id]
        click.echo("\n".join(explanation(chosen, mutants, registry.older(chosen.id))))
    sys.exit(2 if registry.problems() else 0)


def _law_of_violation(name: str) -> str:
    """The law of a violation of the last audits, or the name itself."""
    from flowref.auditing.journal import report_of
    from flowref.model import ReportError

    if not re.fullmatch("[2-9A-Za-z]{4}", name):
        return name
    try:
        found = report_of(name.upper()).find(name.upper())
    except ReportError:
        return name
    return found[0].law if found else name
