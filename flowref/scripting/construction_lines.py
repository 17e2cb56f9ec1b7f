"""Lines that build an object as a user does, for any framework."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from flowref import registry
from flowref.model import USER
from flowref.scripting.case import ReproductionCase
from flowref.scripting.inlined_calls import Inliner
from flowref.scripting.layout import requoted, unparsed
from flowref.scripting.names import Unwritable
from flowref.scripting.operands import Operand


def constructed(case: ReproductionCase, inliner: Inliner) -> tuple[list[str], list[str]]:
    """Return the lines before, which import a user's factory, and those that assign ``flow``."""
    target = case.target
    options = registry.builder_options(target)
    before: list[str] = []
    if target.adapter == USER:
        before = _factory_import_lines(case, inliner)
        expression = ast.parse(target.component.rpartition(":")[2], mode="eval").body
        if not case.copied:
            written = [(key, inliner.names.write(value)) for key, value in options.items()]
            expression = ast.Call(expression, [], [ast.keyword(*pair) for pair in written])
        expression = ast.parse(ast.unparse(expression) + case.way, mode="eval").body
    else:
        build = registry.find_component(target).build
        root = (getattr(build, "__module__", "") or "").partition(".")[0]
        package = registry.adapters()[target.adapter].package.partition(".")[0]
        inliner.ours |= {root} - {package, ""}
        given = {name: Operand(value) for name, value in options.items()}
        expression = inliner.expression(build, **given)
    return before, unparsed(hoisted(inliner, expression))


def hoisted(inliner: Inliner, expression: ast.expr) -> list[ast.stmt]:
    """The statements that end with ``flow``; lambdas in long ones get a name, equal ones the same."""
    given = [*inliner.lines, ast.Assign([ast.Name("flow", ast.Store())], expression, lineno=0)]
    if isinstance(expression, ast.Name) and inliner.lines:
        renaming = _Renaming({expression.id: "flow"})
        given = [renaming.visit(line) for line in inliner.lines]
    statements: list[ast.stmt] = []
    for statement in given:
        if len(unparsed([statement])) > 2:
            hoisting = _LambdaHoisting(inliner)
            statement = hoisting.visit(statement)
            statements += hoisting.given
        statements.append(statement)
    return statements


class _Renaming(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)


class _LambdaHoisting(ast.NodeTransformer):
    def __init__(self, inliner: Inliner) -> None:
        self.inliner = inliner
        self.given: list[ast.stmt] = []

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        key = ast.unparse(node)
        if key not in self.inliner.defined:
            name = self.inliner.defined[key] = self.inliner.names.fresh("net")
            self.given.append(ast.Assign([ast.Name(name, ast.Store())], node, lineno=0))
        return ast.Name(self.inliner.defined[key], ast.Load())


def _factory_import_lines(case: ReproductionCase, inliner: Inliner) -> list[str]:
    place, _, name = case.target.component.rpartition(":")
    first, file = name.partition(".")[0], Path(place)
    if place.endswith(".ipynb"):
        raise Unwritable("it is defined in a notebook, which no import line names")
    if not place.endswith(".py"):
        root = Path(place.partition(".")[0])
        here = root.exists() or root.with_suffix(".py").exists()
        inliner.names.imports |= {"import sys"} if here else set()
        return [*(['sys.path.insert(0, ".")'] if here else []), f"from {place} import {first}"]
    if file.stem.isidentifier() and file.stem not in sys.stdlib_module_names:
        inliner.names.imports.add("import sys")
        folder = f"sys.path.insert(0, {file.parent.as_posix()!r})"
        return [requoted(folder), f"from {file.stem} import {first}"]
    inliner.names.imports.add("import runpy")
    return [requoted(f"{first} = runpy.run_path({place!r})[{first!r}]")]
