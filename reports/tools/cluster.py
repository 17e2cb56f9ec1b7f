"""Measure how the throughput of an audit grows with workers, and write `reports/cluster.md`.

    python reports/tools/cluster.py           two minutes, on an idle machine
    python reports/tools/cluster.py --page    only the page, from what was measured

Exit code: 0, or 2 where nothing was measured yet.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cluster_page.measuring import CLUSTER, POOL, REAL, WORKERS, Point, machine, measure

REPORTS = Path(__file__).parents[1]
FOLDER, FILE, PICTURE, PAGE = "cluster", "points.json", "throughput.svg", "cluster.md"
TEXT = """# How an audit grows on a cluster

`flowref audit --dask tcp://host:8786` maps the pairs of an audit over the workers of a dask.distributed cluster. The
schedule stays with the command: each thread of a worker gets a batch of pairs of one target, measures for a second in a
process of its own, with the time-out and the memory limit of every audit, and hands back what it did not start.

Measured with a scheduler and 1, 2 and 4 workers on one machine of {cores} cores, beside the pool that `-j` starts, on
{date}{busy}. Stand-ins take so many milliseconds of CPU time a pair, and nothing else; the flows are
eight transforms of nflows under the laws of bijections and modes, quick profile. Pairs a second from the first verdict to the last.

![Pairs a second against workers]({folder}/{picture})

{table}

## What bounds it

{bounds}

Start a cluster with `dask scheduler` and, on each machine, `dask worker tcp://host:8786 --nworkers N --nthreads 1`; flowref and the
audited libraries have to be there in the same versions, and the folder of your files under the same path. Both are looked at
before the first pair. A worker that is lost costs no verdict: what it had in hand runs elsewhere. Whoever reaches a scheduler can
run code on its workers: keep it in a network of your own, or use dask's TLS (`tls://`). `python reports/tools/cluster.py`
measures again.
"""

# Numbers of a machine that has other work are no speeds.
BUSY = ", **while other work kept the cores busy** (a load of {load}): shapes, not speeds"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, draw, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--page", action="store_true", help="only write the page")
    choices = parser.parse_args(arguments)
    file = REPORTS / FOLDER / FILE
    if not choices.page:
        where = machine()
        points = measure(print)
        file.parent.mkdir(exist_ok=True)
        rows = [asdict(point) for point in points]
        file.write_text(json.dumps({"machine": where, "points": rows}, indent=1) + "\n")
    if not file.is_file():
        print(f"nothing was measured yet: there is no {file}", file=sys.stderr)
        return 2
    stored = json.loads(file.read_text())
    points = [Point(**row) for row in stored["points"]]
    draw(file.with_name(PICTURE), points)
    (REPORTS / PAGE).write_text(page(points, stored["machine"]))
    return 0


def page(points: Sequence[Point], where: dict[str, Any]) -> str:
    """The page, each number of it from what was measured."""
    busy = where["load"] > where["cores"] / 2
    return TEXT.format(
        cores=where["cores"],
        date=where["date"],
        busy=BUSY.format(**where) if busy else "",
        folder=FOLDER,
        picture=PICTURE,
        table=table(points),
        bounds=bounds(points, where),
    )


def table(points: Sequence[Point]) -> str:
    """A row for each kind of pair and way of running it."""
    lines = [
        f"| a pair | run in | {' | '.join(map(workers, WORKERS))} | first verdict after |",
        f"|---|---|{'--:|' * (len(WORKERS) + 1)}",
    ]
    for pairs in dict.fromkeys(point.pairs for point in points):
        for how in (POOL, CLUSTER):
            own = {
                point.workers: point for point in points if (point.pairs, point.how) == (pairs, how)
            }
            cells = " | ".join(f"{own[n].throughput:,.0f}" for n in WORKERS)
            before = f"{min(point.before for point in own.values()):.1f} s"
            lines.append(f"| {named(pairs)} | {how} | {cells} | {before} |")
    return "\n".join(lines)


def workers(number: int) -> str:
    """A number of workers in words."""
    return f"{number} worker{'' if number == 1 else 's'}"


def named(pairs: str) -> str:
    """A kind of pair in words."""
    return "real, of flows" if pairs == REAL else f"{pairs} ms"


def bounds(points: Sequence[Point], where: dict[str, Any]) -> str:
    """What the numbers say of cores, of the way to a worker, and of the start."""
    at = {(point.pairs, point.how, point.workers): point for point in points}
    most = max(WORKERS)
    idle = 1000 / at["0", CLUSTER, 1].throughput
    here = 1000 / at["0", POOL, 1].throughput
    gains = {
        pairs: [
            at[pairs, CLUSTER, n].throughput / at[pairs, CLUSTER, 1].throughput for n in (2, most)
        ]
        for pairs in ("50", REAL)
    }
    share = at[REAL, CLUSTER, 2].throughput / at[REAL, POOL, 2].throughput
    start = min(at["0", CLUSTER, n].before - at["0", POOL, n].before for n in WORKERS)
    begins = f"{start:.1f} s or more later" if start >= 0.1 else "hardly later"
    two, four = gains["50"]
    flows_two, flows_four = gains[REAL]
    fast = max(at["0", CLUSTER, n].throughput for n in WORKERS)
    return "\n".join(
        [
            f"- **The cores.** With pairs of 50 ms two workers do {two:.1f} times what one does, and "
            f"{most} {four:.1f} times; with flows {flows_two:.1f} and {flows_four:.1f}. This machine "
            f"has {where['cores']} cores.",
            f"- **The way to a worker.** A pair that takes no time takes {idle:.1f} ms on a cluster "
            f"with one worker, {here:.1f} ms in the pool. More workers cannot make such pairs faster "
            f"than the one schedule hands them out: {fast:,.0f} a second at best. So many pairs "
            f"of 50 ms would keep {fast * 0.05:.0f} workers busy.",
            f"- **Batches.** With flows two workers of the cluster do {100 * share:.0f} % of what two "
            "of the pool do: targets differ in cost, each process loads its targets itself, and what "
            "a batch did not start within a second is sent anew.",
            f"- **The start.** The first verdict comes {begins} than in the pool: "
            "workers are asked for their versions, and start processes of their own.",
        ]
    )


def draw(path: Path, points: Sequence[Point]) -> None:
    """Pairs a second against workers, a panel for each kind of pair."""
    from themed_svg import WIDTH, panels

    kinds = list(dict.fromkeys(point.pairs for point in points))
    with panels(path, 1, len(kinds), (WIDTH / len(kinds), 2.8)) as (row,):
        for axes, pairs in zip(row, kinds, strict=True):
            for how, color, marker in ((POOL, "#0072B2", "o"), (CLUSTER, "#D55E00", "s")):
                own = [point for point in points if (point.pairs, point.how) == (pairs, how)]
                xs, ys = [one.workers for one in own], [one.throughput for one in own]
                axes.plot(xs, ys, color=color, marker=marker, label=how)
            axes.set_title(named(pairs))
            axes.set_xlabel("workers")
            axes.set_xticks(WORKERS)
            axes.set_ylim(bottom=0)
            axes.grid(color="#e4e4e4", lw=0.6)
            axes.set_axisbelow(True)
        row[0].set_ylabel("pairs a second")
        row[0].legend()


if __name__ == "__main__":
    sys.exit(main())
