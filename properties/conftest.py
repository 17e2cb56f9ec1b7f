"""Settings of all properties: one thread, the same draws in every run, and no files left behind by
Hypothesis.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from flowref.pytest import plugin
from rows import DEEP

# Before torch is imported: worker processes of pytest-xdist share few cores, and sums must not
# depend on their number.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Lines are folded alike wherever the tests run.
os.environ["COLUMNS"] = "100"


# Of tests whose rows take long, how many are run by default (reports/tools/durations.py).
ROWS = json.loads((Path(__file__).parent / "rows.json").read_text(encoding="utf-8"))
# Seconds since 1970: where continuous integration has a limit, no test begins after it (.ci/run).
UNTIL = os.environ.get("FLOWREF_UNTIL")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """The plugin is that of this tree, also where flowref is not installed."""
    parser.addoption("--all-rows", action="store_true", help="Rows that take long are not deep.")
    if not pluginmanager.hasplugin("flowref"):
        pluginmanager.register(plugin, "flowref")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Rows beyond those that are run by default are marked ``deep``. Where time is limited, each commit
    begins with other files, so that a slow machine leaves out other ones each time.
    """
    if UNTIL is not None:
        commit = head()
        items.sort(key=lambda item: hashlib.sha256(f"{commit}{item.path.name}".encode()).digest())
    if config.getoption("--all-rows"):
        return
    seen: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0].removeprefix("properties/")
        if test in ROWS and item.get_closest_marker("deep") is None:
            seen[test] += 1
            if seen[test] > ROWS[test]:
                item.add_marker(DEEP)


def head() -> str:
    """The name of the commit that is tested; "" outside of a repository."""
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return asked.stdout.strip()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What has no time left is skipped, and counted in the summary."""
    if UNTIL is not None and time.time() > float(UNTIL):
        pytest.skip("not run: no time is left (FLOWREF_UNTIL)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Processor seconds of a test without its fixtures are written into the file of ``--junitxml``; those
    of the clock depend on what else runs.
    """
    begun = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        item.user_properties.append(("processor", f"{sum(os.times()[:4]) - begun:.3f}"))


settings.register_profile(
    "properties", derandomize=True, database=None, deadline=None, print_blob=False
)
settings.load_profile("properties")


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """A property draws the same wherever, and after whatever, it runs."""
    import random
    import sys

    seed = int.from_bytes(hashlib.sha256(request.node.name.encode()).digest()[:4])
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed)
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(
            seed
        )  # that of other devices takes longer than most properties


@pytest.fixture(autouse=True)
def same_directory_and_dtype() -> Iterator[None]:
    """A property leaves the working folder and torch's default dtype as it found them."""
    before = os.getcwd()
    yield
    os.chdir(before)
    import sys

    torch = sys.modules.get("torch")
    if torch is not None:
        assert torch.get_default_dtype() is torch.float32, (
            "a property changed torch's default dtype"
        )
