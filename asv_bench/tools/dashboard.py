"""Build the dashboard and serve it: `python asv_bench/tools/dashboard.py [--port N] [--only-build]
[--out FOLDER]`.

`asv publish` writes the data, and asv-tachyon its pages, which need nothing from elsewhere; both
ask for http, so the folder is served. Only `reports/`, the summary and the dashboard are, to this
machine alone.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import io
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

import summary
from _results import recorded
from _running import HTML, RESULTS, ROOT, asv, branch, configured, environment, git

SERVED = ("/reports/", "/asv_bench/html/", "/asv_bench/summary.html")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the reports, and nothing else of the repository."""

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """Refuse what is not among the reports."""
        if self.path in ("/", "/index.html"):
            self.send_response(302)
            self.send_header("Location", "/reports/index.html")
            self.end_headers()
            return None
        if not self.path.startswith(SERVED) or "/.." in self.path:
            self.send_error(404)
            return None
        return super().send_head()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def server(port: int, root: Path = ROOT) -> http.server.ThreadingHTTPServer:
    """A server of the reports on this machine alone; port 0 takes a free one."""
    return http.server.ThreadingHTTPServer(
        ("127.0.0.1", port), functools.partial(Handler, directory=str(root))
    )


def build(out: Path = HTML) -> int:
    """Publish the results into a folder; the exit code. Results of commits that this checkout lacks
    are left out.
    """
    with tempfile.TemporaryDirectory() as folder, environment() as env:
        results = Path(folder) / "results"
        if not published(results):
            print(
                "no result is of a commit that is here; record one (tox -e bench-record), or "
                "fetch the whole history"
            )
            return 1
        config = configured(
            Path(folder), html_dir=str(out), results_dir=str(results), branches=[branch()]
        )
        code = asv(["publish", "--no-pull"], env, config)
        if code:
            return code
        done = subprocess.run(
            [sys.executable, "-m", "asv_tachyon", "install", "--no-backup", str(out)],
            env=env,
            check=False,
        )
        complete(out)
        return done.returncode


def published(folder: Path) -> int:
    """Copy the results of the commits that are here, and say how many there are."""
    here = set(git("rev-list", branch()).split())
    count = 0
    for path in RESULTS.rglob("*.json"):
        target = folder / path.relative_to(RESULTS)
        target.parent.mkdir(parents=True, exist_ok=True)
        of_commit = path.parent != RESULTS and path.name != "machine.json"
        if of_commit and json.loads(path.read_text())["commit_hash"] not in here:
            continue
        count += of_commit
        shutil.copyfile(path, target)
    return count


def complete(out: Path) -> None:
    """What the pages ask for and would report as missing: the subjects of commits, regressions to
    be silent about, profiles, and the graphs of benchmarks that have no result, as those of a GPU
    have none without one.
    """
    subjects = dict(
        line.split(" ", 1) for line in git("log", "--format=%H %s", branch()).splitlines()
    )
    (out / "commits.json").write_text(json.dumps({"by_hash": subjects}))
    for name in ("regressions-ignore", "profiles"):
        (out / f"{name}.json").write_text("[]")
    index = json.loads((out / "index.json").read_text())
    names = index["benchmarks"]
    for described in names.values():
        described["less_is_better"] = True  # which the pages take for granted of times alone
    (out / "index.json").write_text(json.dumps(index))
    for folder in {path.parent for path in (out / "graphs").rglob("*.json")}:
        for name in names:
            path = folder / f"{name}.json"
            if not path.exists():
                path.write_text("[]")


def main() -> int:
    """Build, then serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--only-build", action="store_true")
    parser.add_argument("--out", type=Path, default=HTML)
    options = parser.parse_args()
    code = build(options.out.resolve())
    if code:
        return code
    summary.PAGE.write_text(summary.page(recorded()))
    if options.only_build:
        return 0
    with server(options.port) as serving:
        print(
            f"http://127.0.0.1:{serving.server_port}/reports/index.html  (Ctrl-C ends)", flush=True
        )
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
