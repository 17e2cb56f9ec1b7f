"""Objects that hold no arrays are JAX's by what their functions and the modules of their classes import."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("jax", reason="what is JAX's is checked where JAX is installed")

from flowref.backends.jax.jax_objects import owns

# Modules of a library, by what stands in each. The class is in the first.
FACADE = {"maps": "from maps_of import arrays", "maps_of.arrays": "import jax.numpy as jnp"}
INNER = {"lib.maps": "from lib import arrays", "lib.arrays": "import jax.numpy as jnp"}
DIRECT = {"maps": "import jax"}
NEITHER = {"maps": "import numpy"}
BOTH = {"maps": "import jax\nimport sys\ntorch = type(sys)('torch')"}
CLASS = "\nclass Tanh:\n    def forward(self, x):\n        return x\n"


def library(monkeypatch: pytest.MonkeyPatch, sources: dict[str, str]) -> type:
    """The class of a library whose modules are these."""
    for name in reversed(sources):
        module = ModuleType(name)
        package = sys.modules.get(name.partition(".")[0]) or ModuleType(name.partition(".")[0])
        package.__path__ = []
        monkeypatch.setitem(sys.modules, package.__name__, package)
        monkeypatch.setitem(sys.modules, name, module)
        if "." in name:
            setattr(package, name.partition(".")[2], module)
        exec(sources[name] + CLASS, vars(module))
    kind: type = vars(sys.modules[next(iter(sources))])["Tanh"]
    return kind


def pair(made: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Closures of an object, that use nothing else."""
    return lambda x: made.forward(x), lambda y: made.forward(y)


@pytest.mark.parametrize("form", [lambda made: made, pair])
@pytest.mark.parametrize(
    ("sources", "expected"),
    [(DIRECT, True), (INNER, True), (FACADE, False), (NEITHER, False), (BOTH, False)],
)
def test_a_class_without_arrays_is_of_what_its_library_imports(
    monkeypatch: pytest.MonkeyPatch, sources: dict[str, str], expected: bool, form: Any
) -> None:
    """A class whose library imports JAX alone is JAX's, and so are functions that close over its objects."""
    assert owns(form(library(monkeypatch, sources)())) is expected
