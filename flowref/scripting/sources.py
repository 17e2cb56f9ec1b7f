"""Where a live function, class or constant stands in the source of its module, and edits of that
text by position.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

Function = ast.FunctionDef | ast.Lambda
# A replacement of the characters from start to end of a module's text.
Edit = tuple[int, int, str]
REMARKS = re.compile(r"[ \t]*# (?:type: ignore|noqa)\b.*$", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Source:
    """The text of a module with its syntax tree."""

    text: str
    tree: ast.Module
    starts: tuple[int, ...]

    def place(self, line: int, column: int) -> int:
        """The character at a line and a column as syntax trees count them: in bytes."""
        start = self.starts[line - 1]
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return start + len(self.text[start:end].encode()[:column].decode(errors="ignore"))

    def span(self, node: Any) -> tuple[int, int]:
        """First and last character of a node; decorators are left out."""
        return self.place(node.lineno, node.col_offset), self.place(
            node.end_lineno, node.end_col_offset
        )

    def lines(self, node: Any) -> tuple[int, int]:
        """The whole lines that a node stands on."""
        end = self.starts[node.end_lineno] if node.end_lineno < len(self.starts) else len(self.text)
        return self.starts[node.lineno - 1], end

    def edited(self, start: int, end: int, edits: Iterable[Edit]) -> str:
        """The text from start to end with the edits made; an edit inside another one is dropped."""
        pieces, at = [], start
        for first, last, text in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
            if first >= at and last <= end:
                pieces += [self.text[at:first], text]
                at = last
        return "".join([*pieces, self.text[at:end]])


@functools.cache
def source_of(module: str) -> Source:
    """The source of an imported module."""
    text = inspect.getsource(sys.modules[module])
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return Source(text, ast.parse(text), tuple(starts))


def tidy(text: str) -> str:
    """A definition flush left, without remarks to type checkers and linters."""
    return re.sub(r"\n\s*\n\s*\n", "\n\n", REMARKS.sub("", textwrap.dedent(text))).rstrip()


def written(function: FunctionType) -> FunctionType:
    """The function as written: a context manager's generator rather than what the decorator made of
    it.
    """
    while function.__code__.co_filename != inspect.getsourcefile(sys.modules[function.__module__]):
        inner = getattr(function, "__wrapped__", None)  # set by functools.wraps
        if inner is None:  # of a frozen module, whose code is in no file
            break
        function = inner
    return function


def home(function: FunctionType) -> str:
    """The module that a function was written in."""
    return str(function.__globals__["__name__"])


def function_node(function: FunctionType) -> tuple[Source, Function]:
    """The definition of a function, nested ones and lambdas included."""
    return _node_of(function.__code__, home(function))


@functools.cache
def _node_of(code: CodeType, module: str) -> tuple[Source, Function]:
    source = source_of(module)
    found: list[Function] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno:
                found.append(node)
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and _holds(node.body, code):
            found.append(node)
    # Of lambdas inside one another, the innermost that holds all of the code.
    return source, min(found, key=lambda node: source.span(node)[1] - source.span(node)[0])


def _holds(node: ast.expr, code: Any) -> bool:
    """Whether the instructions of a code object were compiled from a node."""
    first, last = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    places = [place for place in code.co_positions() if None not in place and place[3] != place[2]]
    return bool(places) and all(
        first <= (line, column) and (end_line, end) <= last
        for line, end_line, column, end in places
    )


def class_node(kind: type) -> tuple[Source, ast.ClassDef]:
    """The definition of a class at the top of a module."""
    source = source_of(kind.__module__)
    for node in source.tree.body:
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            return source, node
    raise LookupError(f"{kind.__qualname__} is defined inside a function")


def defined_by_call(kind: type) -> bool:
    """Whether a class comes from a call of ``namedtuple`` rather than from a class statement."""
    body = source_of(kind.__module__).tree.body
    return hasattr(kind, "_fields") and not any(
        isinstance(node, ast.ClassDef) and node.name == kind.__name__ for node in body
    )


def constant_node(module: str, name: str) -> tuple[Source, ast.expr] | None:
    """The expression that a module gives a name, or None where it is given more than once, or
    otherwise.
    """
    source, found, count = source_of(module), None, 0
    for node in ast.walk(source.tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign | ast.AugAssign) else targets
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            count += 1
            found = getattr(node, "value", None)
    return (source, found) if count == 1 and found is not None else None
