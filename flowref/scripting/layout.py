"""The layout of a program: sorted imports, double quotes, and wrapped lines."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterable
from itertools import pairwise

WIDTH = 100
OPEN, CLOSE = "([{", ")]}"


def unparsed(statements: Iterable[ast.stmt]) -> list[str]:
    """Statements as lines."""
    lines: list[str] = []
    for statement in statements:
        text = requoted(
            ast.unparse(_UnbracketedReturns().visit(ast.fix_missing_locations(statement)))
        )
        for line in text.splitlines():
            lines += wrapped_line(line)
    return lines


class _UnbracketedReturns(ast.NodeTransformer):
    def visit_Return(self, node: ast.Return) -> ast.AST:
        if not isinstance(node.value, ast.Tuple) or len(node.value.elts) < 2:
            return node
        return ast.Return(ast.Name(", ".join(map(ast.unparse, node.value.elts))))


def requoted(text: str) -> str:
    """The same program with double quotes around strings."""
    lines = text.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        single = token.type == tokenize.STRING and token.string.startswith("'")
        if single and '"' not in token.string and token.start[0] == token.end[0]:
            line, (start, end) = token.start[0] - 1, (token.start[1], token.end[1])
            lines[line] = f'{lines[line][:start]}"{token.string[1:-1]}"{lines[line][end:]}'
    return "".join(lines)


def wrapped_line(line: str, width: int = WIDTH) -> list[str]:
    """A line of code, broken at the commas of its outermost brackets if it is too long."""
    if len(line) <= width:
        return [line]
    pairs = _outermost_brackets(line)
    if not pairs:
        return [line]
    start, end, commas = max(pairs, key=lambda pair: pair[1] - pair[0])
    if end == start + 1:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    cuts = [start, *commas, end]
    pieces = [line[a + 1 : b].strip() for a, b in pairwise(cuts)]
    pieces = _joined_lambda_parameters([piece for piece in pieces if piece])
    rest = line[: start + 1], " " * (len(indent) - 4) + line[end:]
    grouping = line[start] == "(" and not (line[:start] or " ")[-1].isidentifier()
    single = _is_comprehension(line[start : end + 1])
    pieces = [line[start + 1 : end].strip()] if single else pieces
    comma = "" if single or (grouping and len(pieces) == 1) else ","
    inner: list[str] = []
    row = indent
    for piece in pieces:
        if len(row) + len(piece) + 2 > width:
            inner += [row] if row.strip() else []
            row = indent
        row += (" " if row.strip() else "") + piece + comma
        if len(row) > width:
            inner += wrapped_line(row, width)
            row = indent
    inner += [row] if row.strip() else []
    return [rest[0], *inner, *wrapped_line(rest[1], width)]


def _joined_lambda_parameters(pieces: list[str]) -> list[str]:
    """The pieces with the parameters of each lambda in one."""
    joined: list[str] = []
    for piece in pieces:
        last = joined[-1].rpartition("lambda")[1:] if joined else ("", "")
        if last[0] and ":" not in last[1]:
            joined[-1] += f", {piece}"
        else:
            joined.append(piece)
    return joined


def _is_comprehension(bracket: str) -> bool:
    """Whether brackets contain a comprehension, which has no commas of its own."""
    try:
        node = ast.parse(bracket, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp))


def _outermost_brackets(line: str) -> list[tuple[int, int, list[int]]]:
    """The outermost brackets of a line, with the commas directly inside."""
    found: list[tuple[int, int, list[int]]] = []
    depth, quote, start, commas = 0, "", 0, list[int]()
    for place, sign in enumerate(line):
        if quote:
            quote = "" if sign == quote and line[place - 1] != "\\" else quote
        elif sign in "\"'":
            quote = sign
        elif sign in OPEN:
            depth += 1
            if depth == 1:
                start, commas = place, []
        elif sign in CLOSE:
            depth -= 1
            if depth == 0:
                found.append((start, place, commas))
        elif sign == "," and depth == 1:
            commas.append(place)
    return found


def import_block(lines: Iterable[str]) -> list[str]:
    """Import lines, merged by module, the standard library first."""
    plain = sorted({line for line in lines if line.startswith("import ")})
    names: dict[str, set[str]] = {}
    for line in lines:
        if line.startswith("from "):
            module, _, name = line.removeprefix("from ").partition(" import ")
            names.setdefault(module, set()).add(name)
    joined = []
    for module, imported in sorted(names.items()):
        joined += _parenthesized(f"from {module} import ", sorted(imported, key=str.lower))
    own = [line for line in plain if line.split()[1].partition(".")[0] in sys.stdlib_module_names]
    others = [line for line in plain if line not in own]
    return [*own, *others, *joined]


def _parenthesized(head: str, names: list[str]) -> list[str]:
    line = head + ", ".join(names)
    if len(line) <= WIDTH:
        return [line]
    return [f"{head}(", *(f"    {name}," for name in names), ")"]
