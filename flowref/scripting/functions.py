"""The source of functions: the syntax tree of one, and the values of its free names."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

from flowref.scripting.names import Unwritable

Node = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True, eq=False)
class Function:
    """A function or lambda: its tree, its defaults by parameter, and the values of its free names."""

    node: Node
    name: str
    around: dict[str, Any]
    defaults: dict[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> list[ast.stmt]:
        """The statements, without the docstring."""
        if isinstance(self.node, ast.Lambda):
            return [ast.Return(self.node.body)]
        first = self.node.body[0]
        documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        return self.node.body[1:] if documented else self.node.body


def function_of(value: FunctionType) -> Function:
    """Return a live function as it was written. Raises: `Unwritable` if its source is unavailable."""
    cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=True))
    around = {**vars(builtins), **value.__globals__}
    around |= {name: cell.cell_contents for name, cell in cells.items()}
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(value).parameters.items()
        if parameter.default is not parameter.empty
    }
    return Function(_function_node(value), value.__name__, around, defaults)


def _function_node(value: FunctionType) -> Node:
    """The tree of a function, found by its line and, among several lambdas, by its columns."""
    try:
        tree = _tree(inspect.getsourcefile(value) or "")
    except (OSError, TypeError, SyntaxError):
        raise Unwritable(f"the source of {value.__qualname__} is not at hand") from None
    line = value.__code__.co_firstlineno
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) if name == value.__name__:
                lines = [node.lineno, *(one.lineno for one in node.decorator_list)]
                if line in lines:
                    return node
            case ast.Lambda(lineno=start) if start == line and value.__name__ == "<lambda>":
                if all(_contains_position(node.body, *position) for position in _positions(value)):
                    return node
    raise Unwritable(f"the source of {value.__qualname__} is not where it was")


def _positions(value: FunctionType) -> Iterator[tuple[int, int]]:
    """Lines and columns of a lambda's instructions, without those of the whole."""
    for line, _, column, _ in list(value.__code__.co_positions())[1:]:
        if line and column is not None and (line, column) != (value.__code__.co_firstlineno, 0):
            yield line, column


def _contains_position(node: ast.expr, line: int, column: int) -> bool:
    end = (node.end_lineno or 0, node.end_col_offset or 0)
    return (node.lineno, node.col_offset) <= (line, column) < end


@functools.cache
def _tree(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text(encoding="utf-8"))
