"""Running asv from the repository: a home of its own with one known machine, so that nothing asks
and nothing is left behind.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
ROOT = BENCH.parent
CONFIG = BENCH / "asv.conf.json"
RESULTS = BENCH / "results"
HTML = BENCH / "html"
MACHINE = "shared-cpu"
# What a run measures must not depend on what the allocator of the process met before: up to the
# limit that it accepts, memory is kept and not given back. Otherwise the same code takes three
# times as long in one process as in another, in page faults.
STEADY = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def machine(name: str = MACHINE, gpu: str = "none") -> dict[str, str]:
    """The fields of a machine. They are selectors of the dashboard, and the same on all machines of
    a name.
    """
    return {
        "machine": name,
        "os": platform.system(),
        "arch": platform.machine(),
        "cpu": "one thread of a shared processor",
        "num_cpu": "1",
        "ram": "any",
        "gpu": gpu,
    }


@contextlib.contextmanager
def environment(
    tree: Path | None = None, variables: Mapping[str, str] | None = None
) -> Iterator[dict[str, str]]:
    """The variables for a run: one thread, forks of one process with everything imported, and
    flowref from this tree.
    """
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / ".asv-machine.json").write_text(
            json.dumps({MACHINE: machine(), "version": 1})
        )
        yield {
            **os.environ,
            "HOME": home,
            **STEADY,
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "FLOWREF_BENCH_PREIMPORT": "1",
            "ASV_PYTHONPATH": str(tree or ROOT),  # asv drops PYTHONPATH
            "PYTHONPATH": str(tree or ROOT),
            **(variables or {}),
        }


def asv(arguments: Sequence[str], env: Mapping[str, str], config: Path = CONFIG) -> int:
    """The exit code of asv."""
    command = [sys.executable, "-m", "asv", "--config", str(config), *arguments]
    return subprocess.run(command, env=dict(env), cwd=ROOT, check=False).returncode


def configured(folder: Path, **changes: object) -> Path:
    """A configuration in another folder, with absolute paths and these changes."""
    # The file has comments, which asv reads and json does not.
    text = "\n".join(
        line for line in CONFIG.read_text().splitlines() if not line.strip().startswith("//")
    )
    settings = json.loads(text)
    settings |= {
        "repo": str(ROOT),
        "benchmark_dir": str(BENCH / "benchmarks"),
        "results_dir": str(RESULTS),
    }
    settings |= {"env_dir": str(folder / "env"), "html_dir": str(folder / "html"), **changes}
    path = folder / "asv.conf.json"
    path.write_text(json.dumps(settings))
    return path


def git(*arguments: str) -> str:
    """What git prints."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def full_hash(commit: str) -> str:
    """The hash of a commit."""
    return git("rev-parse", "--verify", f"{commit}^{{commit}}")


def branch() -> str:
    """The branch whose commits are published: main, or HEAD in a checkout without branches."""
    known = git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()
    return "main" if "main" in known else "HEAD"


@contextlib.contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """A folder with flowref as it was at a commit, or the working tree for ".": nothing is checked
    out.
    """
    if commit == ".":
        yield ROOT
        return
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", full_hash(commit), "flowref"],
        check=True,
        capture_output=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)


def plain(text: str) -> str:
    """A parameter as asv writes it, without quotes."""
    return re.sub(r"^'(.*)'$", r"\1", text)
