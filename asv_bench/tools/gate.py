"""Compare the deterministic counts with those that are committed: `python asv_bench/tools/gate.py
[--write]`.

Exits with 1 if a count has grown, or if one is missing. Counts that fell are named, to be written
with --write. They depend on the version of torch, which the file names; under another version
nothing is compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
COUNTS = BENCH / "counts.json"
sys.path.insert(0, str(BENCH))


def counted() -> dict[str, int]:
    """The counts of the reference, by name."""
    from benchmarks import memory

    found = {}
    for kind in (memory.BatchNormCounts, memory.CouplingCounts, memory.TrainingCounts):
        counts: Any = kind()
        for name in sorted(name for name in dir(kind) if name.startswith("track_")):
            for size in memory.SIZES:
                found[f"{kind.__name__}.{name[6:]} {size}"] = getattr(counts, name)(
                    "flowref", size, "cpu"
                )
    return found


def compared(now: dict[str, int], before: dict[str, int]) -> tuple[list[str], list[str]]:
    """What has grown, appeared or vanished, and what fell."""
    worse = [
        f"{name}: {before[name]:,} -> {now[name]:,}"
        for name in now
        if name in before and now[name] > before[name]
    ]
    worse += [
        f"{name}: {now[name]:,}, of which {COUNTS.name} knows nothing"
        for name in now
        if name not in before
    ]
    worse += [f"{name}: no longer counted" for name in before if name not in now]
    better = [
        f"{name}: {before[name]:,} -> {now[name]:,}"
        for name in now
        if name in before and now[name] < before[name]
    ]
    return worse, better


def main() -> int:
    """Compare or write."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--write", action="store_true", help="make the present counts the expected ones"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    version = torch.__version__.partition("+")[0]
    now = counted()
    if options.write:
        COUNTS.write_text(json.dumps({"torch": version, "counts": now}, indent=2) + "\n")
        return 0
    expected = json.loads(COUNTS.read_text())
    if expected["torch"] != version:
        print(
            f"torch {version} runs here, and {COUNTS.name} is of {expected['torch']}: nothing is "
            "compared"
        )
        return 0
    worse, better = compared(now, expected["counts"])
    for line in better:
        print(f"fewer  {line}")
    for line in worse:
        print(f"MORE   {line}")
    print(f"{len(now)} counts, {len(worse)} worse, {len(better)} better")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
