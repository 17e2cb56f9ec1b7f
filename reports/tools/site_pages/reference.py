"""The reference: the help of each command, and the public names of the package with their docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence

import click

import flowref
from flowref import reference
from flowref.cli.main import main
from site_pages.docstrings import entry
from site_pages.pieces import fenced

WIDTH = 100
# Modules whose names are no words.
TITLES = {"ot flow": "OT-Flow", "rad": "RAD", "real nvp": "Real NVP"}
# Public names in the order in which a reader meets them; what is listed nowhere is for those who extend flowref.
USED = {
    "Checks": ("audit", "check_flow", "check", "watch"),
    "Results": ("Report", "Verdict", "Status"),
    "Inputs": ("Target", "Settings"),
    "Errors": ("FlowrefViolations", "FlowrefViolation", "FlowrefError"),
}
PYTHON = """# Python

The public names of `flowref`, from their docstrings. Elsewhere: [the reference layers](layers.md) (`flowref.reference`),
[what a law or an adapter is written with](extending.md), the [decorator for tests](../guides/tests.md),
[a training run, watched](../guides/watching.md), and [reports as JSON](../guides/json.md).

```python
import flowref

report = flowref.audit(["zuko:NSF?features=3", my_flow], laws="map/*")
for verdict in report.violations:
    print(verdict.target, verdict.law, verdict.diagnosis)
```
"""
EXTENDING = """# Laws and adapters in Python

What a law, a mutant or the adapter of a library is written with. [Contributing](../about/CONTRIBUTING.md) has an example
of each, and the tutorial [a law](../tutorial/law.md) and [an adapter](../tutorial/adapter.md) of your own.
"""
LAYERS = r"""# Reference layers

`flowref.reference`: PyTorch layers that read like the papers, audited like any library. Points are $x$, latents $z$;
`forward(x)` returns $(z, \text{ladj})$ with $\text{ladj} = \log\lvert\det J\rvert$, one number a row.
"""


def pages() -> dict[str, str]:
    """Path below the site -> Markdown."""
    every = set(flowref.__all__) - {"__version__"}
    used = {name for names in USED.values() for name in names}
    python = [PYTHON]
    for words, names in USED.items():
        python += [f"## {words}", ""]
        for name in names:
            python += entry(name, getattr(flowref, name), 3)
    extending = [EXTENDING]
    for name in sorted(every - used, key=str.casefold):
        extending += entry(name, getattr(flowref, name))
    return {
        "reference/cli.md": _commands(),
        "reference/python.md": "\n".join(python),
        "reference/extending.md": "\n".join(extending),
        "reference/layers.md": _layers(),
    }


def _layers() -> str:
    """The names of `flowref.reference` by the module that defines them."""
    homes: dict[str, list[str]] = {}
    for name in reference.__all__:
        home = getattr(getattr(reference, name), "__module__", "")
        homes.setdefault(home.rpartition(".")[2].replace("_", " "), []).append(name)
    lines = [LAYERS, ""]
    for home in sorted(homes):
        lines += [f"## {TITLES.get(home, home.capitalize())}", ""]
        for name in homes[home]:
            lines += entry(name, getattr(reference, name), 3)
    return "\n".join(lines)


def _commands() -> str:
    commands = sorted(_leaves(main, "flowref"))
    lines = ["# Command line", "", "What `flowref COMMAND --help` prints.", "", *_summary(commands)]
    for name, command in commands:
        with click.Context(
            command, info_name=name, max_content_width=WIDTH, terminal_width=WIDTH
        ) as context:
            text = click.unstyle(command.get_help(context))
        lines += [f"## {name}", "", *fenced(text, "text")]
    return "\n".join(lines)


def _summary(commands: Sequence[tuple[str, click.Command]]) -> Iterator[str]:
    """A line for each command."""
    for name, command in commands:
        words = re.split(r"(?<=\.)\s|:\s|\n\n", inspect.cleandoc(command.help or ""))[0].replace(
            "\n", " "
        )
        yield f"- [`{name}`](#{name.replace(' ', '-')}): {words}"
    yield ""


def _leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    for part, one in command.commands.items():
        yield from _leaves(one, f"{name} {part}")
