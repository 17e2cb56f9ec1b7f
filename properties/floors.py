"""Which room of flowref may import which, read off the source: the rules that `test_floors` holds
the tree to.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "flowref"

# Room -> the rooms that it may import, besides itself and the version in `flowref`. Read downwards:
# nobody imports upwards, and no two rooms import each other.
FLOORS: dict[str, set[str]] = {
    "model": set(),
    "laws": {"model"},
    "backends": {"model"},
    "reference": {"model"},
    "adapters": {
        "model",
        "reference",
        "backends",
    },  # to run what is probed as cheaply as what is judged
    "registry": {"model", "backends"},
    "reporting": {"model"},
    "baseline": {"model", "registry", "reporting"},
    "scorecard": {"model", "registry", "reporting"},
    "loading": {"model", "registry", "adapters", "backends"},
    "checking": {"model", "registry", "loading"},
    "proving": {"model", "loading"},
    "diagnosing": {"model", "laws", "registry", "loading", "checking", "proving"},
    "auditing": {
        "model",
        "registry",
        "loading",
        "checking",
        "diagnosing",
        "reporting",
        "baseline",
        "backends",
    },
    "scripting": {"model", "registry", "loading", "reporting", "backends"},
    "training": {"model", "reference", "auditing", "reporting"},
    "watching": {"model", "registry", "loading", "checking", "diagnosing", "reporting"},
    "cli": {
        "model",
        "registry",
        "loading",
        "checking",
        "proving",
        "reporting",
        "baseline",
        "auditing",
        "scripting",
        "training",
        "watching",
        "scorecard",
    },
    "pytest": {
        "model",
        "registry",
        "loading",
        "checking",
        "diagnosing",
        "reporting",
        "baseline",
        "auditing",
    },
    "__main__": {"cli"},
    "__init__": {
        "model",
        "checking",
        "diagnosing",
        "reporting",
        "auditing",
        "pytest",
        "scorecard",
        "watching",
    },
}
# Packages of which only one folder of backends knows, which nobody else imports either.
FRAMEWORKS = ("torch", "jax")
BESIDE_FRAMEWORKS = ("backends", "scripting")
# Third-party packages -> the rooms that may import them at all.
FOREIGN: dict[str, set[str]] = {
    "torch": {"backends", "reference", "adapters", "scripting", "training", "watching"},
    "jax": {"backends", "adapters", "scripting", "watching"},
    "equinox": {"adapters", "backends"},  # what flowjax is written in, and what saves pytrees
    "flax": {"adapters"},  # what bijx is written in
    "hypothesis": {"checking"},
    "numpy": {
        "model", "laws", "checking", "diagnosing", "proving", "backends", "adapters", "loading", "scripting", "training",
        "watching",
    },
    "scipy": {"laws", "backends", "adapters"},
    "click": {"cli"},
    "jinja2": {"scorecard"},
    "markupsafe": {"scorecard"},
    "pytest": {"pytest"},
    "distributed": {"auditing"},
    "rich": {"cli"},
}  # fmt: skip


def libraries(root: Path) -> dict[str, str]:
    """Folder of adapters -> the package that it alone may import, the ``package`` of its `Adapter`;
    those aside that other rooms import as well.
    """
    packages = {}
    for path in sorted((root / PACKAGE / "adapters").glob("*/adapter.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "package":
                packages[path.parent.name] = ast.literal_eval(node.value)
    return {
        folder: package
        for folder, package in packages.items()
        if package not in ("", PACKAGE, *FOREIGN)
    }


LIBRARIES = libraries(Path(__file__).parent.parent)


@dataclass(frozen=True, order=True)
class Import:
    """One import of one module: by whom, of what, and whether it runs when the importer is
    imported.
    """

    by: str
    line: int
    of: str
    eager: bool


def modules(root: Path) -> Iterator[tuple[str, ast.Module]]:
    """The dotted name and the syntax tree of every module of the package in a folder."""
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts), ast.parse(path.read_text(encoding="utf-8"))


def imports(name: str, tree: ast.Module) -> Iterator[Import]:
    """The imports of a module; ``from a import b`` counts as an import of a.b. Those for type
    checkers are left out.
    """
    for node, eager in _walk(tree, True):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(name, node.lineno, alias.name, eager)
        if isinstance(node, ast.ImportFrom):
            home = name.split(".")[: -node.level] if node.level else []
            place = ".".join([*home, *filter(None, [node.module])])
            for alias in node.names:
                yield Import(name, node.lineno, f"{place}.{alias.name}", eager)


def _walk(node: ast.AST, eager: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child, eager
        yield from _walk(
            child,
            eager and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda),
        )


def faults(root: Path) -> list[str]:
    """Every import that breaks a rule, as "module:line: why", sorted."""
    found = (
        fault
        for name, tree in modules(root)
        for item in imports(name, tree)
        for fault in _faults(item)
    )
    return sorted(set(found))


def _faults(item: Import) -> Iterator[str]:
    here, of = item.by.split("."), item.of.split(".")
    room, place = here[1], f"{item.by}:{item.line}"
    if room not in FLOORS:
        yield f"{place}: the room {room} has no floor; give it one in properties/floors.py"
    elif of[0] == PACKAGE:
        yield from _inside(place, here, of)
    elif of[0] in LIBRARIES.values():
        if room != "adapters" or LIBRARIES.get(_library(here)) != of[0]:
            yield f"{place}: only the adapter of {of[0]} imports it"
        elif item.eager:
            yield f"{place}: {of[0]} is imported inside functions only, so that naming the adapter does not load it"
    elif of[0] in FOREIGN:
        if room not in FOREIGN[of[0]]:
            yield f"{place}: {room} does not import {of[0]}"
        elif of[0] in FRAMEWORKS and room == "backends" and here[2:3] != [of[0]]:
            yield f"{place}: only backends/{of[0]} imports {of[0]}"
        elif of[0] in FRAMEWORKS and room == "adapters" and item.eager:
            yield f"{place}: {of[0]} is imported inside functions only, so that listing names does not load it"
    elif of[0] not in sys.stdlib_module_names and of[0] != "__future__":
        yield f"{place}: no room may import {of[0]}; it is no dependency of flowref"


def circles(root: Path) -> list[list[str]]:
    """Modules that import each other, directly or by way of others, lazily or not; sorted."""
    trees = {name.removesuffix(".__init__"): (name, tree) for name, tree in modules(root)}
    below = {
        module: {_module(item.of, trees) for item in imports(name, tree)} - {module, ""}
        for module, (name, tree) in trees.items()
    }
    while leaves := {module for module, others in below.items() if not others & set(below)}:
        below = {module: others for module, others in below.items() if module not in leaves}
    reach = {module: set(others) for module, others in below.items()}
    for middle in below:
        for module in below:
            if middle in reach[module]:
                reach[module] |= reach[middle]
    groups = {
        tuple(sorted(other for other in reach[module] if module in reach.get(other, ())))
        for module in below
        if module in reach[module]
    }
    return [list(group) for group in sorted(groups)]


def _module(imported: str, known: Iterable[str]) -> str:
    """The module of the package that an imported name stands in; empty for another's."""
    while imported and imported not in known:
        imported = imported.rpartition(".")[0]
    return imported


def _inside(at: str, here: list[str], of: list[str]) -> Iterator[str]:
    """Faults of an import within the package."""
    room, target = here[1], of[1] if len(of) > 1 else "__init__"
    if target in FLOORS and target not in (room, "__init__") and target not in FLOORS[room]:
        yield f"{at}: {room} does not import {target}"
    if target == "backends" and of[2:3] and of[2] in FRAMEWORKS and room not in BESIDE_FRAMEWORKS:
        yield f"{at}: a framework is reached by its name, through flowref.backends"
    if room == "adapters" == target and len(of) > 3 and of[2] not in (here[2], "common"):
        yield f"{at}: an adapter imports no other adapter, only what is common to several"


def _library(here: list[str]) -> str:
    """The folder of adapters that a module belongs to."""
    return here[2] if len(here) > 2 else ""
