"""The pytest plugin: one test for each pair of a target and a law.

`conformance` decorates a test function; ``[[tool.flowref.target]]`` in pyproject.toml needs none.
Nothing here imports a framework, nor the laws, before a test of flowref is collected.
"""

from flowref.pytest.conformance import conformance
from flowref.pytest.pair import Pair

__all__ = ["Pair", "conformance"]
