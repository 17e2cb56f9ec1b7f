"""The static page of what the results say: `python asv_bench/tools/summary.py [--out FILE]`.

Throughput beside peers, ratios with quartiles, time over the floor as sizes grow, the auditor, counts, and the course over
commits. One file without scripts, which opens from the disk. Made from `results/` alone.
"""

from __future__ import annotations

import argparse
import html
import math
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from _results import Recorded, Value, recorded
from _running import BENCH

PAGE = BENCH / "summary.html"
STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #66707f; --line: #d9dee6; --ours: #1f6fb2; --peer: #a9b4c2;
  --good: #2e8b57; --bad: #c0392b; --paper: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa5b4; --line: #333c48; --ours: #5aa9e6; --peer: #5c6776;
  --good: #58b884; --bad: #e57368; --paper: #14181e; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; padding: 0 1rem;
  max-width: 68rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.4rem; }
h3 { font-size: .95rem; margin: 1rem 0 .3rem; } figure h3 { margin-top: 0; }
p, figcaption, .soft { color: var(--soft); max-width: 48rem; } a { color: var(--ours); }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 1.4rem 2rem; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
svg .soft { fill: var(--soft); } table { border-collapse: collapse; font-size: .9rem; }
td, th { padding: .15rem .8rem .15rem 0; text-align: left; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
code { font-size: .9em; }
"""
WIDTH, LABEL, ROW = 360, 104, 19
COLOURS = ("var(--ours)", "#e08a1e", "#7a5bbd", "#2e8b57")
THROUGHPUT = (
    ("Batch normalisation", "batch_norm.BatchNorm", ("forward", "forward_backward", "eval"), "images"),
    ("Affine coupling", "coupling.Coupling", ("forward", "inverse", "log_det"), "rows"),
    ("Flow of vectors", "flow.VectorFlow", ("log_prob", "sample", "training_step"), "rows"),
    ("Flow of images", "flow.ImageFlow", ("log_prob", "sample", "training_step"), "images"),
    ("Multi-scale model of images", "flow.MultiScale", ("log_prob", "sample", "training_step"), "images"),
)


def told(number: float) -> str:
    """A number in a few characters."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{suffix}"
    return f"{number:.3g}"


def text(x: float, y: float, said: str, anchor: str = "start", kind: str = "") -> str:
    """Text of a picture."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{html.escape(said)}</text>'


def figure(title: str, body: Iterable[str], height: float) -> str:
    """A picture with its title."""
    label = html.escape(title)
    svg = f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{label}">{"".join(body)}</svg>'
    return f"<figure><h3>{label}</h3>{svg}</figure>"


def bars(title: str, rates: Sequence[tuple[str, float | None]]) -> str:
    """One bar per implementation, as long as its throughput; n/a where there is none."""
    most = max((rate for _, rate in rates if rate), default=1.0)
    body = []
    for index, (name, rate) in enumerate(rates):
        y = index * ROW
        body.append(text(LABEL - 6, y + 13, name, "end"))
        if rate is None:
            body.append(text(LABEL, y + 13, "n/a", kind="soft"))
            continue
        length = (WIDTH - LABEL - 46) * rate / most
        colour = "var(--ours)" if name.startswith("flowref") else "var(--peer)"
        body.append(f'<rect x="{LABEL}" y="{y + 3}" width="{length:.1f}" height="{ROW - 6}" fill="{colour}" rx="2"/>')
        body.append(text(LABEL + length + 4, y + 13, told(rate), kind="soft"))
    return figure(title, body, len(rates) * ROW + 2)


def dots(title: str, ratios: Sequence[tuple[str, Value | None]]) -> str:
    """A dot per ratio with its quartiles, on a logarithmic axis around 1."""
    known = [value for _, value in ratios if value]
    reach = max([1.3, *(max(v.high, 1 / v.low) for v in known if v.low > 0)])

    def place(ratio: float) -> float:
        return LABEL + (WIDTH - LABEL - 40) * (0.5 + 0.5 * math.log(ratio) / math.log(reach))

    bottom = len(ratios) * ROW
    body = [
        f'<line x1="{place(1):.1f}" x2="{place(1):.1f}" y1="0" y2="{bottom}" stroke="var(--soft)" stroke-dasharray="3 3"/>'
    ]
    for tick in (1 / reach, 1.0, reach):
        body.append(text(place(tick), bottom + 14, f"{tick:.2g}", "middle", "soft"))
    for index, (name, value) in enumerate(ratios):
        y = index * ROW + 9
        body.append(text(LABEL - 6, y + 4, name, "end"))
        if value is None:
            body.append(text(LABEL, y + 4, "n/a", kind="soft"))
            continue
        colour = "var(--good)" if value.high < 1 else "var(--bad)" if value.low > 1 else "var(--soft)"
        body.append(
            f'<line x1="{place(value.low):.1f}" x2="{place(value.high):.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"/>'
        )
        body.append(f'<circle cx="{place(value.value):.1f}" cy="{y}" r="4" fill="{colour}"/>')
        body.append(text(WIDTH - 2, y + 4, f"{value.value:.2f}", "end", "soft"))
    return figure(title, body, bottom + 20)


def lines(
    title: str, series: dict[str, list[tuple[float, float]]], log_x: bool = True, low: float | None = None
) -> str:
    """Curves, with a logarithmic axis below if asked for; a name stands at the end of each."""
    points = [point for curve in series.values() for point in curve]
    if not points:
        return figure(title, [text(0, 14, "n/a", kind="soft")], 20)
    xs, ys = [math.log(x) if log_x else x for x, _ in points], [y for _, y in points]
    bottom, height = (min(ys) if low is None else low), 150
    top = max(*ys, bottom + 1e-9) * 1.05

    def at(x: float, y: float) -> tuple[float, float]:
        x = math.log(x) if log_x else x
        span = max(xs) - min(xs) or 1
        return 34 + (WIDTH - 130) * (x - min(xs)) / span, height - (height - 12) * (y - bottom) / (top - bottom)

    body = [f'<line x1="34" x2="{WIDTH - 96}" y1="{height}" y2="{height}" stroke="var(--line)"/>']
    body += [text(30, at(points[0][0], y)[1] + 4, told(y), "end", "soft") for y in (bottom, (bottom + top) / 2, top)]
    if log_x:
        body += [text(at(x, 0)[0], height + 15, told(x), "middle", "soft") for x in sorted({x for x, _ in points})]
    taken: list[float] = []
    for index, (name, curve) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in curve))
        body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        body += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in (at(*point) for point in curve)
        ]
        x, y = at(*curve[-1])
        while any(abs(y - other) < 12 for other in taken):
            y += 4
        taken.append(y)
        body.append(f'<text x="{x + 6:.1f}" y="{y + 4:.1f}" style="fill:{colour}">{html.escape(name)}</text>')
    return figure(title, body, max([height + 22, *(y + 10 for y in taken)]))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, numbers to the right of the first column."""

    def cells(row: Sequence[str], tag: str) -> str:
        kinds = ["", *[' class="n"'] * (len(row) - 1)]
        return "".join(f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{cells(header, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def grid(figures: Iterable[str]) -> str:
    """Pictures beside each other."""
    return f'<div class="grid">{"".join(figures)}</div>'


def impls_of(result: Recorded, prefix: str) -> list[str]:
    """The implementations that a class of benchmarks knows, in the order of the suite."""
    order = ("torch", "flowref", "flowref-compiled", "FrEIA", "glasflow", "nflows", "normflows", "torchflows", "zuko")
    known = {v.params[0] for v in result.values if v.benchmark.startswith(prefix + ".") and v.params}
    return [name for name in order if name in known]


def throughput(result: Recorded, size: str, device: str) -> str:
    """Samples per second, from microseconds per sample."""
    parts = []
    for title, prefix, ops, unit in THROUGHPUT:
        impls = impls_of(result, prefix)
        figures = []
        for op in ops:
            found = [(name, result.find(f"{prefix}.track_{op}", name, size, device)) for name in impls]
            if any(value for _, value in found):
                figures.append(
                    bars(f"{op.replace('_', ' ')}, {unit} per second", [(n, v and 1e6 / v.value) for n, v in found])
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
    ):
        for op in ops:
            for size in ("small", "medium"):
                found = [
                    (name, result.find(f"{prefix}.track_{op}", name, size, device)) for name in impls_of(result, prefix)
                ]
                if any(value for _, value in found):
                    figures.append(dots(f"{title}: {op.replace('_', ' ')}, {size}", found))
    control = [
        v for v in result.values if v.benchmark == "control.SameAgainstItself.track_ratio" and v.params[-1] == device
    ]
    if control:
        figures.append(dots("Control: the same against itself", [(v.params[0], v) for v in control]))
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
        found = [v for v in result.values if v.benchmark == f"scaling.{name}" and v.params[2] == device]
        series: dict[str, list[tuple[float, float]]] = {}
        for v in sorted(found, key=lambda v: (v.params[0] != "flowref", v.params[0], float(v.params[1]))):
            series.setdefault(v.params[0], []).append((float(v.params[1]), v.value))
        figures.append(lines(f"log_prob over the products, by {title}", series, low=0.0))
    for op in ("forward", "forward_backward", "eval"):
        found = [v for v in result.values if v.benchmark == f"scaling.BatchNormBytes.track_{op}_over_copy"]
        rows = [(f"{v.params[0]} {v.params[1]}", v.value) for v in found if v.params[2] == device]
        if rows:
            figures.append(bars(f"batch norm {op.replace('_', ' ')}: time over moving the bytes", rows))
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
        ("resident memory of an audit", f"{v.value:.0f} MiB") for v in result.values if "audit_resident" in v.benchmark
    ]
    return table(("the auditor, quick profile", "processor time"), rows)


def counts_section(result: Recorded) -> str:
    """Counts of the reference beside the least and the most of the peers."""
    rows = []
    for v in result.values:
        if v.benchmark.startswith("memory.") and v.params[:1] == ("flowref",) and v.params[2] == "cpu":
            peers = [
                p.value for p in result.values if p.benchmark == v.benchmark and p.params[1:] == v.params[1:] and p != v
            ]
            span = f"{told(min(peers))} to {told(max(peers))}" if peers else ""
            what = v.benchmark.removeprefix("memory.").replace(".track_", ", ").replace("_", " ")
            rows.append((f"{what}, {v.params[1]}", told(v.value), span))
    return table(("count", "flowref", "peers"), sorted(rows))


def history_section(results: Sequence[Recorded], device: str) -> str:
    """The course over commits of the reference and the auditor."""
    kept: dict[str, dict[str, list[tuple[float, float]]]] = {}
    commits = list(dict.fromkeys(result.commit for result in results))
    for result in results:
        at = float(commits.index(result.commit))
        for v in result.values:
            if v.params == ("flowref", "medium", device) and v.benchmark.partition(".")[0] in (
                "batch_norm",
                "coupling",
                "flow",
            ):
                kept.setdefault(
                    f"{v.benchmark.replace('.track_', ' ').partition('.')[2]}, us per sample", {}
                ).setdefault("flowref", []).append((at, v.value))
            elif v.benchmark == "audit.Target.track_seconds":
                kept.setdefault("all laws on a target, seconds", {}).setdefault(
                    v.params[0].partition(":")[2][:16], []
                ).append((at, v.value))
            elif v.benchmark == "audit.track_help_seconds":
                kept.setdefault("flowref --help, seconds", {}).setdefault("", []).append((at, v.value))
    figures = [lines(title, series, log_x=False, low=0.0) for title, series in sorted(kept.items())]
    return grid(figures)


def page(results: Sequence[Recorded]) -> str:
    """The whole page."""
    parts = []
    for machine in sorted({result.machine for result in results}):
        here = [result for result in results if result.machine == machine]
        latest = max(here, key=lambda result: (result.grid == "full", result.date))
        device = "cuda" if any("cuda" in v.params for v in latest.values) else "cpu"
        day = time.strftime("%Y-%m-%d", time.gmtime(latest.date / 1000))
        parts += [
            f"<h2>{html.escape(machine)}: throughput</h2><p>At commit {latest.commit[:8]} of {day}, medium size, float32, one "
            "thread. All implementations hold the same weights, and agreed in their values when they were built. Longer is "
            "faster.</p>",
            throughput(latest, "medium", device),
            f"<h2>{html.escape(machine)}: the reference's time over that of each peer</h2><p>In turns within one process. "
            "Left of the dashed line the reference is faster; bars span the quartiles.</p>",
            ratio_section(latest, device),
            f"<h2>{html.escape(machine)}: time over the floor</h2><p>The floor of a flow are its conditioners' products "
            "alone, that of batch normalisation the bytes it must move at the rate of a plain copy. 1 is the best possible.</p>",
            scaling_section(latest, device),
            f"<h2>{html.escape(machine)}: the auditor</h2>",
            audit_section(latest),
            f"<h2>{html.escape(machine)}: counts that every run repeats</h2><p>Operators dispatched, bytes allocated and kept "
            "for backward. Continuous integration compares those of the reference.</p>",
            counts_section(latest),
            f"<h2>{html.escape(machine)}: the course over {len({r.commit for r in here if r.grid == 'history'})} commits</h2>",
            history_section([result for result in here if result.grid == "history"], device),
        ]
    body = "".join(parts) or "<p>No results are recorded.</p>"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>flowref: benchmarks</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body><h1>Benchmarks</h1><p>Made by <code>python asv_bench/tools/summary.py</code> "
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
