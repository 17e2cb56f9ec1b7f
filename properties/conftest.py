"""Settings of all properties: one thread, the same draws in every run, and no files left behind by
Hypothesis.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from flowref.pytest import plugin

# Before torch is imported: worker processes of pytest-xdist share few cores, and sums must not
# depend on their number.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """The plugin is that of this tree, also where flowref is not installed."""
    if not pluginmanager.hasplugin("flowref"):
        pluginmanager.register(plugin, "flowref")


settings.register_profile(
    "properties", derandomize=True, database=None, deadline=None, print_blob=False
)
settings.load_profile("properties")


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
