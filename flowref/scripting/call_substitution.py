"""Substitution of calls: ``forward(x)`` of a template becomes the user's expression, if it is a
single one.
"""

from __future__ import annotations

import ast

from flowref.scripting.layout import requoted
from flowref.scripting.operands import is_name, substitute_name

PRIMARY = (ast.Call, ast.Subscript, ast.Attribute, ast.Name)
Functions = dict[str, list[str]]


def put_in(lines: list[str], functions: Functions) -> tuple[list[str], Functions]:
    """Return the lines with calls of one-line functions substituted, and the remaining functions."""
    kept = dict(functions)
    for name, definition in functions.items():
        tree = ast.parse("\n".join(definition)).body
        function = tree[-1]
        if len(tree) > 1 or not isinstance(function, ast.FunctionDef) or len(function.body) > 1:
            continue
        value, taken = function.body[0], [argument.arg for argument in function.args.args]
        if not isinstance(value, ast.Return) or value.value is None or len(taken) != 1:
            continue
        changed = [_replaced(line, name, taken[0], value.value) for line in lines]
        if None not in changed:
            lines = [line for line in changed if line is not None]
            del kept[name]
    return lines, kept


def _replaced(line: str, name: str, parameter: str, value: ast.expr) -> str | None:
    """A line without calls of a function that returns one expression; None if one would remain."""
    if f"{name}(" not in line or line.lstrip().startswith("#"):
        return line
    code = line.strip() + (" pass" if line.endswith(":") else "")
    try:
        tree = ast.parse(code)
    except SyntaxError:  # a part of a longer statement
        return None
    putter = _CallReplacer(name, parameter, value)
    tree = ast.fix_missing_locations(putter.visit(tree))
    if putter.failed:
        return None
    if not putter.count:
        return line
    if "  # " in line:
        return None
    text = requoted(ast.unparse(tree))
    text = text.splitlines()[0] if line.endswith(":") else text
    return line[: len(line) - len(line.lstrip())] + text


class _CallReplacer(ast.NodeTransformer):
    def __init__(self, name: str, parameter: str, value: ast.expr) -> None:
        self.name, self.parameter, self.value = name, parameter, value
        self.failed, self.count = False, 0

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        entry = node.slice.value if isinstance(node.slice, ast.Constant) else None
        call = node.value
        if isinstance(self.value, ast.Tuple) and isinstance(entry, int) and self._ours(call):
            assert isinstance(call, ast.Call)
            return self._put(self.value.elts[entry], call)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return self._put(self.value, node) if self._ours(node) else self.generic_visit(node)

    def _ours(self, node: ast.AST) -> bool:
        named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        return named and node.func.id == self.name  # type: ignore[attr-defined]  # a call of a name

    def _put(self, value: ast.expr, call: ast.Call) -> ast.AST:
        argument = self.visit(call.args[0])
        several = sum(is_name(part, self.parameter) for part in ast.walk(value)) > 1
        simple = isinstance(argument, (ast.Name, ast.Constant))
        if not isinstance(value, PRIMARY) or len(call.args) != 1 or (several and not simple):
            self.failed = True
            return call
        self.count += 1
        replaced: ast.AST = substitute_name(value, self.parameter, argument)
        return replaced
