"""The command line: each command parses, calls one function, and prints the result. Command modules
import only click; a command imports what it needs when it runs.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from flowref import __version__
from flowref.cli.audit import audit
from flowref.cli.baseline import baseline
from flowref.cli.certify import certificate, certify, same
from flowref.cli.check import check
from flowref.cli.completion import completion
from flowref.cli.diff import diff
from flowref.cli.doctor import doctor
from flowref.cli.fit import fit, sample
from flowref.cli.help import Group
from flowref.cli.init import init
from flowref.cli.laws import explain, list_laws
from flowref.cli.merge import merge
from flowref.cli.precision import precision
from flowref.cli.replay import issue, replay, script
from flowref.cli.report import report
from flowref.cli.selftest import selftest

# Title -> command -> its line; other commands use their short help.
GROUPS = {
    "Check": {
        "check": "Check the flows of a file in seconds: a dozen decisive laws.",
        "audit": "Check every law on flows, libraries or what pyproject.toml declares.",
        "precision": "Show how many digits are left in float32 and under autocast.",
        "report": "Show a report again, or write it in another format.",
        "diff": "Show what changed between two reports.",
        "merge": "Combine several reports into one.",
    },
    "Violations": {
        "replay": "Measure recorded violations again.",
        "script": "Print a program that shows a violation without flowref.",
        "issue": "Print a violation as the text of an issue.",
        "baseline": "Record known failures, so that only new ones count.",
    },
    "Proofs": {
        "certify": "Prove statements for all inputs and all weights.",
        "certificate": "Check proofs that were written to files.",
        "same": "Prove that two objects compute the same.",
    },
    "Laws": {
        "laws": "List the laws.",
        "explain": "Explain a law: how it is measured, which bugs it catches.",
        "selftest": "Test the laws on planted bugs and healthy flows.",
    },
    "Trained flows": {
        "fit": "Train a flow on a data set, and audit it.",
        "sample": "Draw from a trained flow.",
    },
    "Set-up": {
        "init": "Write the settings, the baseline and the workflow of a project.",
        "doctor": "Show the environment: versions, libraries, memory.",
        "completion": "Print the script with which a shell completes.",
    },
}
EXAMPLES = (
    ("flowref check flow.py", "your flows, in seconds"),
    ("flowref audit flow.py:make", "every law on one of them"),
    ("flowref audit zuko --profile quick", "every law on a library"),
    ("flowref report -v", "the last audit, in detail"),
    ("flowref script K7Q2", "a program that shows a violation"),
    ("flowref explain map/log-det", "how a law is measured"),
)
# Commands whose reports contain problems of the catalogue.
AUDITING = ("audit", "check", "fit", "selftest")


class Commands(Group):
    """A group in which user errors become one sentence and exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        refused = False
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort, click.ClickException):
            raise
        except Exception as error:
            from flowref.model import FlowrefError  # late, since --help needs none of it
            from flowref.reporting.text import clean

            if not isinstance(error, FlowrefError):
                raise
            click.echo(f"flowref: {clean(str(error))}", err=True)
            refused = True
            ctx.exit(2)
        finally:
            reported = ctx.invoked_subcommand in AUDITING and not refused
            if "flowref.registry" in sys.modules and not reported:
                _show_problems()


def _show_problems() -> None:
    from flowref import registry
    from flowref.reporting.text import clean

    for problem in registry.problems():
        click.echo(f"flowref: {clean(problem.message)}", err=True)


@click.group(
    cls=Commands,
    titles=GROUPS,
    examples=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, "-V", "--version", prog_name="flowref")
def main() -> None:
    """Check laws of normalizing flows on components of any library, and on your own code.

    A violation comes with an input that shows it and a command that replays it.
    """


COMMANDS = (
    check, audit, precision, certify, certificate, same, report, merge, baseline, list_laws, explain, replay, script, issue,
    selftest, diff, fit, sample, completion, init, doctor,
)  # fmt: skip
for command in COMMANDS:
    main.add_command(command)
