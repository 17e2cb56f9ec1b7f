"""Build the site: `python reports/tools/website.py [--out FOLDER] [--serve]`.

Pages are written from the catalogue of laws, the findings, the reports and docs/ into
build/site-source, mkdocs makes the site of them, and every link in it is followed. Nothing is
fetched.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Container
from pathlib import Path

import causes
from flowref.model import statement_of
from flowref.reporting.report import Report
from flowref.scorecard import page as scorecard
from site_pages import findings, front, laws, links, navigation, reference, sources
from site_pages.numbers import Published

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "build" / "site-source"
OUT = ROOT / "build" / "site"


def write(source: Path = SOURCE) -> None:
    """Write all pages below a folder, which is emptied first."""
    reports = ROOT / "reports"
    published = Published.read(reports)
    shutil.rmtree(source, ignore_errors=True)
    of_laws = laws.pages(
        published.findings,
        laws.Power.read(reports / "power"),
        laws.remedies(reports / "remedies.toml"),
    )
    made = {
        **of_laws,
        **findings.pages(published, reports),
        **reference.pages(),
        "files/scorecard.html": _scorecard(published.audits["audit.json"], of_laws),
        "files/scorecard-jax.html": _scorecard(published.audits["audit-jax.json"], of_laws),
    }
    sources.copy(ROOT, source)
    for name in ("index.md", "scorecard.md"):
        made[name] = front.page((ROOT / "docs" / name).read_text(encoding="utf-8"), published)
    for name in published.audits:
        sources.copy_file(reports / name, source / "files" / "reports" / name)
    for name, text in made.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    sources.copy_summary(ROOT, source)


def _scorecard(report: Report, law_pages: Container[str]) -> str:
    """A scorecard with links to the pages of laws, and to those around it."""
    names = {note.id: f"laws/{statement_of(note.id)}" for note in report.laws}
    found = {law: f"../{name}.html" for law, name in names.items() if f"{name}.md" in law_pages}
    page = scorecard(report, found)
    here = '<nav aria-label="Sections">'
    ways = (
        '<a href="../scorecard.html">All libraries</a><a href="../findings/index.html">Findings</a>'
    )
    return page.replace(here, here + ways)


def _libraries() -> dict[str, str]:
    """The library of each finding."""
    return {one.id: one.home for one in causes.read(ROOT / "reports" / "findings.toml")}


def dashboard(out: Path) -> None:
    """The dashboard of benchmarks, or a page that says how to make it where no result is of a
    commit that is here.
    """
    tool = ROOT / "asv_bench" / "tools" / "dashboard.py"
    command = [sys.executable, str(tool), "--only-build", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not (out / "index.html").exists():
        out.mkdir(parents=True, exist_ok=True)
        why = (done.stdout + done.stderr).strip().splitlines()[-1:] or ["nothing was recorded"]
        text = f"<!doctype html><title>Dashboard</title><p>No dashboard was built: {why[0]}</p>"
        (out / "index.html").write_text(text, encoding="utf-8")
        print(f"no dashboard of benchmarks: {why[0]}", file=sys.stderr)


def build(out: Path = OUT, *, source: Path = SOURCE, with_dashboard: bool = True) -> list[str]:
    """Build the site into a folder; the links in it that lead nowhere. ``source``: where its pages are
    put together, which two that build at once may not share.
    """
    write(source)
    config = source.parent / "mkdocs.json"  # which is YAML as well
    config.write_text(
        json.dumps(
            {
                "INHERIT": str(ROOT / "mkdocs.yml"),
                "docs_dir": str(source),
                "site_dir": str(out.resolve()),
                "hooks": [str(ROOT / "reports" / "tools" / "site_pages" / "hooks.py")],
                "nav": navigation.entries(source, _libraries()),
            }
        ),
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", str(config)]
    # The page for what is not found needs to know where the site will stand, and nobody does.
    subprocess.run(command, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    (out / "404.html").unlink(missing_ok=True)
    if with_dashboard:
        dashboard(out / "dashboard")
    return links.broken(out, () if with_dashboard else ("dashboard/index.html",))


def main() -> int:
    """The exit code: 1 where a link leads nowhere."""
    parser = argparse.ArgumentParser(description="Build the site.")
    parser.add_argument("--out", type=Path, default=OUT, help="where to (default: build/site)")
    parser.add_argument("--serve", action="store_true", help="serve it on this machine afterwards")
    parser.add_argument("--port", type=int, default=8001)
    chosen = parser.parse_args()
    broken = build(chosen.out)
    for one in broken:
        print(f"broken link: {one}")
    files = [path for path in chosen.out.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 2**20
    print(f"{chosen.out}: {sum(p.suffix == '.html' for p in files)} pages, {size:.1f} MB")
    if chosen.serve and not broken:
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(chosen.out))
        print(f"http://127.0.0.1:{chosen.port}")
        http.server.ThreadingHTTPServer(("127.0.0.1", chosen.port), handler).serve_forever()
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
