"""Record results of commits: `python asv_bench/tools/record.py [COMMIT ...] [--history] [--bench
REGEX]`.

Each commit's own flowref is measured with the present suite, in the environment that runs this.
``--history`` leaves out the peers, the large sizes and the scaling series, which say nothing about
an earlier commit that the latest does not say better.
Without --history everything is measured. Results go to `asv_bench/results`, to be committed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from _results import keep
from _running import MACHINE, RESULTS, asv, configured, environment, full_hash, git, tree_of

HISTORY = (
    r"^(batch_norm|coupling|flow)\..*\('flowref', '(small|medium)', 'cpu'\)",
    r"^memory\..*\('flowref', '(small|medium)', 'cpu'\)",
    r"^audit\.",
    r"^memory\.track",
    r"^control\.track",
)
ALL = (r"'cpu'\)", r"^audit\.", r"^memory\.track", r"^control\.track", r"^scaling\.Targets")


def recorded(commit: str, benches: tuple[str, ...], budget: str, grid: str) -> int:
    """The exit code of asv for one commit."""
    commit = full_hash(commit)
    print(git("log", "-1", "--format=%h %s", commit), flush=True)
    variables = {"FLOWREF_BENCH_BUDGET": budget}
    with (
        tempfile.TemporaryDirectory() as name,
        tree_of(commit) as tree,
        environment(tree, variables) as env,
    ):
        results = Path(name) / "results"
        config = configured(Path(name), results_dir=str(results))
        chosen = [part for bench in benches for part in ("--bench", bench)]
        code = asv(
            ["run", "--python=same", "--set-commit-hash", commit, "--machine", MACHINE, "--launch-method", "forkserver",
             "--show-stderr", *chosen],
            env, config,
        )  # fmt: skip
        for path in results.glob(f"{MACHINE}/{commit[:8]}-*.json"):
            print(keep(path, grid=grid).relative_to(RESULTS))
        for path in (results / "benchmarks.json", results / MACHINE / "machine.json"):
            shutil.copyfile(path, RESULTS / path.relative_to(results))
        return code


def main() -> int:
    """Record; the exit code is that of the worst commit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "commits", nargs="*", help="commits of the main branch; HEAD by default; A..B for a range"
    )
    parser.add_argument("--history", action="store_true", help="only what is worth a history")
    parser.add_argument(
        "--bench", action="append", default=[], help="a regular expression of benchmarks"
    )
    parser.add_argument("--budget", default="0.5", help="seconds of one measurement")
    options = parser.parse_args()
    commits: list[str] = []
    for name in options.commits or ["HEAD"]:
        commits += (
            git("rev-list", "--first-parent", "--reverse", name).splitlines()
            if ".." in name
            else [name]
        )
    benches, grid = (HISTORY, "history") if options.history else (ALL, "full")
    return max(
        recorded(commit, tuple(options.bench) or benches, options.budget, grid)
        for commit in commits
    )


if __name__ == "__main__":
    sys.exit(main())
