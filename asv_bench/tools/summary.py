"""The static page of what the results say: `python asv_bench/tools/summary.py [--out FILE]`.

Throughput beside peers, ratios with quartiles, time over the floor as sizes grow, the auditor,
counts, and the course over commits. One file without scripts, which opens from the disk. Made from
`results/` alone.
"""

from __future__ import annotations

import argparse
import collections
import html
import itertools
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from _drawing import STYLE, bars, dots, grid, lines, table, told
from _results import Recorded, recorded
from _running import BENCH

PAGE = BENCH / "summary.html"
LAUNCHED = (
    "Of a flow of vectors, without waiting for the GPU, by size. Where this is near the time of the whole "
    "call, the GPU waits for the host."
)
REFERENCE = ("flowref", "flowref-compiled")
# The cases of `against_fastest` that are also said in a sentence.
IN_WORDS = {
    "Batch normalisation, forward backward": "A training step of batch normalisation",
    "Flow of vectors, log prob": "The log-density of a flow of vectors",
}
COURSE = (
    "A curve has changed at the first measured commit since which all numbers lie a tenth or more below (or "
    "above) all earlier ones. Below it stand these commits, and the command that measures a point again"
)
# On a machine with a GPU, which may have no git, a point takes two commands.
TAKEN_IN = "; python asv_bench/tools/ingest.py raw.json --commit COMMIT takes it in"
# What has a course: the modules of times of the reference, and the auditor's times.
TIMED = ("batch_norm", "coupling", "flow")
AUDITED = {
    "audit.Target.track_seconds": "all laws on a target, seconds",
    "audit.track_help_seconds": "flowref --help, seconds",
}
STEP = 1.1
THROUGHPUT = (
    (
        "Batch normalisation",
        "batch_norm.BatchNorm",
        ("forward", "forward_backward", "eval"),
        "images",
    ),
    ("Affine coupling", "coupling.Coupling", ("forward", "inverse", "log_det"), "rows"),
    ("Flow of vectors", "flow.VectorFlow", ("log_prob", "sample", "training_step"), "rows"),
    ("Flow of images", "flow.ImageFlow", ("log_prob", "sample", "training_step"), "images"),
    ("Splines", "families.Spline", ("log_prob", "sample", "training_step"), "rows"),
    (
        "Masked autoregressive flows",
        "families.MaskedAutoregressive",
        ("log_prob", "sample", "training_step"),
        "rows",
    ),
    ("Residual flows", "families.Residual", ("log_prob", "sample", "training_step"), "rows"),
    ("Continuous flows", "continuous.Continuous", ("log_prob", "sample", "training_step"), "rows"),
    *(
        (f"{what}, in JAX", f"jax_flows.Jax{name}", ("log_prob", "sample", "training_step"), "rows")
        for what, name in (
            ("Couplings of vectors", "Coupling"),
            ("Splines", "Spline"),
            ("Masked autoregressive flows", "MaskedAutoregressive"),
        )
    ),
    (
        "Multi-scale model of images",
        "flow.MultiScale",
        ("log_prob", "sample", "training_step"),
        "images",
    ),
)


def impls_of(result: Recorded, prefix: str) -> list[str]:
    """The implementations that a class of benchmarks knows, in the order of the suite."""
    order = (
        "torch",
        "flowref",
        "flowref-compiled",
        "FrEIA",
        "glasflow",
        "nflows",
        "normflows",
        "torchflows",
        "zuko",
        "bijx",
        "flowjax",
        "numpyro",
    )
    known = {
        v.params[0] for v in result.values if v.benchmark.startswith(prefix + ".") and v.params
    }
    return [name for name in order if name in known]


def throughput(result: Recorded, size: str, device: str) -> str:
    """Samples per second, from microseconds per sample."""
    parts = []
    for title, prefix, ops, unit in THROUGHPUT:
        impls = impls_of(result, prefix)
        figures = []
        for op in ops:
            found = [
                (name, result.find(f"{prefix}.track_{op}", name, size, device)) for name in impls
            ]
            if any(value for _, value in found):
                figures.append(
                    bars(
                        f"{op.replace('_', ' ')}, {unit} per second",
                        [(n, 1e6 / v.value if v else None) for n, v in found],
                    )
                )
        if figures:
            parts.append(f"<h3>{title}</h3>" + grid(figures))
    return "".join(parts)


