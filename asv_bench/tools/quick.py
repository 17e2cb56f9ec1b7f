"""A trial run of the suite on a small grid, as continuous integration runs it: `python
asv_bench/tools/quick.py`.

Checks the benchmarks' signatures, runs those of the small size once each, and compares the
deterministic counts. Exits with asv's code if a benchmark fails (2), and with 1 if a count has
grown. Its times are read by nobody, and results are not kept. After ``FLOWREF_UNTIL``, in seconds since
1970, only the counts are compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _running import BENCH, MACHINE, asv, configured, environment

# Compiling takes its time; ratios and scaling series run the same cases in other company.
GRID = (
    r"^(batch_norm|coupling)\..*\('(?!flowref-compiled)[^']*', 'small', '",
    r"^flow\.VectorFlow.*\('(?!flowref-compiled)[^']*', 'small', '",
    r"^flow\.(ImageFlow|MultiScale)\.track_log_prob\('(?!flowref-compiled)[^']*', 'small', '",
    r"^ratios\.BatchNormOver\.track_eval\('torch', 'small', '",
    r"^scaling\..*\('flowref', (2|4|16|'small'), '",
    r"^control\.",
    r"^audit\.(Law|FirstViolation)",
)


def main() -> int:
    """The worst of the exit codes."""
    gate = subprocess.run(
        [sys.executable, str(BENCH / "tools" / "gate.py")], check=False
    ).returncode
    if time.time() > float(os.environ.get("FLOWREF_UNTIL", "inf")):
        print("The grid was not run: no time is left (FLOWREF_UNTIL).")
        return gate
    variables = {"FLOWREF_BENCH_BUDGET": "0.01"}
    with tempfile.TemporaryDirectory() as folder, environment(None, variables) as env:
        config = configured(Path(folder), results_dir=str(Path(folder) / "results"))
        checked = asv(["check", "--python=same"], env, config)
        if checked:
            return checked
        chosen = [part for bench in GRID for part in ("--bench", bench)]
        run = [
            "run",
            "--python=same",
            "--quick",
            "--machine",
            MACHINE,
            "--launch-method",
            "forkserver",
            "--show-stderr",
        ]
        return asv([*run, *chosen], env, config) or gate


if __name__ == "__main__":
    sys.exit(main())
