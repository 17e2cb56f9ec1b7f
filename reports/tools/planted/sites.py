"""Where a mutation can be planted: sites drawn by statement, and a text with the drawn ones in it."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# What asks for the number in force; the recording tree has a call in its place.
ASKED = "_planted.number == {number}"
RECORDED = "_planted.reached({number})"
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
# Fields that hold types, or text that positions do not describe.
UNSEEN = ("annotation", "returns", "type_params", "pattern")
WORD = "import flowref_planted as _planted; "


@dataclass(frozen=True)
class Site:
    """A place for a mutation: from ``start`` to ``end``, line and column in bytes. ``whole``: a
    statement that is left out; else an expression that becomes ``after``. ``late``: it is in a
    function, and not run when its module is imported.
    """

    operator: str
    start: tuple[int, int]
    end: tuple[int, int]
    before: str
    after: str
    late: bool
    whole: bool = False


@dataclass(frozen=True)
class Mutation:
    """A drawn site, its number and its file."""

    number: int
    file: str
    site: Site

    def as_json(self) -> dict[str, object]:
        """What the list of mutations says of it."""
        site = self.site
        return {
            "number": self.number,
            "place": f"{self.file}:{site.start[0]}",
            "operator": site.operator,
            "before": site.before,
            "after": site.after,
        }


def sites(text: str) -> list[list[Site]]:
    """The sites of a module, those of one statement together."""
    lines = text.encode().splitlines(keepends=True)
    return [
        group
        for statement, late in _statements(ast.parse(text).body, late=False)
        if (group := list(_sites_of(statement, lines, late)))
    ]


def draw(texts: Mapping[str, str], count: int, seed: int) -> list[Mutation]:
    """So many mutations: each statement that has a site is as likely as any other, and no two of
    them overlap.
    """
    groups = [(file, group) for file, text in sorted(texts.items()) for group in sites(text)]
    generator = random.Random(seed)
    generator.shuffle(groups)
    drawn: list[tuple[str, Site]] = []
    for file, group in groups:
        site = generator.choice(group)
        if not any(file == other and _overlap(site, taken) for other, taken in drawn):
            drawn.append((file, site))
        if len(drawn) == count:
            break
    drawn.sort(key=lambda pair: (pair[0], pair[1].start))
    return [Mutation(number, file, site) for number, (file, site) in enumerate(drawn, 1)]


def planted(text: str, mutations: Iterable[Mutation], asked: str = ASKED) -> str:
    """A module with these mutations in it, each in force where its number is."""
    lines = text.encode().splitlines(keepends=True)
    for mutation in sorted(mutations, key=lambda each: each.site.start, reverse=True):
        site, question = mutation.site, asked.format(number=mutation.number)
        if site.whole:
            spliced = f"if not ({question}): {_text(lines, site)}"
        else:
            spliced = f"({site.after} if {question} else ({_text(lines, site)}))"
        _splice(lines, site.start, site.end, spliced)
    tree = ast.parse(text)
    first = next(
        (each for each in tree.body if not _is_text(each) and not _is_future(each)), tree.body[-1]
    )
    place = _start(first)
    _splice(lines, place, place, WORD if _is_simple(first) else f"{WORD[:-2]}\n")
    return b"".join(lines).decode()


def noted(text: str, numbers: Sequence[int]) -> str:
    """A module that says at each call of its functions that these numbers, which are in force from
    its import on, are near.
    """
    lines = text.encode().splitlines(keepends=True)
    said = f"_planted.near({','.join(map(str, numbers))}); "
    places = [
        _start(body[0])
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
        and (body := [each for each in node.body if not _is_text(each)])
        and _is_simple(body[0])
    ]
    for place in sorted(places, reverse=True):
        if not lines[place[0] - 1][: place[1]].strip():
            _splice(lines, place, place, said)
    return b"".join(lines).decode()


def texts_of(root: Path, package: str) -> dict[str, str]:
    """The modules of a package by path."""
    return {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in sorted((root / package).rglob("*.py"))
    }


def _statements(body: Sequence[ast.stmt], late: bool) -> Iterator[tuple[ast.stmt, bool]]:
    for statement in body:
        if _is_text(statement) or _for_types(statement):
            continue
        yield statement, late
        inside = late or isinstance(statement, ast.FunctionDef)
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, field, ()), inside)
        for handler in getattr(statement, "handlers", ()):
            yield from _statements(handler.body, inside)
        for case in getattr(statement, "cases", ()):
            yield from _statements(case.body, inside)


def _sites_of(statement: ast.stmt, source: Sequence[bytes], late: bool) -> Iterator[Site]:
    changes = list(_changes(statement))
    lambdas = [] if late else [each for each in _expressions(statement) if _is_lambda(each)]
    for node, operator, after in changes:
        inside = late or any(node is each for outer in lambdas for each in ast.walk(outer))
        whole = isinstance(node, ast.stmt)
        site = Site(operator, _start(node), _end(node), "", ast.unparse(after), inside, whole)
        before = " ".join(_text(source, site).split())
        alone = not source[site.start[0] - 1][: site.start[1]].strip()
        if not whole or alone:
            yield Site(operator, site.start, site.end, before, site.after, inside, whole)


def _changes(statement: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str, ast.AST]]:
    """What can be changed in the expressions of a statement, and not in those of statements within."""
    match statement:
        case ast.Return(value=ast.expr() as value):
            if not (isinstance(value, ast.Constant) and value.value is None):
                yield value, "returns nothing", ast.Constant(None)
        case ast.If(test=test) | ast.While(test=test):
            yield test, "condition negated", ast.UnaryOp(ast.Not(), test)
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield statement, "left out", ast.Pass()
    for node in _expressions(statement):
        yield from _changes_of(node)


def _changes_of(node: ast.expr) -> Iterator[tuple[ast.expr, str, ast.AST]]:
    match node:
        case ast.Compare(ops=[first, *others]) if type(first) in COMPARISONS:
            flipped = [COMPARISONS[type(first)](), *others]
            yield node, "comparison", ast.Compare(node.left, flipped, node.comparators)
        case ast.BinOp(op=op) if type(op) in ARITHMETIC and not _of_text(node):
            yield node, "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(op)](), node.right)
        case ast.BoolOp(op=ast.And(), values=values):
            yield node, "and, or", ast.BoolOp(ast.Or(), values)
        case ast.BoolOp(op=ast.Or(), values=values):
            yield node, "and, or", ast.BoolOp(ast.And(), values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield node, "sign", operand
        case ast.IfExp(test=test):
            yield test, "condition negated", ast.UnaryOp(ast.Not(), test)
        case ast.Constant(value=bool() as value):
            yield node, "constant", ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield node, "constant", ast.Constant(value + 1)
        case ast.Constant(value=float() as value):
            yield node, "constant", ast.Constant(2 * value or 1.0)
        case ast.Call(keywords=[*kept, ast.keyword(arg=str())]):
            yield node, "argument dropped", ast.Call(node.func, node.args, kept)


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    for name, value in ast.iter_fields(node):
        if name in UNSEEN:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.JoinedStr | ast.pattern | ast.stmt | ast.ExceptHandler):
                continue
            if isinstance(child, ast.match_case):
                continue
            if isinstance(child, ast.expr):
                yield child
            if isinstance(child, ast.AST):
                yield from _expressions(child)


def _of_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _is_lambda(node: ast.AST) -> bool:
    return isinstance(node, ast.Lambda)


def _start(node: ast.expr | ast.stmt) -> tuple[int, int]:
    decorators = getattr(node, "decorator_list", [])
    first = min((each.lineno for each in decorators), default=node.lineno)
    return (first, node.col_offset)


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return (node.end_lineno, node.end_col_offset)


def _overlap(one: Site, other: Site) -> bool:
    return one.start < other.end and other.start < one.end


def _text(lines: Sequence[bytes], site: Site) -> str:
    (first, start), (last, end) = site.start, site.end
    if first == last:
        return lines[first - 1][start:end].decode()
    middle = lines[first : last - 1]
    return b"".join([lines[first - 1][start:], *middle, lines[last - 1][:end]]).decode()


def _splice(lines: list[bytes], start: tuple[int, int], end: tuple[int, int], text: str) -> None:
    before, after = lines[start[0] - 1][: start[1]], lines[end[0] - 1][end[1] :]
    # As many lines as before, so that places stay what they are.
    lines[start[0] - 1 : end[0]] = [before + text.encode() + after, *[b""] * (end[0] - start[0])]


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str | type(...))
    )


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _is_simple(statement: ast.stmt) -> bool:
    return not hasattr(statement, "body") and not isinstance(statement, ast.Match)


def _for_types(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)
