"""Scopes of Python code: which names a function, a class body or a comprehension binds itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (*COMPREHENSIONS, ast.FunctionDef, ast.Lambda, ast.ClassDef)


def plain(part: ast.FormattedValue) -> bool:
    """Whether a part of a formatted string is a value without format."""
    return part.format_spec is None and part.conversion == -1


def arguments(args: ast.arguments) -> Iterator[ast.arg]:
    """Every parameter of a signature."""
    yield from [*args.posonlyargs, *args.args, *filter(None, [args.vararg]), *args.kwonlyargs]
    yield from filter(None, [args.kwarg])


def undocumented(body: list[ast.stmt]) -> list[ast.stmt]:
    """A body without its docstring, whose words are no names."""
    first = body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if documented else body


def bound(scope: ast.AST) -> set[str]:
    """The names that a scope binds itself; what flowref's own modules are asked for is no local
    name.
    """
    names: set[str] = set()
    if isinstance(scope, ast.FunctionDef | ast.Lambda):
        names |= {argument.arg for argument in arguments(scope.args)}
    stack = list(ast.iter_child_nodes(scope))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            names.add(node.id)
        if (
            isinstance(node, ast.Import | ast.ImportFrom)
            and (getattr(node, "module", "") or "").partition(".")[0] != "flowref"
        ):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if not isinstance(node, SCOPES):
            stack += ast.iter_child_nodes(node)
        elif isinstance(node, COMPREHENSIONS):
            stack += [inner for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)]
    return names


def argument_of(args: ast.arguments, default: ast.expr) -> str:
    """The parameter that a default belongs to."""
    positional = [*args.posonlyargs, *args.args]
    pairs = dict(zip(reversed(args.defaults), reversed(positional), strict=False))
    pairs |= {
        value: argument
        for argument, value in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        if value is not None
    }
    return pairs[default].arg
