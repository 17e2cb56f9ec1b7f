"""Findings: an audit joined to what is known of the causes of its violations.

    python -m flowref.reporting.findings reports/audit.json reports/findings.toml --page
    reports/findings.md

A finding is one cause, with the targets and laws it shows in, a class and a stand-alone script. A
violation that no finding explains, and a finding that explains nothing, are both errors: the page
never says less or more than the audit.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flowref.model import ReportError, Status, Verdict
from flowref.reporting.markup import code, escaped
from flowref.reporting.report import Report
from flowref.reporting.words import again, circumstances, inputs, measured

# Where the report of the page lies in this repository.
PUBLISHED = "reports/audit.json"
CLASSES = ("confirmed", "declared convention", "undecided")


@dataclass(frozen=True)
class Finding:
    """One cause. ``targets`` and ``laws`` are globs in which [ stands for itself; ``script`` is a
    path beside the file.
    """

    id: str
    title: str
    kind: str
    library: str
    targets: tuple[str, ...]
    laws: tuple[str, ...]
    cause: str
    documentation: str
    script: str = ""

    def explains(self, verdict: Verdict) -> bool:
        """Whether a violation is one of this cause's."""
        return _matches(verdict.target, self.targets) and _matches(verdict.law, self.laws)


def _matches(text: str, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(text, glob.replace("[", "[[]")) for glob in globs)


def read(path: Path) -> tuple[Finding, ...]:
    """The findings of a file; `ReportError` names the entry that is incomplete."""
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8")).get("finding", [])
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ReportError(f"{path} cannot be read as findings: {error}") from error
    found = []
    for row in rows:
        name = row.get("id", "?")
        missing = [
            key
            for key in (
                "id",
                "title",
                "class",
                "library",
                "targets",
                "laws",
                "cause",
                "documentation",
            )
            if key not in row
        ]
        if missing:
            raise ReportError(f"the finding {name!r} in {path} lacks {', '.join(missing)}")
        if row["class"] not in CLASSES:
            raise ReportError(
                f"the finding {name!r} has class {row['class']!r}; expected one of "
                f"{', '.join(CLASSES)}"
            )
        script = row.get("script", "")
        if row["class"] == "confirmed" and not script:
            raise ReportError(
                f"the finding {name!r} is confirmed but names no script; only what a script "
                "showed is confirmed"
            )
        if script and not (path.parent / script).is_file():
            raise ReportError(
                f"the finding {name!r} names the script {script}, which is not beside {path}"
            )
        found.append(
            Finding(
                name, row["title"], row["class"], row["library"], tuple(row["targets"]), tuple(row["laws"]),
                row["cause"], row["documentation"], script,
            )
        )  # fmt: skip
    return tuple(found)


def join(
    report: Report, findings: Sequence[Finding]
) -> tuple[dict[str, list[Verdict]], list[Verdict], list[Finding]]:
    """Violations by finding, violations that nothing explains, and findings that explain nothing."""
    violations = [verdict for verdict in report.verdicts if verdict.status is Status.VIOLATED]
    explained: dict[str, list[Verdict]] = {finding.id: [] for finding in findings}
    unexplained = []
    for verdict in violations:
        owners = [finding for finding in findings if finding.explains(verdict)]
        for owner in owners:
            explained[owner.id].append(verdict)
        if not owners:
            unexplained.append(verdict)
    return explained, unexplained, [finding for finding in findings if not explained[finding.id]]


def page(report: Report, findings: Sequence[Finding], explained: dict[str, list[Verdict]]) -> str:
    """The page for people: confirmed findings with their scripts, the others counted, and how it
    was made.
    """
    place = report.environment
    counts = {
        status: sum(verdict.status is status for verdict in report.verdicts) for status in Status
    }
    kinds = {kind: [finding for finding in findings if finding.kind == kind] for kind in CLASSES}
    lines = [
        "# What the audit of eight flow libraries found",
        "",
        f"{len(report.targets)} constructions of the libraries and of `flowref.reference` x "
        f"{len(report.laws)} laws, "
        f"{len(report.verdicts)} pairs: "
        + ", ".join(
            f"{counts[status]} {status.value.lower().replace('_', ' ')}"
            for status in Status
            if counts[status]
        )
        + ".",
        "",
        f"The violations have {len(findings)} causes: "
        + ", ".join(f"{len(kinds[kind])} {kind}" for kind in CLASSES)
        + ". A cause is confirmed when its stand-alone script, which needs only the library, has been run and read, and the "
        "library's documentation declares no such convention.",
        "",
        "Versions: "
        + ", ".join(f"{name} {version}" for name, version in place.versions)
        + f"; Python {place.python}.",
        "",
        "## Confirmed",
        "",
    ]
    for finding in kinds["confirmed"]:
        lines += _section(finding, explained[finding.id])
    for kind in CLASSES[1:]:
        lines += [
            f"## {kind.capitalize()}",
            "",
            "| cause | library | violations | why it is not counted as confirmed |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {escaped(finding.title)} | {finding.library} | {len(explained[finding.id])} | "
            f"{escaped(finding.documentation)} |"
            for finding in kinds[kind]
        ]
        lines.append("")
    lines += _undecided(report)
    lines += [
        "## How this was made",
        "",
        f"`tox -e audit-all` runs {code(place.command or 'flowref audit')} (profile "
        f"{place.profile}, seed {place.seed}, "
        f"flowref {place.flowref}), writes `audit.json` and `audit.md`, and joins them to "
        "`findings.toml`, one entry per cause. "
        "It fails on a violation that no entry explains and on an entry that explains none. "
        "`flowref replay --all "
        f"{PUBLISHED}` measures every counterexample again without searching.",
        "",
    ]
    return "\n".join(lines)


def _section(finding: Finding, verdicts: Sequence[Verdict]) -> list[str]:
    lines = [
        f"### {escaped(finding.title)}",
        "",
        f"Library: {finding.library}. {escaped(finding.cause)}",
        "",
    ]
    lines += [f"Documentation: {escaped(finding.documentation)}", ""]
    lines += [f"Script: [`{finding.script}`]({finding.script})", ""]
    best = max(
        verdicts,
        key=lambda verdict: (
            verdict.law.startswith(("bijection", "density")),
            verdict.counterexample is not None,
        ),
    )
    lines += [
        "For example:",
        "",
        f"- {code(best.target)} violates {code(best.law)}: {escaped(measured(best))}",
    ]
    if best.counterexample is not None:
        lines.append(
            f"- at {code(inputs(best.counterexample))}, "
            f"{escaped(circumstances(best.counterexample, best.part))}"
        )
    lines += [f"- {code(line)}" for line in again(best, "--report", PUBLISHED)[:1]]
    shown: dict[str, list[str]] = {}
    for verdict in verdicts:
        shown.setdefault(verdict.target, []).append(verdict.law)
    lines += [
        "",
        f"<details><summary>{len(verdicts)} violations in {len(shown)} constructions</summary>",
        "",
    ]
    lines += [
        f"- {code(target)}: {', '.join(code(law) for law in laws)}"
        for target, laws in sorted(shown.items())
    ]
    return [*lines, "", "</details>", ""]


def _undecided(report: Report) -> list[str]:
    broken = [
        v
        for v in report.verdicts
        if v.status in (Status.ERROR, Status.CRASHED, Status.TIMEOUT, Status.NOT_RUN)
    ]
    unsure = [v for v in report.verdicts if v.status is Status.INCONCLUSIVE]
    points = sum(v.counts.undecided for v in report.verdicts)
    decided = sum(v.counts.held for v in report.verdicts)
    lines = [
        "## What was not decided",
        "",
        f"{len(unsure)} pairs are inconclusive as a whole; of the points measured in all pairs "
        f"{points} of "
        f"{points + decided} could not be decided. Reasons for each are in `audit.md`.",
        "",
    ]
    if broken:
        lines += ["| construction | law | outcome | reason |", "|---|---|---|---|"]
        lines += [
            f"| {code(v.target)} | {code(v.law)} | {v.status.value} | {escaped(v.reason[:160])} |"
            for v in broken
        ]
        lines.append("")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Join, write the page, and fail on what is unexplained or stale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("report", type=Path, help="the JSON of an audit")
    parser.add_argument("findings", type=Path, help="the TOML of known causes")
    parser.add_argument("--page", type=Path, help="write the page for people here")
    parser.add_argument(
        "--partial",
        action="store_true",
        help="the audit covers only some targets: idle findings are no error",
    )
    given = parser.parse_args(arguments)
    try:
        report = Report.from_json(given.report.read_text(encoding="utf-8"))
        findings = read(given.findings)
    except (OSError, ReportError) as error:
        print(f"flowref: {error}", file=sys.stderr)
        return 2
    explained, unexplained, idle = join(report, findings)
    if given.page is not None:
        live = [finding for finding in findings if explained[finding.id]]
        given.page.write_text(page(report, live, explained), encoding="utf-8")
    for verdict in unexplained:
        print(f"no finding explains: {verdict.target} violates {verdict.law}: {measured(verdict)}")
    if not given.partial:
        for finding in idle:
            print(
                f"the finding {finding.id!r} explains no violation of this audit: it is fixed, or "
                "its globs are wrong"
            )
    broken = [verdict for verdict in report.verdicts if verdict.status is Status.CRASHED]
    for verdict in broken:
        print(f"crashed: {verdict.target} in {verdict.law}: {verdict.reason}")
    for problem in report.problems:
        print(f"could not be audited: {problem.spec}: {problem.message}")
    sound = report.complete and not broken and not report.problems
    total = sum(len(found) for found in explained.values())
    print(
        f"{len(findings) - len(idle)} findings explain {total} violations; {len(unexplained)} "
        "violations are unexplained"
    )
    return 1 if unexplained or not sound or (idle and not given.partial) else 0


if __name__ == "__main__":
    raise SystemExit(main())
