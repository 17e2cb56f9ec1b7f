"""Write `properties/rows.json`: of each test whose rows take long, how many are run by default; those
after them are `deep`.

Usage: `pytest -n logical --dist worksteal --all-rows --junitxml FILE`, then
`python reports/tools/durations.py FILE`. A test keeps its first row, and the next ones until they have taken
`BUDGET` seconds in that run. Exit code: 0.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

TABLE = Path(__file__).parents[2] / "properties" / "rows.json"
BUDGET = 3.0
# Where each row is about another law, or another family: what they show is not shown by the first.
BUDGETS = {
    "laws/test_catalogue.py": 240.0,
    "reference/test_conformance.py": 120.0,
    "test_claims.py": 30.0,
    "diagnosing/test_slips.py": 30.0,
    "zoo/test_seed_flows.py": 30.0,
}


def durations(file: Path) -> dict[str, list[float]]:
    """The seconds of the rows of each test, in their order, from a file that pytest wrote."""
    rows = defaultdict(list)
    for case in ElementTree.parse(file).iter("testcase"):
        module = case.get("classname", "").removeprefix("properties.").replace(".", "/")
        test = case.get("name", "").partition("[")[0]
        rows[f"{module}.py::{test}"].append(float(case.get("time", "0")))
    return dict(rows)


def kept(seconds: Sequence[float], budget: float) -> int:
    """How many rows are run within a budget: one at least, and none after the first that exceeds it."""
    spent, number = seconds[0], 1
    for one in seconds[1:]:
        spent += one
        if spent > budget:
            break
        number += 1
    return number


def table(rows: Mapping[str, Sequence[float]]) -> dict[str, int]:
    """The tests of which some rows are not run by default, with the number of those that are."""
    found = {}
    for test, seconds in sorted(rows.items()):
        number = kept(seconds, BUDGETS.get(test.partition("::")[0], BUDGET))
        if number < len(seconds):
            found[test] = number
    return found


def main(arguments: Sequence[str]) -> int:
    """The command."""
    (file,) = map(Path, arguments)
    rows = durations(file)
    found = table(rows)
    TABLE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    spent = sum(sum(seconds[: found.get(test, len(seconds))]) for test, seconds in rows.items())
    whole = sum(map(sum, rows.values()))
    print(f"{len(found)} tests keep some of their rows: {spent:.0f} of {whole:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
