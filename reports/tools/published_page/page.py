"""The page: a table of models, violations with their causes, and what was not checked and why."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from causes import join, read
from flowref import registry
from flowref.model import Status, Verdict
from flowref.reporting import Report
from flowref.reporting.coverage import DECIDED, concerns, put_to_the_test
from flowref.reporting.markup import code, escaped
from flowref.reporting.outcomes import tally
from flowref.reporting.text import clean
from flowref.reporting.words import evidence_text
from published_page.laws import changed

TEXT = """# Models in the size in which they were published

Components of four features show little about published models. Here models are audited in their
published size, with every law that applies: layers, widths, bins and levels are those of the source,
weights those of the constructor, then perturbed. Nothing is downloaded.
`python reports/tools/published.py` (or `tox -e audit-published`) measures the missing ones and writes
this page; `flowref audit zuko:published.nsf-bsds300` audits one of them. Each model has one worker
with {memory} for a pair.

{summary}

*Seconds* are those of one CPU, for all laws; *peak* is the resident memory of the worker at its
highest, of which PyTorch and the library take some 300 MiB when nothing is measured. *Judged*: laws
that came to a verdict, of those that apply.

{table}

Sources:

{sources}

## Violations

{violations}

## What was not checked, and why

<details data-search-exclude markdown="1"><summary>Every reason</summary>

{rest}

</details>

{made}
"""


def page(report: Report, sizes: Mapping[str, tuple[int, int]], findings: Path) -> str:
    """The whole page. ``sizes``: entries of an event and parameters of each model; ``findings``:
    the file of known causes.
    """
    groups = report.by_target()
    table = [
        "| model | features | parameters | seconds | peak | judged | verdicts |",
        "|---|--:|--:|--:|--:|--:|---|",
        *(_row(report, name, verdicts, sizes) for name, verdicts in groups.items()),
    ]
    return TEXT.format(
        memory="4 GiB",
        summary=_summary(report),
        table="\n".join(table),
        sources="\n".join(_sources(groups)),
        violations="\n".join(_violations(report, findings)),
        rest="\n".join(_rest(groups)),
        made=_made(report),
    )


def _row(
    report: Report, name: str, verdicts: Sequence[Verdict], sizes: Mapping[str, tuple[int, int]]
) -> str:
    features, parameters = sizes[name]
    judged, about = put_to_the_test(verdicts)
    expense = report.expenses.get(name)
    seconds = f"{expense.seconds:.0f}" if expense else ""
    peak = f"{expense.peak / 2**20:,.0f} MiB" if expense else ""
    shown = f"| {code(name)} | {features:,} | {parameters:,} | {seconds} | {peak} "
    return f"{shown}| {judged} of {about} | {escaped(tally(verdicts))} |"


def _summary(report: Report) -> str:
    """How many models, and how much of what applies was judged in them."""
    groups, shares = report.by_target(), {}
    for name, verdicts in groups.items():
        judged, about = put_to_the_test(verdicts)
        shares[name] = judged / max(about, 1)
    least = min(shares, key=lambda name: shares[name])
    violated = sum(one.status is Status.VIOLATED for group in groups.values() for one in group)
    every = len(registry.expand("published"))
    text = (
        f"**{len(groups)} of {every} models so far; of the laws that apply "
        f"{100 * shares[least]:.0f} % or more are judged in each** (least in {code(least)}), and "
        f"{violated or 'none'} {'is' if violated == 1 else 'are'} violated."
    )
    if old := changed(report):
        counts = sorted({len(laws) for laws in old.values()})
        few = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        text += f" In {len(old)} of them {few} of the laws are new or have changed since they were judged."
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _sources(groups: Mapping[str, Sequence[Verdict]]) -> Iterator[str]:
    """Where the sizes were published, with the models of each."""
    models: dict[str, list[str]] = {}
    for name in groups:
        source = registry.find_component(registry.parse_target(name)).source
        models.setdefault(source, []).append(name)
    for source, names in models.items():
        yield f"- {escaped(source)}: {', '.join(map(code, names))}"


def _violations(report: Report, findings: Path) -> Iterator[str]:
    """The violations, each with the cause that explains it, and the broken pairs."""
    joined = join(report, read(findings))
    causes: dict[tuple[str, str], list[str]] = {}
    titles = {finding.id: finding for finding in read(findings)}
    for name, explained in joined.explained.items():
        for verdict in explained:
            finding = titles[name]
            script = f" ([script]({finding.script}))" if finding.script else ""
            causes.setdefault((verdict.target, verdict.law), []).append(
                f"{finding.kind}: {escaped(finding.title)}{script}"
            )
    if not report.violations:
        yield "None."
        return
    yield "| model | law | seen | cause |"
    yield "|---|---|---|---|"
    for verdict in report.violations:
        why = "; ".join(causes.get((verdict.target, verdict.law), ["**unexplained**"]))
        seen = escaped(evidence_text(verdict))
        yield f"| {code(verdict.target)} | {code(verdict.law)} | {seen} | {why} |"


def _rest(groups: Mapping[str, Sequence[Verdict]]) -> Iterator[str]:
    """The laws that were not judged, by reason; a reason that several models share stands once."""
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for name, verdicts in groups.items():
        for verdict in verdicts:
            if concerns(verdict) and verdict.status not in DECIDED:
                key = str(verdict.status), clean(verdict.reason) or "no reason given"
                found.setdefault(key, {}).setdefault(name, []).append(verdict.law)
    if not found:
        yield "Everything was judged."
        return
    yield "| | reason | models | laws |"
    yield "|---|---|---|---|"
    for (status, reason), models in sorted(found.items(), key=lambda item: -_pairs(item[1])):
        laws = sorted({law for names in models.values() for law in names})
        yield (
            f"| {status.lower().replace('_', ' ')} | {escaped(reason)} | {_listed(list(models))} "
            f"| {_listed(laws)} |"
        )


def _pairs(models: Mapping[str, Sequence[str]]) -> int:
    return sum(map(len, models.values()))


def _listed(names: Sequence[str], most: int = 4) -> str:
    """Names, the first few of many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(code, names[:most])) + more


def _made(report: Report) -> str:
    """Versions and circumstances."""
    environment = report.environment
    versions = ", ".join(
        f"{escaped(name)} {escaped(value)}" for name, value in environment.versions
    )
    return textwrap.fill(
        f"flowref {environment.flowref}, profile {environment.profile}, Python "
        f"{environment.python} on {environment.platform}; {versions}.",
        100,
        break_long_words=False,
        break_on_hyphens=False,
    )
