"""Measure how the cost of an audit grows with the flow, and write `reports/growth.md`.

    python reports/tools/growth.py                       the short grid, as far as it is missing
    python reports/tools/growth.py --full --budget 240   the whole grid, four hours of it
    python reports/tools/growth.py 'spline/features/*'   only these points, again with --fresh
    python reports/tools/growth.py --page                only the page

Every point is an audit with all laws by one worker; its result is appended to `reports/growth/
points.jsonl` when it is done, so that an interrupted run goes on, and two runs of other points may
go on side by side. What lies on several axes is audited once. Points are visited from small to
large. A point has a budget of its own (`--point` minutes), after which its pairs are not started
and count as not judged. Exit code: 0, or 2 for points that are none.
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from flowref.model import FlowrefError
from growth_page import pictures, points
from growth_page.grid import AXES, FAMILIES, Point, grid
from growth_page.points import Result

REPORTS = Path(__file__).parents[1]
FOLDER, FILE, PAGE = "growth", "points.jsonl", "growth.md"

TEXT = """# How the cost of an audit grows

Flows of four families (couplings, splines, autoregressive maps, images) are audited with every law
that applies, while one thing grows and the rest stays: vectors have 32 features, 4 layers and
conditioners of 64 units; images are 3 x 4 x 4 pixels, with 4 couplings before and after the squeeze
and 16 channels; the largest batch has 16 rows. The first three are Zuko's `RealNVP`, `NSF` and `MAF`,
images the reference's `RealNVP`. Seconds are those of one CPU; memory is that of the worker at
its highest, of which PyTorch takes some 250 MiB; a pair may take {memory} MiB and {timeout:g} s.
Hollow marks: a pair was killed for one of these, or the budget of the point ended first, so that it
would have taken more. Profile {profile}. Measured so far: {done} of {all} points,
not all of the same commit; `--fresh` measures points again.

`python reports/tools/growth.py` measures what is missing of the short grid, `--full` of all:
features from 2 to 3,072, layers from 1 to 64, widths from 16 to 1,024, batches from 16 to 4,096
rows. One law of each kind is timed by the benchmarks (`growth` in `asv_bench`).

{sections}
"""
SECTION = """## {title}

![{title}: seconds, memory and share of laws judged]({folder}/{axis}.svg)

{told}

{table}
"""
TITLES = {
    "features": "Features",
    "layers": "Layers",
    "width": "Width of the conditioners",
    "batch": "Rows in a batch",
}


def exponent(own: Sequence[tuple[int, float]]) -> float | None:
    """The slope of the last two values on logarithmic axes: 1 for what doubles with the axis."""
    if len(own) < 2 or own[-2][1] <= 0 or own[-1][1] <= 0:
        return None
    (x, y), (large, high) = own[-2:]
    return math.log(high / y) / math.log(large / x)


def section(axis: str, found: Mapping[Point, Result]) -> str:
    """Picture, slopes and numbers of an axis."""
    rows, slopes = [], []
    for family in FAMILIES:
        own = sorted(
            (point.value, result)
            for point, result in found.items()
            if (point.family, point.axis) == (family, axis)
        )
        slope = exponent([(value, result.seconds) for value, result in own])
        if slope is not None:
            slopes.append(f"{family} {slope:.1f}")
        rows += [
            f"| {family} | {value:,} | {one.seconds:.0f} | {one.peak / 2**20:,.0f} "
            f"| {one.judged} of {one.about} | {one.broken or ''} |"
            for value, one in own
        ]
    head = [
        f"| family | {axis} | seconds | MiB | laws judged | killed |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    told = f"At the right end seconds grow with the power: {', '.join(slopes)}." if slopes else ""
    return SECTION.format(
        title=TITLES[axis], folder=FOLDER, axis=axis, told=told, table="\n".join([*head, *rows])
    )


def page(found: Mapping[Point, Result], memory: int, timeout: float) -> str:
    """The page; the axes of which nothing was measured are left out."""
    profiles = sorted({result.profile for result in found.values()})
    measured = [axis for axis in AXES if any(point.axis == axis for point in found)]
    return TEXT.format(
        memory=f"{memory:,}",
        timeout=timeout,
        profile=" and ".join(profiles),
        done=len(found),
        all=len(list(grid(short=False))),
        sections="\n".join(section(axis, found) for axis in measured).rstrip(),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, draw, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("points", nargs="*", help="globs over family/axis/value")
    parser.add_argument("--full", action="store_true", help="the whole grid")
    parser.add_argument("--budget", type=float, default=math.inf, metavar="MINUTES")
    parser.add_argument("--point", type=float, default=10.0, metavar="MINUTES")
    parser.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS")
    parser.add_argument("--memory", type=int, default=4096, metavar="MIB")
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--fresh", action="store_true", help="measure again what is there")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--folder", type=Path, default=REPORTS, help="of the page")
    choices = parser.parse_args(arguments)
    file, began = choices.folder / FOLDER / FILE, time.monotonic()
    every = {point.name: point for point in grid(short=False)}
    wanted = list(grid(short=not choices.full))
    if choices.points:
        wanted = [
            point
            for name, point in every.items()
            if any(fnmatch.fnmatchcase(name, glob) for glob in choices.points)
        ]
        if not wanted:
            print(f"no point matches {', '.join(choices.points)}", file=sys.stderr)
            return 2
    known, audited = points.read(file), {}
    if not choices.fresh:
        audited = {point.audit: known[name] for name, point in every.items() if name in known}
    try:
        for point in () if choices.page else wanted:
            if time.monotonic() - began > 60 * choices.budget:
                break
            if point.name in known and not choices.fresh:
                continue
            print(point.name, file=sys.stderr, flush=True)
            if point.audit not in audited:
                audited[point.audit] = points.measured(
                    point, choices.profile, 60 * choices.point, choices.memory, choices.timeout
                )
            known[point.name] = replace(audited[point.audit], name=point.name)
            points.append(file, known[point.name])
    except FlowrefError as error:
        print(f"flowref: {error}", file=sys.stderr)
        return 2
    known |= points.read(file)  # and what another run found meanwhile
    found = {point: known[name] for name, point in every.items() if name in known}
    if found:
        points.write(file, found.values())
        for axis in {point.axis for point in found}:
            pictures.draw(file.parent / f"{axis}.svg", axis, found)
        text = page(found, choices.memory, choices.timeout)
        (choices.folder / PAGE).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
