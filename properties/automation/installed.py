"""A stranger's first commands, by an installed flowref: run with ``python -P`` of an environment that
has flowref, torch and pytest, and nothing of this repository.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FLOWS = '''
import torch


class Right:
    """z = 2 x."""

    event_shape = (3,)

    def forward(self, x):
        return 2 * x, 3 * torch.full((len(x),), 2.0, dtype=x.dtype).log()

    def inverse(self, z):
        return z / 2, -3 * torch.full((len(z),), 2.0, dtype=z.dtype).log()


class Wrong(Right):
    """One of three factors is missing from the log-determinant."""

    def forward(self, x):
        return 2 * x, 2 * torch.full((len(x),), 2.0, dtype=x.dtype).log()
'''
TESTS = """
import flowref.pytest
from flows import Right, Wrong


@flowref.pytest.conformance(
    {"right": Right(), "wrong": Wrong()}, laws=["map/log-det", "map/inverse[latents]"]
)
def test_laws(pair):
    pair.check()
"""
QUICK = ["--laws", "map/log-det,map/inverse[latents]", "--profile", "quick", "-j", "1"]


def run(*words: str, code: int = 0) -> str:
    """The output of a command, which has to end with a code."""
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        words, env={**alone, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    output = done.stdout + done.stderr
    assert done.returncode == code, f"{words} ended with {done.returncode}: {output}"
    return output


def main() -> None:
    """Raise AssertionError at the first command that does not do what it should."""
    import flowref

    home = Path(flowref.__file__).resolve()
    assert REPOSITORY not in home.parents or Path(sys.prefix).resolve() in home.parents, home
    assert not [one for one in sys.path if one and Path(one).resolve() == REPOSITORY]
    version = importlib.metadata.version("flowref")
    assert version == flowref.__version__, version
    command = str(Path(sysconfig.get_path("scripts")) / "flowref")
    for words in ([command], [sys.executable, "-P", "-m", "flowref"]):
        assert version in run(*words, "--version")
    assert "audit" in run(command, "--help")
    assert len(run(command, "laws").splitlines()) > 200
    assert "map/log-det" in run(command, "explain", "map/log-det")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("flows.py").write_text(FLOWS)
        Path("test_flows.py").write_text(TESTS)
        run(command, "audit", "flows.py:Right", *QUICK)
        output = run(command, "audit", "flows.py:Wrong", *QUICK, "--html", "card.html", code=1)
        assert "map/log-det" in output, output
        assert "</html>" in Path("card.html").read_text(encoding="utf-8")
        output = run(sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider", code=1)
        failed = [line for line in output.splitlines() if line.startswith("FAILED")]
        assert len(failed) == 1, output
        assert "wrong" in failed[0] and "map/log-det" in failed[0], output
        assert " passed" in output, output
        os.chdir(os.sep)
    print(f"flowref {version} works from {home.parent}")


if __name__ == "__main__":
    main()
