"""The catalogue: a page for each law, one for each family, and one for all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from causes import Finding
from flowref import registry
from flowref.auditing.power import sizes
from flowref.model import Law, Mutant, base_of
from flowref.reporting.catalogue import FORCES, HISTORIES, TOLERANCES
from flowref.reporting.markup import escaped
from site_pages.pieces import escape, inline, link, statement, table

# What the family of a law is about, in the order of the catalogue.
FAMILIES = {
    "bijection": "Inverses and log-determinants",
    "density": "Densities",
    "sampling": "Samples and density agree",
    "composition": "Compositions",
    "coupling": "Couplings",
    "autoregressive": "Autoregressive maps",
    "squeeze": "Squeezes",
    "multi-scale": "Multi-scale architectures",
    "preprocessing": "Preprocessing and dequantisation",
    "batch-norm": "Batch normalization",
    "sample-norm": "Instance, group and layer normalization",
    "contribution": "Surjections and stochastic layers",
    "residual": "Residual maps",
    "continuous": "Continuous flows",
    "conduct": "API behaviour",
    "mode": "Train and eval mode",
    "state": "Saving, loading, copying, resuming",
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
        measured = sizes.read(folder / "sizes.jsonl")
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


def pages(findings: Sequence[Finding], power: Power) -> dict[str, str]:
    """Path below the site -> Markdown."""
    laws = [law for law in registry.laws() if not law.is_case]
    mutants: dict[str, list[Mutant]] = {}
    for mutant in registry.mutants():
        mutants.setdefault(mutant.law, []).append(mutant)
    families: dict[str, list[Law]] = {}
    for law in laws:
        families.setdefault(law.family, []).append(law)
    order = sorted(families, key=lambda name: [*FAMILIES, name].index(name))
    made = {"laws/index.md": _catalogue({name: families[name] for name in order}, mutants, power)}
    for name, members in families.items():
        made[f"laws/{name}/index.md"] = _family(name, members, mutants, power)
        for law in members:
            about = [one for one in findings if law.id in map(base_of, one.laws)]
            made[f"laws/{law.id}.md"] = _law(law, mutants.get(law.id, []), about, power)
    return made


def title(family: str) -> str:
    """A family in words."""
    return FAMILIES.get(family, family)


def _catalogue(
    families: Mapping[str, Sequence[Law]], mutants: Mapping[str, Sequence[Mutant]], power: Power
) -> str:
    laws = sum(map(len, families.values()))
    planted = sum(map(len, mutants.values()))
    rows = [
        (
            f"[{title(name)}]({name}/index.md)",
            f"`{name}/*`",
            str(len(members)),
            str(sum(len(mutants.get(law.id, ())) for law in members)),
            _caught(members, power),
        )
        for name, members in families.items()
    ]
    return "\n".join(
        [
            "# Laws",
            "",
            f"{laws} statements about flows and batch normalization. Each page says how the law is measured, "
            f"which planted bugs (mutants, {planted} in all) it must catch, and its source. `flowref laws` lists "
            "them in a terminal, and "
            "`flowref explain LAW` explains one.",
            "",
            *table(("family", "ids", "laws", "mutants", "defects caught"), rows, "numbers ids"),
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
    name: str,
    members: Sequence[Law],
    mutants: Mapping[str, Sequence[Mutant]],
    power: Power,
) -> str:
    rows = [
        (
            link(law.id.partition("/")[2], f"{law.id.partition('/')[2]}.md"),
            inline(law.statement),
            law.force,
            str(len(mutants.get(law.id, ()))),
            str(power.kills.get(law.id, "")),
        )
        for law in sorted(members, key=lambda law: law.id)
    ]
    header = (f"{name}/", "statement", "kind", "mutants", "caught")
    # The statements need the width more than a table of contents with one entry does.
    head = ["---", "hide:", "  - toc", "---", "", f"# {title(name)}", ""]
    return "\n".join([*head, *table(header, rows, "laws")])


def _law(law: Law, mutants: Sequence[Mutant], findings: Sequence[Finding], power: Power) -> str:
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
        ("measured at", points + (", and along lines" if law.lines else "")),
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
        ("formerly", ", ".join(f"`{one}`" for one in law.older)),
    ]
    lines = [
        f"# {law.id}",
        "",
        statement(law.statement),
        "",
        *table(("", ""), [(name, text) for name, text in facts if text], "facts"),
        "    flowref explain " + law.id,
        f"    flowref audit mypackage.flows:make --laws {law.id}",
        "",
        "## Mutants that it must catch",
        "",
    ]
    if mutants:
        rows = [
            (
                f"`{mutant.name}`",
                escape(mutant.description).replace("|", "&#124;"),
                f"`{mutant.host}`",
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
        lines += ["## Found in libraries", ""]
        lines += [f"- [{escaped(one.title)}](../../findings/{one.id}.md)" for one in findings]
        lines.append("")
    return "\n".join(lines)


def _smallest(mutant: Mutant, power: Power) -> str:
    if not mutant.sizes:
        return "of one size"
    size = power.smallest.get(mutant.id)
    return f"{size:.1e}" if size else "not measured"