def ratio_section(result: Recorded, device: str) -> str:
    """Ratios to peers, and the control."""
    figures = []
    for title, prefix, ops in (
        ("Batch normalisation", "ratios.BatchNormOver", ("forward", "forward_backward", "eval")),
        ("Flow of vectors", "ratios.VectorFlowOver", ("log_prob", "sample", "training_step")),
        ("Flow of images", "ratios.ImageFlowOver", ("log_prob", "training_step")),
        ("Splines", "ratios.SplineOver", ("log_prob",)),
        ("Masked autoregressive flows", "ratios.MaskedAutoregressiveOver", ("log_prob",)),
    ):
        for op in ops:
            for size in ("small", "medium"):
                found = [
                    (name, result.find(f"{prefix}.track_{op}", name, size, device))
                    for name in impls_of(result, prefix)
                ]
                if any(value for _, value in found):
                    figures.append(dots(f"{title}: {op.replace('_', ' ')}, {size}", found))
    control = [
        v
        for v in result.values
        if v.benchmark == "control.SameAgainstItself.track_ratio" and v.params[-1] == device
    ]
    if control:
        figures.append(
            dots("Control: the same against itself", [(v.params[0], v) for v in control])
        )
    return grid(figures)


def scaling_section(result: Recorded, device: str) -> str:
    """Time over the floor."""
    figures = []
    for title, name in (
        ("features", "Dimension.track_log_prob_over_products"),
        ("couplings", "Depth.track_log_prob_over_products"),
        ("rows in a batch", "Batch.track_log_prob_over_products"),
        ("height and width of images", "ImageSize.track_log_prob_over_products"),
    ):
        found = [
            v for v in result.values if v.benchmark == f"scaling.{name}" and v.params[2] == device
        ]
        series: dict[str, list[tuple[float, float]]] = {}
        for v in sorted(
            found, key=lambda v: (v.params[0] != "flowref", v.params[0], float(v.params[1]))
        ):
            series.setdefault(v.params[0], []).append((float(v.params[1]), v.value))
        if series:
            figures.append(lines(f"log_prob over the products, by {title}", series, low=0.0))
    for op in ("forward", "forward_backward", "eval"):
        found = [
            v
            for v in result.values
            if v.benchmark == f"scaling.BatchNormBytes.track_{op}_over_copy"
        ]
        rows = [(f"{v.params[0]} {v.params[1]}", v.value) for v in found if v.params[2] == device]
        if rows:
            figures.append(
                bars(f"batch norm {op.replace('_', ' ')}: time over moving the bytes", rows)
            )
    return grid(figures)


def launch_section(result: Recorded, device: str) -> str:
    """Microseconds of the host by implementation and size; empty where no GPU was measured."""
    figures = []
    for op in ("log_prob", "training_step"):
        prefix = "launch.Launch"
        for size in ("small", "medium", "large"):
            found = [
                (name, result.find(f"{prefix}.track_{op}", name, size, device))
                for name in impls_of(result, prefix)
            ]
            if any(value for _, value in found):
                rows = [(name, value.value if value else None) for name, value in found]
                figures.append(bars(f"{op.replace('_', ' ')}, {size}: microseconds", rows))
    return grid(figures)


def audit_section(result: Recorded) -> str:
    """The auditor's times."""
    names = {
        "audit.Target.track_seconds": "all laws on",
        "audit.Law.track_seconds": "one law:",
        "audit.FirstViolation.track_seconds": "to the first violation of",
        "scaling.Targets.track_seconds_per_target": "per target, of so many:",
        "audit.track_help_seconds": "flowref --help",
    }
    rows = [
        (f"{names[v.benchmark]} {' '.join(v.params)}".strip(), f"{v.value:.3g} s")
        for name in names
        for v in result.values
        if v.benchmark == name
    ]
    rows += [
        ("resident memory of an audit", f"{v.value:.0f} MiB")
        for v in result.values
        if "audit_resident" in v.benchmark
    ]
    return table(("the auditor, quick profile", "CPU time"), rows)


def counts_section(result: Recorded, device: str) -> str:
    """Counts of the reference beside the least and the most of the peers."""
    rows = []
    for v in result.values:
        if (
            v.benchmark.startswith("memory.")
            and v.params[:1] == ("flowref",)
            and v.params[2] == device
        ):
            peers = [
                p.value
                for p in result.values
                if p.benchmark == v.benchmark and p.params[1:] == v.params[1:] and p != v
            ]
            span = f"{told(min(peers))} to {told(max(peers))}" if peers else ""
            what = v.benchmark.removeprefix("memory.").replace(".track_", ", ").replace("_", " ")
            rows.append((f"{what}, {v.params[1]}", told(v.value), span))
    return table(("count", "flowref", "peers"), sorted(rows))


