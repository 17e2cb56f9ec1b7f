"""The catalogue: a page for each law, one for each family, and one for all."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from causes import Finding
from flowref import registry
from flowref.auditing.power import sizes
from flowref.model import Law, Mutant, base_of, cases_of, statement_of
from flowref.reporting.catalogue import FORCES, HISTORIES, TOLERANCES
from flowref.reporting.markup import escaped
from site_pages.pieces import breakable, escape, fenced, inline, link, statement, table

# What the family of a law is about, in the order of the catalogue.
FAMILIES = {
    "map": "Inverses and log-determinants",
    "density": "Densities",
    "sampling": "Samples and density agree",
    "random": "Random numbers",
    "kernel": "Surjections and stochastic layers",
    "process": "Processes that take data to noise",
    "composition": "Compositions",
    "coupling": "Couplings",
    "squeeze": "Squeezes",
    "multi-scale": "Multi-scale architectures",
    "dequantize": "Dequantization",
    "residual": "Residual maps",
    "batch-norm": "Batch normalization",
    "sample-norm": "Instance, group and layer normalization",
    "gradient": "Gradients",
    "same": "Calls that agree: rows, modes, copies, manners",
    "dtype": "Precision and device",
    "shape": "Shapes",
    "effects": "What calls write to",
    "mode": "Train and eval mode",
    "state": "State of training",
}


@dataclass(frozen=True)
class Power:
    """What is measured of the laws: how many planted defects each catches, and the smallest size of
    each mutant that its law still sees.
    """

    kills: Mapping[str, int] = field(default_factory=dict)
    alone: Mapping[str, int] = field(default_factory=dict)
    smallest: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Power:
        """From the files of `flowref selftest --kills` and `--sizes`, as far as they are there."""
        kills = _json(folder / "kills.json").get("laws", [])
        measured = sizes.read_thresholds(folder / "sizes.jsonl")
        return cls(
            {row["law"]: row["kills"] for row in kills},
            {row["law"]: row["alone"] for row in kills},
            {one.mutant: one.smallest for one in measured if one.smallest},
        )


def _json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return read


@dataclass(frozen=True)
class Remedy:
    """A usual cause of a violation, and the lines that are right."""

    cause: str
    fix: str


def remedies(path: Path) -> dict[str, list[Remedy]]:
    """Statement -> the usual causes of its violations."""
    read = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: [Remedy(row["cause"], row["fix"]) for row in rows] for name, rows in read.items()}


def pages(
    findings: Sequence[Finding], power: Power, causes: Mapping[str, Sequence[Remedy]]
) -> dict[str, str]:
    """Path below the site -> Markdown."""
    laws = [law for law in registry.laws() if not law.is_case]
    mutants: dict[str, list[Mutant]] = {}
    for mutant in registry.mutants():
        mutants.setdefault(mutant.law, []).append(mutant)
    statements: dict[str, list[Law]] = {}
    for law in laws:
        statements.setdefault(statement_of(law.id), []).append(law)
    families: dict[str, list[str]] = {}
    for name in statements:
        families.setdefault(name.partition("/")[0], []).append(name)
    order = sorted(families, key=lambda name: [*FAMILIES, name].index(name))
    made = {
        "laws/index.md": _catalogue(
            {name: families[name] for name in order}, statements, mutants, power
        )
    }
    for family, members in families.items():
        made[f"laws/{family}/index.md"] = _family(
            family, {name: statements[name] for name in members}, mutants, power
        )
        for name in members:
            parts = [f"# {name}", "", statement(registry.statement(name)), ""]
            parts += _causes(causes.get(name, ()))
            for law in statements[name]:
                about = [one for one in findings if law.id in map(base_of, one.laws)]
                parts += _law(law, mutants.get(law.id, []), about, power)
            made[f"laws/{name}.md"] = "\n".join(parts)
    return made


def _causes(causes: Sequence[Remedy]) -> list[str]:
    lines = ["## Usual causes, and the fix", ""] if causes else []
    for one in causes:
        lines += [one.cause, "", *fenced(one.fix, "python")]
    return lines


def title(family: str) -> str:
    """A family in words."""
    return FAMILIES.get(family, family)


def _catalogue(
    families: Mapping[str, Sequence[str]],
    statements: Mapping[str, Sequence[Law]],
    mutants: Mapping[str, Sequence[Mutant]],
    power: Power,
) -> str:
    laws = sum(map(len, statements.values()))
    planted = sum(map(len, mutants.values()))
    rows = []
    for family, names in families.items():
        members = [law for name in names for law in statements[name]]
        rows.append(
            (
                f"[{title(family)}]({family}/index.md)",
                f"`{family}/*`",
                str(len(names)),
                str(len(members)),
                str(sum(len(mutants.get(law.id, ())) for law in members)),
                _caught(members, power),
            )
        )
    return "\n".join(
        [
            "# Laws",
            "",
            f"{len(statements)} statements about flows and batch normalization, in {laws} cases. Each page says how its "
            f"cases are measured, which planted bugs (mutants, {planted} in all) they must catch, and their sources. "
            "`flowref laws` lists them in a terminal, and `flowref explain LAW` explains one.",
            "",
            *table(
                ("family", "ids", "statements", "laws", "mutants", "defects caught"),
                rows,
                "numbers ids",
            ),
            "A *claim* can be violated; a *contract* is checked only where the component promises it; *advice* is never "
            "an error. Defects caught: all planted bugs, including the mutants of other laws, summed over the laws of the "
            "family ([how much flowref sees](../reports/power.md)).",
            "",
        ]
    )


def _caught(members: Sequence[Law], power: Power) -> str:
    """How many planted defects the laws of a family catch, if these laws were measured."""
    caught = [power.kills[law.id] for law in members if law.id in power.kills]
    return str(sum(caught)) if caught else "not measured"


def _family(
    family: str,
    statements: Mapping[str, Sequence[Law]],
    mutants: Mapping[str, Sequence[Mutant]],
    power: Power,
) -> str:
    rows = [
        (
            link(name.partition("/")[2], f"{name.partition('/')[2]}.md"),
            inline(registry.statement(name)),
            ", ".join(", ".join(cases_of(law.id)) for law in laws if cases_of(law.id)),
            str(sum(len(mutants.get(law.id, ())) for law in laws)),
            _caught(laws, power).replace("not measured", ""),
        )
        for name, laws in sorted(statements.items())
    ]
    header = (f"{family}/", "statement", "cases", "mutants", "caught")
    # The statements need the width more than a table of contents with one entry does.
    head = ["---", "hide:", "  - toc", "---", "", f"# {title(family)}", ""]
    return "\n".join([*head, *table(header, rows, "laws")])


def _law(
    law: Law, mutants: Sequence[Mutant], findings: Sequence[Finding], power: Power
) -> list[str]:
    """The section of a law on the page of its statement."""
    scales = ", ".join(f"{scale:g}" for scale in law.scales if scale)
    points = {
        "domain": "points of the domain",
        "latents": "points of the codomain, or images of forward",
        "beyond": "points outside the declared domain",
        "data": "points where the log-density lives",
    }[law.points]
    facts = [
        ("kind", FORCES[law.force]),
        ("promise", f"`{law.promise}`" if law.promise else ""),
        ("tolerance", TOLERANCES[law.tolerance]),
        ("measured at", points + (", along lines and at further weights" if law.scanned else "")),
        ("state", HISTORIES[law.history]),
        (
            "weights",
            f"as given, and perturbed by noise of standard deviation {scales}"
            if len(law.scales) > 1
            else "as given",
        ),
        ("profile", "thorough only" if law.thorough else ""),
        ("source", escaped(law.source)),
        ("also", "; ".join(f"`{law.in_case(one).id}`: {one.words}" for one in law.cases)),
        ("formerly", ", ".join(f"`{one}`" for one in registry.older(law.id))),
    ]
    lines = [
        f"## {law.id}",
        "",
        statement(law.statement),
        "",
        *table(("", ""), [(name, text) for name, text in facts if text], "facts"),
        f"    flowref explain '{law.id}'",
        f"    flowref audit mypackage.flows:make --laws '{law.id}'",
        "",
        "### Bugs that it is tested to catch { data-search-exclude }",
        "",
    ]
    if mutants:
        rows = [
            (
                breakable(mutant.name),
                escape(mutant.description).replace("|", "&#124;"),
                breakable(mutant.host),
                _smallest(mutant, power),
            )
            for mutant in mutants
        ]
        lines += table(("name", "the defect", "planted in", "smallest size seen"), rows, "mutants")
    else:
        lines += ["None is recorded.", ""]
    caught, alone = power.kills.get(law.id), power.alone.get(law.id, 0)
    if caught is not None:
        only = f", {alone} of them by no other law" if alone else ""
        lines += [
            f"Of all planted defects it catches {caught}{only} ([how much flowref sees](../../reports/power.md)).",
            "",
        ]
    if findings:
        lines += ["### Found in libraries", ""]
        lines += [f"- [{escaped(one.title)}](../../findings/{one.id}.md)" for one in findings]
        lines.append("")
    return lines


def _smallest(mutant: Mutant, power: Power) -> str:
    if not mutant.sizes:
        return "of one size"
    size = power.smallest.get(mutant.id)
    return f"{size:.1e}" if size else "not measured"
