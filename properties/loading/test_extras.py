"""Packages that are missing: whoever needs one names the extra of flowref that brings it."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import pytest

import flowref
from flowref import backends, registry
from flowref.auditing import cluster
from flowref.backends.torch import weight_files
from flowref.loading.data import open_rows
from flowref.loading.user_code import import_place
from flowref.model import FlowrefError
from flowref.model.extras import DISTRIBUTIONS, import_optional, installation, missing
from flowref.registry import catalogue
from flowref.training.extras import package

PACKAGE = Path(flowref.__file__).parent
PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# Module that is missing -> the extra that the refusal names, and who needs it.
REFUSALS: list[tuple[str, str, Callable[[], Any]]] = [
    ("torch", "torch", lambda: backends.find("torch")),
    ("torch", "torch", lambda: backends.of(object())),
    ("torch", "torch", lambda: registry.components.__wrapped__("reference")),
    ("torch", "torch", lambda: registry.components.__wrapped__("torch")),
    ("torch", "torch", lambda: import_place("needs_torch.py")),
    ("torch", "torch", lambda: import_place("needs_torch.ipynb")),
    ("zuko", "libraries", lambda: import_place("needs_zuko.py")),
    ("flowjax", "jax", lambda: import_place("needs_flowjax.py")),
    ("torch", "training", lambda: package("torch")),
    ("jax", "jax", lambda: backends.find("jax")),
    ("jax", "jax", lambda: import_place("needs_jax.py")),
    ("pyarrow", "parquet", lambda: open_rows("points.parquet")),
    ("safetensors", "weights", lambda: weight_files.content_of(Path("w.safetensors"))),
    ("safetensors", "training", lambda: package("safetensors.torch")),
    ("sklearn", "training", lambda: package("sklearn.datasets")),
    ("matplotlib", "training", lambda: package("matplotlib")),
    ("PIL", "training", lambda: package("PIL.Image")),
    ("distributed", "dask", lambda: cluster._client("tcp://127.0.0.1:9")),
    *(
        (adapter.package, adapter.extra or ("libraries" if adapter.backend == "torch" else adapter.backend),
         lambda name=name: registry.components.__wrapped__(name))
        for name, adapter in registry.adapters().items()
        if adapter.package not in ("", "torch", "flowref")
    ),
]  # fmt: skip


def brought(extra: str) -> Iterator[str]:
    """The distributions that an extra asks for."""
    for requirement in EXTRAS[extra]:
        if inner := re.match(r"flowref\[(.*)\]", requirement):
            for other in inner[1].split(","):
                yield from brought(other)
        else:
            yield re.split(r"[<>=\[ ;]", requirement)[0]


@dataclass(frozen=True)
class Without(MetaPathFinder):
    """As if a package were not installed."""

    package: str

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Nothing; it is not looked for elsewhere either."""
        if fullname.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {self.package!r}", name=self.package)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files whose reading needs something."""
    monkeypatch.chdir(tmp_path)
    for module in ("torch", "jax.numpy", "zuko", "flowjax.bijections"):
        Path(f"needs_{module.partition('.')[0]}.py").write_text(f"import {module}\n")
    Path("needs_torch.ipynb").write_text(
        '{"cells": [{"cell_type": "code", "source": ["import torch"]}], "metadata": {}}'
    )
    Path("points.parquet").write_bytes(b"PAR1")
    Path("w.safetensors").write_bytes(b"\x02" + bytes(7) + b"{}")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("module", "extra", "use"), REFUSALS)
def test_a_missing_package_names_its_extra(
    module: str, extra: str, use: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal for want of a package is one sentence with the command that installs it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Without(module), *sys.meta_path])
    with pytest.raises(FlowrefError) as refused:
        use()
    assert f"`pip install 'flowref[{extra}]'` installs it" in str(refused.value)
    assert "\n" not in str(refused.value)


OTHER_NAMES = DISTRIBUTIONS | {"pyro": "pyro-ppl", "tensorflow_probability": "tfp-nightly"}
# What comes with another package of its extra.
INDIRECT = {"flax", "scipy"}


@pytest.mark.parametrize(
    ("module", "extra"), sorted({(module, extra) for module, extra, _ in REFUSALS})
)
def test_the_extra_brings_the_package(module: str, extra: str) -> None:
    """The extra that a refusal names asks for what was missing."""
    assert module in INDIRECT or OTHER_NAMES.get(module, module) in brought(extra)


def test_every_installation_is_written_in_one_place() -> None:
    """No other module spells a command that installs an extra."""
    spelled = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and "pip install 'flowref[" in str(node.value)
    }
    assert spelled == {"model/extras.py"}


def test_a_source_tree_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no flowref is installed an index may have none, or another: the folder of the source is
    what pip is given.
    """

    def absent(name: str) -> Any:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    assert installation("weights") == f"pip install '{PACKAGE.parent}[weights]'"
    assert (PACKAGE.parent / "pyproject.toml").is_file()


def test_who_needs_it_comes_first() -> None:
    """The sentence begins with who needs the package, where that is known."""
    assert missing("zict", "dask").startswith("zict is not installed; `pip install")
    assert missing("zict", "dask", "--x").startswith("--x needs zict, which is not installed; `pip")


def test_what_a_package_misses_itself_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is there and lacks one of its own is not said to be missing."""
    (tmp_path / "incomplete.py").write_text("import what_is_nowhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="what_is_nowhere"):
        import_optional("incomplete", "weights")


def test_a_library_of_another_distribution_is_named_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Our extras do not bring what others' adapters are about."""
    adapter = registry.adapters()["zuko"]
    monkeypatch.setattr(adapter.components, "__module__", "toyflows.flowref")
    assert catalogue._installation(adapter) == "pip install zuko"
