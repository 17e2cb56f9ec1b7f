"""Edits of a source line that the words of a repair may describe, the smallest first."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flowref.proving.repairs import OPPOSITES, SYMBOLS

# Expressions that need no parentheses.
ATOMS = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.Constant)
# Operator -> name in graphs.
OPERATORS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow"}
# Source before a parenthesized expression that is no call.
GROUP = re.compile(rb"(^|[^\w)\]])\($")
# Sums over the entries of a point.
SUMS = (".sum(-1)", ".flatten(1).sum(-1)")
FACTORS = {"-1": "-{}", "2": "2 * {}", "0.5": "{} / 2"}

# The range of bytes of a source, and its replacement.
Change = tuple[int, int, str]


class SourceLine:
    """A ``line`` of a source ``text``, counted from 1, with all nodes that contain it, the
    outermost first. Raises `SyntaxError` for invalid source.
    """

    def __init__(self, text: str, line: int) -> None:
        self.bytes, self.line = text.encode(), line
        self.starts = [0, *itertools.accumulate(map(len, self.bytes.splitlines(keepends=True)))]
        tree = ast.parse(text)
        functions = [one for one in _at(tree, line) if isinstance(one, ast.FunctionDef)]
        self.scope: Any = functions[-1] if functions else tree
        self.nodes = _at(self.scope, line)
        self.modules = {
            alias.asname or alias.name: alias.name
            for one in ast.walk(tree)
            if isinstance(one, ast.Import | ast.ImportFrom)
            for alias in one.names
        }

    def edited(self, words: str) -> Iterator[str]:
        """Yields the source after each edit that ``words`` of `repairs.Edit` may describe. Raises
        `SyntaxError` and `ValueError` if an expression cannot be edited.
        """
        meant = ((rule, re.fullmatch(form, words)) for form, rule in RULES.items())
        found = next((rule(self, *m.groups()) for rule, m in meant if m is not None), ())
        for start, end, text in sorted(dict.fromkeys(found), key=_edit_length):
            yield (self.bytes[:start] + text.encode() + self.bytes[end:]).decode()

    def of(self, op: str) -> list[Any]:
        """The nodes of one operator."""
        return [node for node in self.nodes if _op(node) == op]

    def span(self, node: Any) -> tuple[int, int]:
        """The first byte of a node, and the one after it."""
        start, end = self.starts[node.lineno - 1], self.starts[node.end_lineno - 1]
        return start + node.col_offset, end + node.end_col_offset

    def read(self, node: Any) -> str:
        """The text of a node, as an operand."""
        start, end = self.span(node)
        text = self.bytes[start:end].decode()
        return text if isinstance(node, ATOMS) else f"({text})"

    def put(self, node: Any, text: str) -> Iterator[Change]:
        """Replaces a node by another text, with and without parentheses if that matters."""
        start, end = self.span(node)
        if GROUP.search(self.bytes[:start]) and self.bytes[end : end + 1] == b")":
            start, end = start - 1, end + 1
        if isinstance(ast.parse(f"({text})", mode="eval").body, ATOMS):
            yield start, end, text
        else:
            bare = text[1:-1] if text.startswith("(") and text.endswith(")") else text
            yield from ((start, end, bare), (start, end, f"({bare})"))

    def operands(self, node: Any) -> list[Any]:
        """The operands of an operator, the receiver of a method first."""
        if isinstance(node, ast.Call):
            own = getattr(node.func, "value", None)
            imported = own is None or ast.unparse(own) in self.modules
            return node.args if imported else [own, *node.args]
        return [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]

    def names(self, line: int) -> list[str]:
        """The names that are assigned in a line; in any line, for 0."""
        nodes = [one for one in ast.walk(self.scope) if line in (0, getattr(one, "lineno", -1))]
        stored = (one for one in nodes if isinstance(getattr(one, "ctx", None), ast.Store))
        names = [one.id for one in stored if isinstance(one, ast.Name)]
        return names + [one.arg for one in nodes if isinstance(one, ast.arg) and one.arg != "self"]


def _at(tree: ast.AST, line: int) -> list[Any]:
    nodes = [one for one in ast.walk(tree) if isinstance(one, ast.stmt | ast.expr)]
    return [one for one in nodes if one.lineno <= line <= (one.end_lineno or 0)]


def _edit_length(change: Change) -> int:
    start, end, text = change
    return end - start + len(text)


def _op(node: Any) -> str:
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return OPERATORS.get(type(node.op), "")
    if isinstance(node, ast.UnaryOp):
        return "neg" if isinstance(node.op, ast.USub) else ""
    func = getattr(node, "func", None)
    return str(getattr(func, "attr", getattr(func, "id", "")))


def _renamed(line: SourceLine, old: str, new: str) -> Iterator[Change]:
    ends = [line.span(node.func)[1] for node in line.of(old) if isinstance(node, ast.Call)]
    yield from ((end - len(old), end, new) for end in ends)


def _sum(line: SourceLine) -> Iterator[Change]:
    yield from _renamed(line, "mean", "sum")


def _whole_sum(line: SourceLine, op: str) -> Iterator[Change]:
    for node in line.of(op):
        given = line.operands(node)[:1]
        cut = [one for one in given if isinstance(one, ast.Subscript)]
        yield from ((*line.span(one), line.read(one.value)) for one in cut)
        for one, tail in itertools.product((*given, *(one.value for one in cut)), SUMS):
            yield from line.put(node, f"{line.read(one)}{tail}")


def _left_out(line: SourceLine, op: str) -> Iterator[Change]:
    for node in line.of(op):
        if isinstance(node, ast.AugAssign):
            yield line.starts[node.lineno - 1], line.starts[node.end_lineno or 0], ""
            continue
        for one in line.operands(node):
            yield from line.put(node, line.read(one))
    if op == "div":  # as in a mean in JAX
        yield from _sum(line)


def _opposite(line: SourceLine, new: str, old: str) -> Iterator[Change]:
    op = next(name for name, symbol in SYMBOLS.items() if symbol == old)
    yield from _renamed(line, op, OPPOSITES[op])
    for node in line.of(op):
        if not isinstance(node, ast.Call):
            one, other = line.operands(node)
            start, end = line.span(one)[1], line.span(other)[0]
            yield start, end, line.bytes[start:end].decode().replace(old, new, 1)


def _negated_operand_changes(line: SourceLine, op: str) -> Iterator[Change]:
    for one in (one for node in line.of(op) for one in line.operands(node)[:1]):
        other = line.read(one.operand) if _op(one) == "neg" else f"-{line.read(one)}"
        yield from line.put(one, other)


def _times(line: SourceLine, op: str, factor: str) -> Iterator[Change]:
    for node in line.of(op):
        yield from line.put(node, FACTORS[factor].format(line.read(node)))


def _term(line: SourceLine, sign: str, of: str) -> Iterator[Change]:
    bare = of.removeprefix("log |").removesuffix("|")
    at = re.fullmatch(r"(\w+) \(.*:(\d+)\)", bare)
    found = [one for one in _at(line.scope, int(at[2])) if _op(one) == at[1]] if at else []
    known = line.names(int(at[2])) if at else []
    texts = [*known, *map(line.read, found)] or [re.sub(r"\.(\d+)", r"[\1]", bare)]
    if bare != of:
        jnp = next((name for name, one in line.modules.items() if one == "jax.numpy"), "")
        texts = [f"{jnp}.log(abs({one}))" if jnp else f"{one}.abs().log()" for one in texts]
        exponents = (line.operands(one)[:1] for one in found if _op(one) == "exp")
        texts += [line.read(one) for given in exponents for one in given]
    ends = dict.fromkeys(line.span(one)[1] for one in line.nodes if isinstance(one, ast.expr))
    for end, text, tail in itertools.product(ends, texts, SUMS if at else (".sum()",)):
        yield end, end, f" {'+' if sign == 'plus' else '-'} {text}{tail}"


def _another(line: SourceLine, new: str) -> Iterator[Change]:
    at = re.fullmatch(r".* \(.*:(\d+)\)", new)
    others, own = line.names(int(at[1]) if at else 0), line.names(line.line)
    names = (one for one in ast.walk(line.scope) if isinstance(one, ast.Name))
    for node in (one for one in names if isinstance(one.ctx, ast.Load)):
        if node.lineno == line.line or node.id in own:
            yield from ((*line.span(node), one) for one in others if one != node.id)


# Words of a repair -> the changes that they may describe.
RULES: dict[str, Callable[..., Iterable[Change]]] = {
    r"sum in place of mean": _sum,
    r"sum over all entries of each point in place of (\w+)": _whole_sum,
    r"without the (\w+) over the batch": _left_out,
    r"without (\w+).*": _left_out,
    r"([-+*/]) in place of ([-+*/])": _opposite,
    r"(\w+) of minus its argument": _negated_operand_changes,
    r"(\w+) times (-1|2|0\.5)": _times,
    r"(plus|minus) the sum of (.*)": _term,
    r"(.*) in place of .*": _another,
}
