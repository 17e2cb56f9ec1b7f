"""Take what `collect.py` measured elsewhere into the results: `python asv_bench/tools/ingest.py
raw.json --commit HASH`.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import math
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from _results import keep
from _running import RESULTS, full_hash, git, machine

# What is kept of a benchmark, besides its code.
DESCRIBED = ("name", "version", "params", "param_names", "unit", "type")


def grouped(results: list[dict[str, Any]]) -> dict[str, dict[int, dict[str, Any]]]:
    """What was measured, by benchmark and by the index of its parameters."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for one in results:
        found.setdefault(one["name"], {})[one["index"]] = one
    return found


def ingest(document: dict[str, Any], commit: str, folder: Path = RESULTS) -> Path:
    """The path of the result file that now holds them."""
    from asv.results import Results
    from asv.runner import BenchmarkResult

    params = {
        **machine(),
        **document["machine"],
        "cpu": "host of a GPU" if document["machine"]["gpu"] != "none" else "any",
    }
    known = RESULTS / params["machine"] / "machine.json"
    if known.is_file():  # a machine that is known is what it is said to be
        params |= {key: one for key, one in json.loads(known.read_text()).items() if key in params}
    date = 1000 * int(git("log", "-1", "--format=%ct", commit))
    versions = document["versions"]
    requirements = {"torch": versions["torch"], "numpy": versions["numpy"]}
    # The dashboard selects by the version of torch, whatever its build.
    selected = {**requirements, "torch": versions["torch"].partition("+")[0]}
    everything = {**params, **selected, "python": document["python"]}
    results = Results(everything, requirements, commit, date, document["python"], "collected", {})
    for name, measured in grouped(document["results"]).items():
        first = next(iter(measured.values()))
        count = math.prod(len(values) for values in first["params"])
        rows = [measured.get(index, {"value": math.nan}) for index in range(count)]
        outcome = BenchmarkResult(
            result=[True if "samples" in row else row["value"] for row in rows],
            samples=[row.get("samples") for row in rows],
            number=[row.get("number") for row in rows],
            errcode=0,
            stderr="",
            profile=None,
        )
        started = min((row["started_at"] for row in rows if "started_at" in row), default=0)
        when = datetime.datetime.fromtimestamp(started, datetime.UTC)
        benchmark = {"name": name, "version": first["version"], "params": first["params"]}
        results.add_result(
            benchmark,
            outcome,
            started_at=when,
            duration=sum(row.get("seconds", 0.0) for row in rows),
        )
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / params["machine"]).mkdir()
        results.save(name)
        (path,) = itertools.islice((Path(name) / params["machine"]).glob("*.json"), 1)
        kept = keep(path, folder)
    (kept.parent / "machine.json").write_text(json.dumps({**params, "version": 1}, indent=4) + "\n")
    if folder != RESULTS and (RESULTS / "benchmarks.json").is_file():
        shutil.copyfile(RESULTS / "benchmarks.json", folder / "benchmarks.json")
    describe(document["results"], folder / "benchmarks.json")
    return kept


def describe(results: list[dict[str, Any]], path: Path) -> None:
    """Add to what asv knows of benchmarks those that it never ran itself: pages show no others."""
    described: dict[str, Any] = {"version": 2}
    if path.is_file():
        described |= json.loads(path.read_text())
    for one in results:
        entry = {key: one[key] for key in DESCRIBED}
        described[one["name"]] = {"code": "", **described.get(one["name"], {}), **entry}
    path.write_text(json.dumps(described, indent=4, sort_keys=True) + "\n")


def main() -> int:
    """Ingest."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("raw", type=Path)
    parser.add_argument(
        "--commit", help="the commit that was measured, if the file does not name it"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    document = json.loads(options.raw.read_text())
    commit = options.commit or document["commit"]
    if not commit:
        parser.error(f"{options.raw} does not say which commit was measured; pass --commit")
    print(ingest(document, full_hash(commit), options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
