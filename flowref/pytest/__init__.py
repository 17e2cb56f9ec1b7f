"""The pytest plugin: one test for each pair of a target and a law.

`conformance` decorates a test function; ``[[tool.flowref.target]]`` in pyproject.toml needs none.
Neither frameworks nor laws are imported before a test of flowref is collected.
"""

from flowref.pytest.conformance import conformance
from flowref.pytest.pair import Pair

__all__ = ["Pair", "conformance"]
