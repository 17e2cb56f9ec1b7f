"""Write `properties/rows.json`: of each test that takes long, how many rows are run by default; those
after them are `deep`.

Usage: `pytest -n logical --dist worksteal --all-rows --junitxml FILE` in each environment, then
`python reports/tools/durations.py FILE...`. A test keeps its first row, and as many more as take
`BUDGET` seconds together; a file keeps its quickest tests, as many as take `OF_FILE` seconds
together. Exit code: 0.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from xml.etree import ElementTree

TABLE = Path(__file__).parents[2] / "properties" / "rows.json"
BUDGET, OF_FILE = 1.5, 6.0
# Budgets of a test in files where each row is about another law, or another family: what they show is
# not shown by the first.
BUDGETS = {
    "adapters/test_conventions.py": 2.0,
    "laws/test_catalogue.py": 15.0,
    "laws/test_catalogue.py::test_a_mutant_is_caught": 300.0,
    "reference/test_conformance.py": 30.0,
    "test_claims.py": 8.0,
    "diagnosing/test_known_bugs.py": 15.0,
    "zoo/test_seed_flows.py": 8.0,
    # Their rows are chosen by framework.
    "tutorial/test_tutorial.py": math.inf,
    "reports/test_proofs.py": math.inf,
}


def durations(files: Sequence[Path]) -> dict[str, list[float]]:
    """The processor seconds of the rows of each test that were not skipped, from files that pytest wrote."""
    rows = defaultdict(list)
    for case in (case for file in files for case in ElementTree.parse(file).iter("testcase")):
        module = case.get("classname", "").removeprefix("properties.").replace(".", "/")
        test = case.get("name", "").partition("[")[0]
        if case.find("skipped") is None:
            spent = case.find("properties/property[@name='processor']")
            seconds = case.get("time", "0") if spent is None else spent.get("value", "0")
            rows[f"{module}.py::{test}"].append(float(seconds))
    return dict(rows)


def kept(seconds: Sequence[float], budget: float) -> int:
    """How many rows are run within a budget, at what they take on average; one at least."""
    mean = sum(seconds) / len(seconds)
    return max(1, math.floor(min(len(seconds), budget / max(mean, 1e-9))))


def table(rows: Mapping[str, Sequence[float]]) -> dict[str, int]:
    """The tests of which some rows are not run by default, with the number of those that are."""
    found, costs = {}, defaultdict(list)
    for test, seconds in rows.items():
        file = test.partition("::")[0]
        found[test] = kept(seconds, BUDGETS.get(test, BUDGETS.get(file, BUDGET)))
        costs[file].append((found[test] * sum(seconds) / len(seconds), test))
    for file, tests in costs.items():
        until = list(accumulate(cost for cost, _ in sorted(tests)))
        for (_, test), spent in list(zip(sorted(tests), until, strict=True))[1:]:
            if file not in BUDGETS and spent > OF_FILE:
                found[test] = 0
    return {test: found[test] for test in sorted(rows) if found[test] < len(rows[test])}


def main(arguments: Sequence[str]) -> int:
    """The command."""
    rows = durations([Path(file) for file in arguments])
    found = table(rows)
    TABLE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    spent = sum(sum(one) * found.get(test, len(one)) / len(one) for test, one in rows.items())
    whole = sum(map(sum, rows.values()))
    print(f"{len(found)} tests keep some of their rows: {spent:.0f} of {whole:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
