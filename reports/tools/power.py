"""Write `reports/power.md` and its pictures: what is planted and caught, how small it may be, and how
rarely correct code is accused.

Usage: `python reports/tools/power.py`. It reads `reports/power/{kills,sizes}.json` and `soak.jsonl`,
which these commands write (half an hour with two processors, a quarter, and as long as one likes):

    flowref selftest --quick --kills reports/power/kills.json
    flowref selftest --sizes reports/power/sizes.jsonl
    flowref selftest --quick --soak reports/power/soak.jsonl --points 10000000

Exit code: 0, or 2 where the first of the files is missing; what the others tell is left out where
they are.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flowref import registry
from flowref.auditing.power import sizes as thresholds
from flowref.auditing.power import soak
from power_page import circumstances, pictures, tables

REPORTS = Path(__file__).parents[1]
FOLDER, PAGE = "power", "power.md"

PAGE_TEXT = """# How much flowref sees

A test suite is as good as what it catches, and as what it leaves alone. Both are measured here.
Bugs are planted in correct code: {mutants} *mutants*, each written for one law and put into a
library's or the reference's component, and {specimens} *specimens*, bugs in flows written as
users write them. Each is audited under every law, like a stranger's code, in the
{profile} profile.
`python reports/tools/power.py` writes this page; its first lines name the commands that measure
its numbers.

**{caught} of {planted} planted bugs are caught by a law that is meant to catch them.**{since}
{soak}

## The kill matrix

One column per planted bug, one row per law that catches any, grouped by family. A law catches a bug
if it is violated, or if its advice is not followed. Marks off the diagonal are the other symptoms of
a bug.

![The kill matrix: laws by planted defects](power/kills.svg)

{escaped}

## What each law catches

*Alone*: bugs that no other law catches. *Seconds*: of all its pairs in this run, on one core; ratios
are meaningful, seconds depend on the machine.

<details data-search-exclude markdown="1"><summary>Every law</summary>

{laws}

</details>

## Which cases are visited

{cases}

## How small a bug may be

{sizes}

## The soak

Correct subjects (constructions that adapters vouch for, the reference, the correct twins of the zoo)
under every law, with one root seed after another. No report in n checked pairs bounds the rate of
false reports by 3/n with 95 % confidence. Rounds share most of their code, so the bound is about other
draws, and not about other code.

{rounds}
"""

CASES_TEXT = """A statement is measured in its usual case, beside it in those of its own, and in circumstances that any statement
may have: {circumstances}. Which it leaves out, and why:

<details data-search-exclude markdown="1"><summary>Every statement</summary>

{{cases}}

</details>""".format(circumstances=", ".join(circumstances.EVERY))
SIZES_TEXT = """A mutant with a size is planted smaller and smaller, by factors of the square root of ten, until its
law misses it. The size is whatever the mutant multiplies or adds; most are relative to the number
that they change. A statistical law must catch it under every one of {seeds} root seeds, so that the size shown is
a bias that it sees with high probability.

![The smallest size of each mutant that its law still catches](power/sizes.svg)

<details data-search-exclude markdown="1"><summary>Every mutant</summary>

{sizes}

</details>"""
NO_SIZES = "Not measured yet: the second of the commands measures it."


def main() -> int:
    """Write the page."""
    folder = REPORTS / FOLDER
    try:
        kills = json.loads((folder / "kills.json").read_text(encoding="utf-8"))
    except OSError as error:
        print(f"{error.filename} is missing; {sys.argv[0]} says how to make it", file=sys.stderr)
        return 2
    sizes = [asdict(one) for one in thresholds.read_thresholds(folder / "sizes.jsonl")]
    rounds = soak.Soak(soak.read_rounds(folder / "soak.jsonl"))
    pictures.kills(folder / "kills.svg", kills)
    if sizes:
        pictures.sizes(folder / "sizes.svg", sizes)
    (REPORTS / PAGE).write_text(page(kills, sizes, rounds), encoding="utf-8")
    return 0


def page(kills: dict[str, Any], sizes: list[dict[str, Any]], rounds: soak.Soak) -> str:
    """The page from what was measured."""
    defects = kills["defects"]
    return PAGE_TEXT.format(
        mutants=sum(defect["kind"] == "mutant" for defect in defects),
        specimens=sum(defect["kind"] == "specimen" for defect in defects),
        planted=len(defects),
        since=since({defect["spec"] for defect in defects}),
        profile=kills["profile"],
        caught=sum(tables.caught(defect) for defect in defects),
        soak=tables.silence(rounds),
        escaped=tables.escaped(defects),
        laws=tables.laws(kills["laws"]),
        cases=CASES_TEXT.format(cases=circumstances.table(registry.laws())),
        sizes=SIZES_TEXT.format(seeds=max(one["seeds"] for one in sizes), sizes=tables.sizes(sizes))
        if sizes
        else NO_SIZES,
        rounds=tables.rounds(rounds),
    )


def since(measured: set[str]) -> str:
    """How many defects were planted after the matrix was measured; empty where there are none."""
    from flowref.auditing.power.damage import damages

    later = sum(damage.spec not in measured for damage in damages())
    if not later:
        return ""
    return (
        f" {later} more were planted since this matrix was measured. They are not in it yet; "
        "`flowref selftest` and the properties hold each to its own law."
    )


if __name__ == "__main__":
    sys.exit(main())
