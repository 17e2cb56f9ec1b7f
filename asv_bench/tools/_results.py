"""Result files: reading them without asv, and joining what was measured of one commit at different
times.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _running import RESULTS, plain

PYTHON = "3.11"
# What was measured of a commit: all, or what is worth a history. A selector of the dashboard, whose
# curves are means over all parameters that a commit has: where more sizes come in, they would seem
# to jump.
GRIDS = ("history", "full")
SELECTORS = ("machine", "os", "arch", "cpu", "num_cpu", "ram", "gpu", "torch")


@dataclass(frozen=True)
class Value:
    """One number: of a benchmark and its parameters, with quartiles where it has samples."""

    benchmark: str
    params: tuple[str, ...]
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Recorded:
    """What was recorded of one commit on one machine, with the build of torch, if it was there;
    ``date`` in milliseconds.
    """

    machine: str
    grid: str
    commit: str
    date: int
    torch: str
    values: tuple[Value, ...]

    def find(self, benchmark: str, *params: str) -> Value | None:
        """The number of a benchmark at these parameters."""
        return next(
            (v for v in self.values if v.benchmark == benchmark and v.params == params), None
        )


def rows(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The columns of each benchmark by name; trailing ones may be left out of the file."""
    columns = document["result_columns"]
    return {
        name: dict(itertools.zip_longest(columns, row))
        for name, row in document["results"].items()
        if row is not None
    }


def values(document: dict[str, Any]) -> Iterator[Value]:
    """All numbers of a result file that are there."""
    for name, row in rows(document).items():
        grid = list(itertools.product(*(row["params"] or [])))
        for index, number in enumerate(row["result"] or []):
            if number is None or not math.isfinite(number):
                continue
            low, high = (
                quartile(row.get(key), index, number) for key in ("stats_q_25", "stats_q_75")
            )
            yield Value(name, tuple(map(plain, grid[index])), number, low, high)


def quartile(column: list[float | None] | None, index: int, number: float) -> float:
    """A quartile, or the number itself where there is none."""
    found = column[index] if column else None
    return number if found is None else found


def recorded(folder: Path = RESULTS) -> list[Recorded]:
    """All results, the oldest commit first."""
    found = []
    for path in sorted(folder.glob("*/*.json")):
        if path.name == "machine.json":
            continue
        document = json.loads(path.read_text())
        found.append(
            Recorded(
                machine=document["params"]["machine"],
                grid=document["params"]["grid"],
                commit=document["commit_hash"],
                date=document["date"],
                torch=document["requirements"]["torch"],
                values=tuple(values(document)),
            )
        )
    return sorted(found, key=lambda one: one.date)


def joined(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The newer results, and the older ones of what was not measured again: there the newer file
    has NaN.
    """
    result = {
        **new,
        "results": {**old["results"], **new["results"]},
        "durations": {**old["durations"], **new["durations"]},
        "requirements": {
            name: new["requirements"][name] or build for name, build in old["requirements"].items()
        },
    }
    before, after = rows(old), rows(new)
    for name in before.keys() & after.keys():
        one, two = before[name], after[name]
        if (
            one["version"] != two["version"]
            or one["params"] != two["params"]
            or two["result"] is None
        ):
            continue
        kept = [number is not None and math.isnan(number) for number in two["result"]]
        for column in new["result_columns"]:
            if column in ("result", "samples") or column.startswith("stats_"):
                size = len(kept)
                first, second = one.get(column) or [None] * size, two.get(column) or [None] * size
                mixed = [a if keep else b for keep, a, b in zip(kept, first, second, strict=True)]
                two[column] = mixed if any(value is not None for value in mixed) else None
        result["results"][name] = [two.get(column) for column in new["result_columns"]]
    return result


def keep(path: Path, folder: Path = RESULTS, grid: str = "full") -> Path:
    """Join one result file of asv into the results: one file per machine, commit and grid, whatever
    the interpreter's path is.
    """
    document = json.loads(path.read_text())
    document["env_name"], document["python"] = grid, PYTHON
    # Every parameter is a selector of the dashboard; the versions of peers are those of
    # constraints.txt.
    selected = {name: value for name, value in document["params"].items() if name in SELECTORS}
    document["params"] = {**selected, "python": PYTHON, "grid": grid}
    build = document["requirements"].get("torch") or selected.get("torch", "")
    document["requirements"] = {"torch": build}
    target: Path = (
        folder / document["params"]["machine"] / f"{document['commit_hash'][:8]}-{grid}.json"
    )
    if target.is_file():
        document = joined(json.loads(target.read_text()), document)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(written(document))
    return target


def written(document: dict[str, Any]) -> str:
    """One line per benchmark, so that differences can be read; numbers to six digits, as more say
    nothing.
    """
    parts = [
        f"{json.dumps(key)}: {json.dumps(value)}"
        for key, value in document.items()
        if key != "results"
    ]
    lines = [
        f"  {json.dumps(name)}: {json.dumps(rounded(row))}"
        for name, row in sorted(document["results"].items())
    ]
    return "{" + ",\n".join([*parts, '"results": {\n' + ",\n".join(lines) + "\n}"]) + "\n}\n"


def rounded(value: Any) -> Any:
    """Floats to six digits, at any depth."""
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) and math.isfinite(value) else value