class Against(NamedTuple):
    """The rate of the reference over that of the fastest peer, eager and compiled."""

    case: str
    peer: str
    eager: float | None
    compiled: float | None


def against_fastest(result: Recorded, size: str, device: str) -> list[Against]:
    """Of each operation of which a peer was measured."""
    found = []
    for title, prefix, ops, _ in THROUGHPUT:
        for op in ops:
            times = {
                name: value.value
                for name in impls_of(result, prefix)
                if (value := result.find(f"{prefix}.track_{op}", name, size, device))
            }
            ours = [times.pop(name, None) for name in REFERENCE]
            if times and any(ours):
                peer = min(times, key=times.__getitem__)
                rates = [times[peer] / own if own else None for own in ours]
                found.append(Against(f"{title}, {op.replace('_', ' ')}", peer, *rates))
    return found


def fastest_section(result: Recorded, size: str, device: str) -> str:
    """The rates of the reference over those of the fastest peers: two in words, and a table."""
    found = against_fastest(result, size, device)
    said = [
        f"{IN_WORDS[one.case]} runs at {one.eager:.2f} times the rate of {one.peer}, the fastest peer"
        + (f", and compiled at {one.compiled:.2f} times." if one.compiled else ".")
        for one in found
        if one.case in IN_WORDS and one.eager
    ]
    rows = [
        (one.case, one.peer, *(f"{rate:.2f}" if rate else "" for rate in (one.eager, one.compiled)))
        for one in found
    ]
    words = f"<p>{html.escape(' '.join(said))}</p>" if said else ""
    return words + table(("", "fastest peer", *REFERENCE), rows, texts=2)


def steps(course: Sequence[float]) -> list[int]:
    """Where a course has changed: all numbers from there on lie a tenth or more below all earlier ones,
    or above; two or more on each side, so that one measurement under load is no step.
    """
    found = []
    for index in range(2, len(course) - 1):
        before, after = course[:index], course[index:]
        if min(before) > STEP * max(after) or min(after) > STEP * max(before):
            found.append(index)
    return found


def changes(series: dict[str, list[tuple[float, float]]], names: Sequence[str]) -> str:
    """The commits at which curves have changed, with the median of the numbers before and since."""
    said = []
    for name, curve in series.items():
        numbers = [y for _, y in curve]
        for index in steps(numbers):
            medians = (statistics.median(side) for side in (numbers[:index], numbers[index:]))
            said.append(
                f"{name} at {names[int(curve[index][0])]}: {' to '.join(map(told, medians))}"
            )
    return f"Changed: {'; '.join(said)}." if said else ""


def again(benchmark: str, device: str) -> str:
    """The command that measures a benchmark's points of the course again."""
    if device == "cuda":
        chosen = rf"{benchmark}\('flowref.*'medium', 'cuda'"
        return f'python asv_bench/tools/collect.py --out raw.json --bench "^{chosen}"'
    chosen = rf"{benchmark}\('flowref', 'medium', 'cpu'" if benchmark not in AUDITED else benchmark
    return f'python asv_bench/tools/record.py COMMIT --history --bench "^{chosen}"'


def history_section(results: Sequence[Recorded], device: str) -> str:
    """The course over commits of the reference and the auditor: what changed where, and how a point is
    measured again.
    """
    kept: dict[str, dict[str, dict[float, float]]] = {}
    commits = list(dict.fromkeys(result.commit for result in results))
    # Of what a commit has twice, the number of the history stands beside those of the others.
    for result in sorted(results, key=lambda result: result.grid == "history"):
        at = float(commits.index(result.commit))
        for v in result.values:
            if v.benchmark.partition(".")[0] in TIMED:
                shown = v.params[0] in REFERENCE and v.params[1:] == ("medium", device)
                name = v.params[0]
            else:
                shown = v.benchmark in AUDITED
                name = v.params[0].partition(":")[2][:16] if v.params else "flowref"
            if shown:
                kept.setdefault(v.benchmark, {}).setdefault(name, {})[at] = v.value
    names, figures = [commit[:8] for commit in commits], []
    for benchmark, courses in sorted(kept.items(), key=lambda item: (item[0] in AUDITED, item[0])):
        series = {name: sorted(course.items()) for name, course in courses.items()}
        timed = benchmark.partition(".")[2].replace(".track_", " ")
        title = AUDITED.get(benchmark, f"{timed}, us per sample")
        caption = f"{html.escape(changes(series, names))} <code>{html.escape(again(benchmark, device))}</code>"
        figures.append(lines(title, series, log_x=False, low=0.0, names=names, caption=caption))
    return grid(figures)


