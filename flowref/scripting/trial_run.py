"""Trial runs of a program, in a process where flowref cannot be imported."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flowref.model import Status, Verdict

SECONDS = 600
# Run as ``python -c ALONE program.py``.
ALONE = """
import runpy, sys
sys.modules["flowref"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True)
class ProgramOutcome:
    """Exit code of a program, and its standard output and error."""

    code: int
    out: str
    err: str = ""

    @property
    def off(self) -> float | None:
        """The printed error; None without one."""
        found = re.findall(r"^off by (\S+)$", self.out, re.MULTILINE)
        return float(found[-1]) if found else None


Run = Callable[[str], ProgramOutcome]


def run_standalone(text: str) -> ProgramOutcome:
    """Run a program where flowref cannot be imported, in the current folder."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-W", "ignore", "-c", ALONE, str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return ProgramOutcome(-1, "", "TimeoutExpired")
    return ProgramOutcome(done.returncode, done.stdout, done.stderr)


def shows(outcome: ProgramOutcome, verdict: Verdict, within: float) -> bool:
    """Whether a program reproduces the verdict: by exit code, last line, and an error of the
    recorded size.
    """
    last = (outcome.out.strip().splitlines() or [""])[-1]
    if verdict.status is Status.ERROR:
        kind = verdict.reason.partition(":")[0].rpartition(" ")[2]
        raised = re.search(rf"^(\w+\.)*{re.escape(kind)}(:|$)", outcome.err, re.MULTILINE)
        return outcome.code == 1 and bool(kind) and raised is not None
    if outcome.code != 1 or last != f"VIOLATED {verdict.law}":
        return False
    seen, evidence = outcome.off, verdict.evidence
    if seen is None or evidence is None:
        return True
    if not (math.isfinite(seen) and math.isfinite(evidence.residual)):
        return math.isfinite(seen) == math.isfinite(evidence.residual)
    return evidence.residual / within <= seen <= evidence.residual * within
