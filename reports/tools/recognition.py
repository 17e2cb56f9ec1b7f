"""Write `reports/recognition.txt`: what every healthy specimen, and every strange form of the tests, is recognized as, a
line each. Who changes how flowref reads code compares it with what was read before.

Usage: `python reports/tools/recognition.py [--check]`. With `--check` nothing is written, and lines that differ are
shown. Exit code: 0, or 1 where `--check` found a difference. It takes some minutes.
"""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from flowref import registry
from flowref.loading import recipe_of
from flowref.model import FlowrefError

REPORTS = Path(__file__).parents[1]
HOME = REPORTS.parent
PAGE = REPORTS / "recognition.txt"
STRANGE = ("strange", "formed", "naming")
JAX = "flowref_zoo.jax_specimens"


def specs() -> list[str]:
    """Healthy specimens of torch, and strange forms, by the specs under which they are audited."""
    twins = [spec for spec in sorted(registry.specimens()) if not spec.startswith(JAX)]
    files = [f"properties/adapters/{name}.py" for name in STRANGE]
    return [*twins, *(str(target) for file in files for target in registry.listing(file).targets)]


def line(spec: str) -> str:
    """What one of them is recognized as, or why it is left out."""
    warnings.simplefilter("ignore")
    try:
        told = recipe_of(registry.parse_target(spec)).recognized
    except FlowrefError as error:
        said = f"left out: {error}"
    else:
        event = ",".join(map(str, told.event_shape))
        said = "; ".join([f"{told.kind} ({event})", *told.conventions, *told.hints])
    return f"{spec}: {' '.join(said.split())}".replace(f"{HOME}/", "")


def main() -> int:
    """See the docstring of the module."""
    os.chdir(HOME)
    with ProcessPoolExecutor() as pool:
        text = "\n".join(pool.map(line, specs(), chunksize=8)) + "\n"
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    before = PAGE.read_text(encoding="utf-8").splitlines()
    changes = list(
        difflib.unified_diff(before, text.splitlines(), "before", "now", lineterm="", n=0)
    )
    print("\n".join(changes))
    return int(bool(changes))


if __name__ == "__main__":
    sys.exit(main())
