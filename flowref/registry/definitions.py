"""Top-level definitions of a Python file, read from its source: nothing is imported, so that mistyped paths
and names are reported before a framework starts.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from flowref.model import USER, Target, TargetError, nearest
from flowref.registry.catalogue import adapters

# Endings of a target's file, and that of Python.
SUFFIXES = (".py", ".ipynb")
# Functions and attributes that may define further names.
DYNAMIC = frozenset({"setattr", "globals", "exec", "eval", "vars", "locals"})
HELD = frozenset({"__dict__", "modules"})
INDENTED = (ast.If, ast.Try, ast.With, ast.For, ast.While, ast.Match)


@dataclass(frozen=True)
class Definitions:
    """``place``: the file or module as named. ``values``: name -> class, function, import, assigned
    expression, or None. ``certain``: whether no other names can exist.
    """

    place: str
    values: dict[str, ast.AST | None] = field(default_factory=dict)
    certain: bool = True

    @property
    def public(self) -> list[str]:
        """Names without leading underscore."""
        return [name for name in self.values if not name.startswith("_")]


def is_file(place: str) -> bool:
    """Whether a place is a path rather than the dotted name of a module."""
    return place.endswith(SUFFIXES) or any(sign in place for sign in "/\\")


def nearest_file(path: Path, suffixes: tuple[str, ...]) -> str:
    """A hint with similarly named files next to a missing one."""
    folder = path.parent if path.parent.is_dir() else Path()
    files = [one for one in folder.iterdir() if one.suffix in suffixes]
    return nearest(path.name, [one.name for one in files if nearest(path.stem, [one.stem])])


def source_of_module(name: str) -> Path | None:
    """The file of a module by dotted name, found without importing a package; None if unknown.

    Raises `TargetError` if there is none.
    """
    first, *rest = name.split(".")
    here = [Path(first), Path(f"{first}.py")]
    if any(path.exists() for path in here):
        folder = Path()
    else:
        try:
            spec = importlib.util.find_spec(first)
        except (ImportError, ValueError):
            return None
        if spec is None:
            beside = nearest(first, sorted(path.stem for path in Path().glob("[!_.]*.py")))
            hint = beside or nearest(first, adapters())
            raise TargetError(f"there is no module {first!r} here{hint}")
        if not spec.origin or not spec.origin.endswith(".py"):
            return None
        folder = Path(spec.origin).parent
        folder = folder.parent if spec.submodule_search_locations else folder
    path = folder.joinpath(first, *rest)
    found = (path / "__init__.py", path.with_name(f"{path.name}.py"))
    return next((one for one in found if one.is_file()), None)


def definitions(place: str) -> Definitions | None:
    """The definitions of a file or module; None if the source does not determine them.

    Raises `TargetError` in one sentence if it does not exist or is not valid Python.
    """
    path = Path(place) if is_file(place) else source_of_module(place)
    if path is None:
        return None
    if not path.is_file():
        raise TargetError(f"no such file: {path}{nearest_file(path, SUFFIXES)}")
    if path.suffix != ".py":
        return None
    return _parse_definitions(place, path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=256)
def _parse_definitions(place: str, path: Path, _: int) -> Definitions:
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"{path}:{line}" if line else str(path)
        raise TargetError(
            f"{where}: {getattr(error, 'msg', error)}; it is not valid Python"
        ) from error
    values: dict[str, ast.AST | None] = {}
    for statement in _top_level_statements(tree.body):
        values |= _defined_names(statement)
    return Definitions(
        place, values, path.name != "__init__.py" and not _may_define_dynamically(tree)
    )


def _top_level_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Top-level statements, including those below if and try."""
    for statement in body:
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            continue  # a main block, which imports skip
        yield statement
        if isinstance(statement, INDENTED):
            for part in ast.iter_child_nodes(statement):
                if isinstance(part, ast.stmt):
                    yield from _top_level_statements([part])
                elif isinstance(part, ast.ExceptHandler | ast.match_case):
                    yield from _top_level_statements(part.body)


def _defined_names(statement: ast.stmt) -> dict[str, ast.AST | None]:
    match statement:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return {statement.name: statement}
        case ast.Import() | ast.ImportFrom():
            names = (one.asname or one.name.partition(".")[0] for one in statement.names)
            return dict.fromkeys(names, statement)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return {name: value}
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
            return {name: value}
    own = [one for one in ast.walk(statement) if isinstance(one, ast.Name)]
    return {one.id: None for one in own if isinstance(one.ctx, ast.Store)}


def _may_define_dynamically(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]) | ast.Global():
                return True
            case ast.FunctionDef(name="__getattr__") if node in tree.body:
                return True
            case ast.Name(id=name) if name in DYNAMIC:
                return True
            case ast.Attribute(attr=name) if name in HELD:
                return True
    return False


def vet_target(target: Target) -> None:
    """Check a user's target without importing it.

    Raises `TargetError` in one sentence if the file is missing, not valid Python, or does not define the
    name; unresolved cases are left to the import.
    """
    if target.adapter != USER:
        return
    place, _, name = target.component.rpartition(":")
    if place in sys.modules:
        return
    found = definitions(place)
    first = name.partition(".")[0]
    if found is None or not found.certain or first in found.values or first.startswith("__"):
        return
    imports = (ast.Import, ast.ImportFrom)
    own = [name for name in found.public if not isinstance(found.values[name], imports)]
    raise TargetError(
        f"{place} has no {first!r}{nearest(first, own)}{_definition_names_text(found)}"
    )


def _definition_names_text(found: Definitions) -> str:
    """The classes and functions of a file as text, if they are few."""
    defined = (ast.ClassDef, ast.FunctionDef)
    names = [name for name in found.public if isinstance(found.values[name], defined)]
    return f"; it defines {', '.join(names)}" if 0 < len(names) < 9 else ""
