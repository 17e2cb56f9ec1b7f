"""The source location of a user's target, for reports."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import sys
from pathlib import Path
from typing import Any

from flowref.loading.live_objects import LIVE
from flowref.loading.source import Source
from flowref.loading.user_code import target_value
from flowref.model import OBJECT, USER, Target

NOWHERE = ("", 0)
# Installed packages are not the user's code, even inside the repository.
INSTALLED = ("site-packages", "dist-packages")


def definition_location(source: Source) -> tuple[str, int]:
    """The file and line of a target's factory, class or object, relative to the root of the repository
    around the working directory; ("", 0) if outside or unknown.
    """
    target = source.target
    if target.adapter not in (USER, OBJECT):
        return NOWHERE
    with contextlib.suppress(Exception):  # objects may raise anything here
        file, line = defined_at(target)
        path = Path(file).resolve().relative_to(root_of(Path.cwd()))
        if not set(INSTALLED) & set(path.parts):
            return path.as_posix(), line
    return NOWHERE


def root_of(folder: Path) -> Path:
    """The root of the repository around a folder, else the folder."""
    resolved = folder.resolve()
    holding = (one for one in (resolved, *resolved.parents) if (one / ".git").exists())
    return next(holding, resolved)


def defined_at(target: Target) -> tuple[str, int]:
    """The file and line of a user's factory, class or object.

    Raises if there is none, or if importing it raises.
    """
    if target.adapter == OBJECT:
        return _file_and_line(type(LIVE[target]))
    module, _, name = target.component.rpartition(":")
    if module.endswith(".ipynb"):
        return module, 1
    value = target_value(target)
    while isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, type) or inspect.isroutine(value):
        return _file_and_line(value)
    file = module if module.endswith(".py") else sys.modules[module].__file__
    assert file is not None
    line = _last_assignment_line(Path(file), name)
    return (file, line) if line else _file_and_line(type(value))


def _file_and_line(value: Any) -> tuple[str, int]:
    plain = inspect.unwrap(value)
    file = inspect.getsourcefile(plain)
    assert file is not None
    return file, inspect.getsourcelines(plain)[1]


def _last_assignment_line(file: Path, name: str) -> int:
    """The last top-level line that assigns a name; 0 if there is none."""
    lines = [
        statement.lineno
        for statement in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name
    ]
    return lines[-1] if lines else 0
