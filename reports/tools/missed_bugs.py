"""Write `reports/missed-bugs.json` and `reports/missed-bugs.md`: reasons why laws give no verdict, by the mutants missed.

Usage: `python reports/tools/missed_bugs.py [LAW-GLOB ...] [--each N] [--kills FILE]`. Every mutant of the
laws named (all by default) is put into N further hosts (3 by default), healthy twins of the zoo that
take it, under its own law. What was measured is kept in `.flowref/miss_reasons.jsonl`, so that an
interrupted run goes on. Of the kill matrix, which `flowref selftest --kills FILE` writes, the reasons
are counted for which planted defects stayed uncaught.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from flowref.auditing.power import miss_reasons
from flowref.auditing.power.kills import Kill
from flowref.checking import Settings
from flowref.reporting.markup import code, escaped

REPORTS = Path(__file__).parents[1]
JOURNAL = Path(".flowref") / "miss_reasons.jsonl"
SHOWN = 3
# Kinds of reasons, as the page has them.
KINDS = {"waits": "not tested"}
PAGE = """# Why planted bugs are missed

A law gives no verdict if something is missing or unknown, if a promise exempts the flow, or if nothing can be
decided. This page counts the bugs that each reason lets through: {mutants} mutants were planted into further
correct code in the style of users, and audited under the law that is meant to catch them. Of {tried} mutants
in such hosts {told} were caught. The others were missed for these reasons; *planted* counts bugs of the kill
matrix that no law meant for them caught. *held* means that the mutant makes no difference in that host, or
too small a one.

`python reports/tools/missed_bugs.py` writes this page.

## Where the law could have caught the mutant

| reason | kind | mutants | planted | laws | for example |
|---|---|---:|---:|---|---|
{near}

## Where the law does not apply to the host

| reason | mutants | planted | laws | for example |
|---|---:|---:|---|---|
{elsewhere}
"""


def main(arguments: Sequence[str]) -> int:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("laws", nargs="*")
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--kills", type=Path, default=REPORTS / "power" / "kills.json")
    parser.add_argument("--out", type=Path, default=REPORTS)
    chosen = parser.parse_args(arguments)
    mutants = miss_reasons.mutants_of(chosen.laws)
    hosts = miss_reasons.healthy_hosts()
    found = []
    for one in miss_reasons.transplants(mutants, hosts, chosen.each, JOURNAL, Settings()):
        found.append(one)
        if one.outcome not in (miss_reasons.REPORTED, miss_reasons.MISFIT):
            print(f"{one.outcome}  {one.mutant} in {one.host}: {one.reason}", file=sys.stderr)
    rows = miss_reasons.miss_reasons(found, kills_of(chosen.kills))
    data = miss_reasons.miss_reasons_to_json(rows, found)
    (chosen.out / "missed-bugs.json").write_text(
        json.dumps(data, indent=1) + "\n", encoding="utf-8"
    )
    (chosen.out / "missed-bugs.md").write_text(page(rows, found), encoding="utf-8")
    return 0


def kills_of(path: Path) -> list[Kill]:
    """What the kill matrix has, where it was measured."""
    if not path.is_file():
        return []
    rows = json.loads(path.read_text(encoding="utf-8"))["defects"]
    return [
        Kill(**{**row, "laws": tuple(row["laws"]), "killers": tuple(row["killers"])})
        for row in rows
    ]


def page(rows: Sequence[miss_reasons.MissReason], found: Sequence[miss_reasons.Transplant]) -> str:
    """The table as Markdown."""
    tried = [
        one for one in found if one.outcome not in (miss_reasons.MISFIT, miss_reasons.ELSEWHERE)
    ]
    told = sum(one.outcome == miss_reasons.REPORTED for one in tried)
    return PAGE.format(
        mutants=len({one.mutant for one in found}),
        tried=len(tried),
        told=told,
        near="\n".join(line(row) for row in rows if row.kind != miss_reasons.ELSEWHERE),
        elsewhere="\n".join(line(row) for row in rows if row.kind == miss_reasons.ELSEWHERE),
    )


def line(row: miss_reasons.MissReason) -> str:
    """One row of the table."""
    laws = ", ".join(map(code, row.laws[:SHOWN]))
    more = f" and {len(row.laws) - SHOWN} more" if len(row.laws) > SHOWN else ""
    example = code((*row.planted, *row.mutants)[0])
    counts = f"{len(row.mutants) or ''} | {len(row.planted) or ''}"
    kind = "" if row.kind == miss_reasons.ELSEWHERE else f" {KINDS.get(row.kind, row.kind)} |"
    return f"| {escaped(row.reason)} |{kind} {counts} | {laws}{more} | {example} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