def last_measured(results: Sequence[Recorded]) -> dict[str, Recorded]:
    """Of each benchmark the record in which it was last measured in full, since a record may be of some
    of them alone; else that of the history.
    """
    ordered = sorted(results, key=lambda result: (result.grid == "full", result.date))
    return {one.benchmark: result for result in ordered for one in result.values}


def together(results: Sequence[Recorded]) -> Recorded:
    """Each benchmark as it was last measured. The commit is that of the newest."""
    values = (
        (v for v in result.values if v.benchmark == benchmark)
        for benchmark, result in last_measured(results).items()
    )
    newest = max(results, key=lambda result: (result.grid == "full", result.date))
    return replace(newest, values=tuple(itertools.chain.from_iterable(values)))


def day(result: Recorded) -> str:
    """The day of a commit."""
    return time.strftime("%Y-%m-%d", time.gmtime(result.date / 1000))


def measured_section(results: Sequence[Recorded]) -> str:
    """At which commit, and with which build of torch, each part of the suite was last measured."""
    modules: dict[tuple[str, str, str], set[str]] = collections.defaultdict(set)
    for benchmark, result in last_measured(results).items():
        place = (day(result), result.commit[:8], result.torch)
        modules[place].add(benchmark.partition(".")[0])
    rows = [
        (commit, on, torch, ", ".join(sorted(found)))
        for (on, commit, torch), found in sorted(modules.items(), reverse=True)
    ]
    return table(("commit", "of", "torch", "benchmarks"), rows, texts=4)


def page(results: Sequence[Recorded]) -> str:
    """The whole page."""
    parts = []
    commits = collections.Counter(result.machine for result in results)
    for machine in sorted(commits, key=lambda name: (-commits[name], name)):
        here = [result for result in results if result.machine == machine]
        latest = together(here)
        device = "cuda" if any("cuda" in v.params for v in latest.values) else "cpu"
        sections = [
            ("what was last measured at which commit", "", measured_section(here)),
            (
                "the reference beside the fastest peer",
                "Its rate over that of the fastest peer, medium size: above 1 the reference is faster. Peers "
                "are eager.",
                fastest_section(latest, "medium", device),
            ),
            (
                "throughput",
                f"Each as last measured, the newest at commit {latest.commit[:8]} of {day(latest)}; medium size, "
                "float32, one thread. All implementations hold the same weights, and agreed in their "
                "values when they were built. Longer is faster.",
                throughput(latest, "medium", device),
            ),
            (
                "the reference's time over that of each peer",
                "In turns within one process. Left of the dashed line the reference is faster; bars span "
                "the quartiles.",
                ratio_section(latest, device),
            ),
            (
                "time over the floor",
                "The floor of a flow are its conditioners' products alone, that of batch normalisation "
                "the bytes it must move at the rate of a plain copy. 1 is the best possible.",
                scaling_section(latest, device),
            ),
            ("what the host spends per call", LAUNCHED, launch_section(latest, device)),
            ("the auditor", "", audit_section(latest)),
            (
                "counts that every run repeats",
                "Operators dispatched, bytes allocated and kept for backward. Continuous integration "
                "compares those of the reference.",
                counts_section(latest, device),
            ),
            (
                f"the course over {len({result.commit for result in here})} commits",
                f"{COURSE}{TAKEN_IN if device == 'cuda' else ''}.",
                history_section(here, device),
            ),
        ]
        for title, words, shown in sections:
            if shown:  # a machine that measured nothing of it has no such section
                said = f"<p>{words}</p>" if words else ""
                parts.append(f"<h2>{html.escape(machine)}: {title}</h2>{said}{shown}")
    body = "".join(parts) or "<p>No results are recorded.</p>"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>flowref: benchmarks</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body><h1>Benchmarks</h1><p>Made by <code>python "
        "asv_bench/tools/summary.py</code> "
        'from <code>asv_bench/results</code>. Every benchmark and commit: the <a href="html/index.html">dashboard</a>, which '
        f'<code>tox -e dashboard</code> builds and serves. <a href="../reports/index.html">All reports</a></p>{body}'
        "</body></html>\n"
    )


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args()
    options.out.write_text(page(recorded()))
    print(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
