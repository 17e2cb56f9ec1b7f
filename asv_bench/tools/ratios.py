"""The reference beside its peers, as a table in Markdown: `python asv_bench/tools/ratios.py [--size
medium] [--compiled]`; compiled, those of which log-densities are told, each with its log-density compiled
as well.

All implementations of a case take turns in one process, on one thread, forwards and backwards by
turns. A figure is the median over the rounds of an implementation's time by that of the eager
reference in the same round, with the quartiles. The row "flowref, again" is a second build of the
same: what it is off 1 by, the others may be off by too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from _running import BENCH, STEADY

sys.path.insert(0, str(BENCH))
GROUPS = (
    ("batch_norm", ("forward", "forward_backward", "eval")),
    ("coupling", ("forward", "inverse", "log_det")),
    ("vector_flow", ("log_prob", "sample", "training_step")),
    ("image_flow", ("log_prob", "sample", "training_step")),
    ("spline", ("log_prob", "sample", "training_step")),
    ("maf", ("log_prob", "sample", "training_step")),
    ("residual", ("log_prob", "sample", "training_step")),
    ("continuous", ("log_prob", "sample", "training_step")),
)
AGAIN = "flowref, again"


def impls_of(component: str, compiled: bool) -> list[str]:
    """Whom a component is compared with, those that are installed."""
    from benchmarks import _families, _grid, _peers

    peers = ["torch"] if component == "batch_norm" else list(_peers.PEERS)
    if component == "continuous":
        return [name for name in ("zuko", "torchflows") if _grid.available(name)]
    if component in _families.FAMILIES:
        peers = list(_families.FAMILIES[component][1])
    if component == "image_flow":
        peers = [name for name in peers if _grid.LIBRARIES[name]]
    turned = []
    if compiled:
        densities = component in _families.FAMILIES or component == "vector_flow"
        turned = [f"{name}{_grid.COMPILED}" for name in ("flowref", *(peers if densities else ()))]
    return [name for name in (*turned, *peers) if _grid.available(name)]


def measured(
    component: str, op: str, size: str, compiled: bool, rounds: int
) -> dict[str, list[float]]:
    """Seconds of all implementations, round by round."""
    from benchmarks import _cases, _timing

    build: Any = _cases.COMPONENTS[component]
    calls: dict[str, Callable[[], Any]] = {"flowref": build("flowref", op, size, "cpu").call}
    for impl in impls_of(component, compiled):
        if op != "log_prob" and impl.endswith("-compiled") and not impl.startswith("flowref"):
            continue
        calls[impl] = build(impl, op, size, "cpu").call
    calls[AGAIN] = build.__wrapped__("flowref", op, size, "cpu").call
    return _timing.in_turns(calls, rounds)


def cell(times: Sequence[float], base: Sequence[float]) -> str:
    """The median of the ratios, and their quartiles; empty of what was not measured."""
    if not times:
        return ""
    low, middle, high = statistics.quantiles(
        [a / b for a, b in zip(times, base, strict=True)], n=4, method="inclusive"
    )
    return f"{middle:.2f} ({low:.2f} - {high:.2f})"


def table(component: str, ops: Sequence[str], size: str, compiled: bool, rounds: int) -> str:
    """One table: a row per implementation, a column per operation."""
    columns = {op: measured(component, op, size, compiled, rounds) for op in ops}
    names = [name for name in columns[ops[0]] if name != "flowref"]
    empty: list[float] = []
    lines = [
        f"| {component.replace('_', ' ')} | "
        + " | ".join(op.replace("_", " ") for op in ops)
        + " |"
    ]
    lines.append("|---|" + "---|" * len(ops))
    absolute = [f"{1e6 * statistics.median(columns[op]['flowref']):.0f} us" for op in ops]
    lines.append("| flowref, a call | " + " | ".join(absolute) + " |")
    for name in names:
        cells = [cell(columns[op].get(name, empty), columns[op]["flowref"]) for op in ops]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="medium", choices=("small", "medium", "large"))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--compiled", action="store_true", help="what is compiled, too")
    parser.add_argument("--only", nargs="*", help="components")
    parser.add_argument("--ops", nargs="*", help="operations")
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in STEADY.items()):
        # The allocator reads its settings when the process starts.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **STEADY})
    warnings.simplefilter("ignore")
    for component, ops in GROUPS:
        chosen = [op for op in ops if not options.ops or op in options.ops]
        if chosen and (not options.only or component in options.only):
            print(
                table(component, chosen, options.size, options.compiled, options.rounds), flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
