"""What is changed in a definition that leaves its module: names, and whatever only served flowref
or a type checker.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any, Protocol

from flowref.scripting.scopes import COMPREHENSIONS, arguments, bound, plain, undocumented
from flowref.scripting.sources import Edit, Source

MISSING = object()
# Parameters of the conversion of inputs that only random rounding reads.
NOISE_KEYWORDS = ("jitter", "support")


class Resolver(Protocol):
    """What the names of a definition mean, and how they are written in the program."""

    def lookup(self, name: str) -> Any:
        """The value of a name that is not local, or `MISSING`."""

    def express(self, value: Any, name: str) -> str:
        """The value as an expression; ``name`` is what the definition calls it."""

    def owned(self, module: Any) -> bool:
        """Whether a value is a module whose contents move into the program."""

    def keeps(self, method: str) -> bool:
        """Whether a method of that name is needed."""

    def mention(self, text: str) -> None:
        """Take note of an attribute's name or a string."""

    def reads(self, owner: str, attribute: str) -> None:
        """Take note of an attribute that is read from a local variable."""


class Editor:
    """Collects the edits of one definition."""

    def __init__(self, source: Source, resolver: Resolver) -> None:
        self.source, self.resolver = source, resolver
        self.edits: list[Edit] = []
        self.scopes: list[set[str]] = []
        self.imported: dict[str, Any] = {}

    def replace(self, node: Any, text: str) -> None:
        """Put a text where a node is."""
        self.edits.append((*self.source.span(node), text))

    def drop_lines(self, node: Any) -> None:
        """Delete a statement with its lines."""
        self.edits.append((*self.source.lines(node), ""))

    def visit(self, node: ast.AST) -> None:
        """Edit a node and what is in it."""
        method: Callable[[Any], None] = getattr(self, f"visit_{type(node).__name__}", self.inside)
        method(node)

    def inside(self, node: ast.AST) -> None:
        """Edit what is in a node."""
        if isinstance(node, COMPREHENSIONS):
            self.scopes.append(bound(node))
        for child in ast.iter_child_nodes(node):
            self.visit(child)
        if isinstance(node, COMPREHENSIONS):
            self.scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Drop the annotations; decorators and defaults belong to the scope around."""
        for outer in [
            *node.decorator_list,
            *node.args.defaults,
            *filter(None, node.args.kw_defaults),
        ]:
            self.visit(outer)
        self.body_of(node)

    def body_of(self, node: ast.FunctionDef) -> None:
        """Edit the signature's annotations and the body of a function."""
        defaulted = {
            self.source.span(default)[0]
            for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        }
        for argument in arguments(node.args):
            if argument.annotation is not None:
                start, end = (
                    self.source.span(argument)[0] + len(argument.arg),
                    self.source.span(argument.annotation)[1],
                )
                # Without an annotation there are no spaces around the equals sign.
                equals = end + len(" = ")
                self.edits.append((start, equals, "=") if equals in defaulted else (start, end, ""))
        if node.returns is not None:
            start, end = self.source.span(node.returns)
            self.edits.append((self.source.text.rindex(" ->", 0, start), end, ""))
        self.scopes.append(bound(node))
        body = undocumented(node.body)
        if len(body) < len(node.body):
            self.shorten(node.body[0].value)  # type: ignore[attr-defined]  # a docstring is an expression
        for statement in body:
            self.visit(statement)
        self.scopes.pop()

    def shorten(self, docstring: ast.Constant) -> None:
        """Keep the first paragraph of a docstring."""
        start, end = self.source.span(docstring)
        text = self.source.text[start:end]
        if "\n\n" in text:
            self.edits.append((start, end, text[: text.index("\n\n")] + '"""'))

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(default)
        self.scopes.append(bound(node))
        self.visit(node.body)
        self.scopes.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Keep the methods that are needed."""
        for outer in [
            *node.decorator_list,
            *node.bases,
            *(keyword.value for keyword in node.keywords),
        ]:
            self.visit(outer)
        # Annotations make the fields of data classes and named tuples; elsewhere they only inform.
        fields = bool(node.decorator_list) or any(
            "Tuple" in ast.unparse(base) for base in node.bases
        )
        for statement in undocumented(node.body):
            if isinstance(statement, ast.FunctionDef):
                dunder = statement.name.startswith("__") and statement.name.endswith("__")
                # What autograd calls is named nowhere else.
                called = any(ast.unparse(base).endswith("autograd.Function") for base in node.bases)
                called |= statement.name == "forward"  # modules call it by being called
                if dunder or called or self.resolver.keeps(statement.name):
                    self.visit(statement)
                    continue
                first = min(
                    [
                        statement.lineno,
                        *(decorator.lineno for decorator in statement.decorator_list),
                    ]
                )
                self.edits.append(
                    (self.source.starts[first - 1], self.source.span(statement)[1], "")
                )
            elif isinstance(statement, ast.AnnAssign) and fields:
                if statement.value is not None:
                    self.visit(statement.value)
            else:
                self.visit(statement)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Assertions that something is not None speak to type checkers."""
        tests = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
        if all(
            isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) for test in tests
        ):
            self.drop_lines(node)
        else:
            self.inside(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self.drop_lines(node)
            return
        self.edits.append(
            (self.source.span(node.target)[1], self.source.span(node.annotation)[1], "")
        )
        self.visit(node.target)
        self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        """The clean calls that are counted ahead of noised ones are not needed where there is no
        noise.
        """
        call = node.value
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "live.count":
            self.drop_lines(node)
        else:
            self.inside(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.visit(node.func)
        previous = node.func
        for argument in node.args:
            self.visit(argument)
            previous = argument
        for keyword in node.keywords:
            unwanted = keyword.arg in NOISE_KEYWORDS and ast.unparse(node.func) in (
                "live.tensor",
                "self.live.tensor",
            )
            if unwanted or self._spread(keyword) == "":
                end = self.source.span(keyword)[1]
                start = self.source.span(previous)[1]
                if previous is node.func:
                    start = self.source.span(keyword)[0]
                self.edits.append((start, end, ""))
            elif self._spread(keyword) is not None:
                self.replace(keyword, self._spread(keyword) or "")
            else:
                self.visit(keyword.value)
            previous = keyword.value
        self._fold_getattr(node)

    def _spread(self, keyword: ast.keyword) -> str | None:
        """Keywords handed on as a dictionary that is known now, written out; None where it is not
        known.
        """
        value = keyword.value
        if keyword.arg is not None or not isinstance(value, ast.Name):
            return None
        known = self.known(value.id)
        if not isinstance(known, dict) or not all(
            isinstance(key, str) and key.isidentifier() for key in known
        ):
            return None
        return ", ".join(f"{key}={self.resolver.express(item, key)}" for key, item in known.items())

    def _fold_getattr(self, node: ast.Call) -> None:
        """``getattr(module, name)`` with a name that is known now, as an attribute."""
        if (
            ast.unparse(node.func) != "getattr"
            or len(node.args) != 2
            or not isinstance(node.args[0], ast.Name)
        ):
            return
        name = self.constant(node.args[1])
        if (
            isinstance(name, str)
            and name.isidentifier()
            and self.known(node.args[0].id) is not MISSING
        ):
            owner = self.known(node.args[0].id)
            self.replace(node, f"{self.resolver.express(owner, node.args[0].id)}.{name}")

    def constant(self, node: ast.expr) -> Any:
        """The value of a string that is known now, or `MISSING`."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.known(node.id)
        if isinstance(node, ast.JoinedStr):
            parts = [
                self.constant(
                    part.value if isinstance(part, ast.FormattedValue) and plain(part) else part
                )
                for part in node.values
            ]
            return (
                "".join(map(str, parts)) if not any(part is MISSING for part in parts) else MISSING
            )
        return MISSING

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Positions inside such strings are not told, so they are replaced whole, if at all."""
        folded = self.constant(node)
        if folded is not MISSING:
            self.replace(node, repr(folded))
            return
        renamed = _Renaming(self)
        again = renamed.visit(ast.parse(ast.unparse(node), mode="eval").body)
        if renamed.changed:
            self.replace(node, ast.unparse(again))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """What is imported from flowref in a function is written into the program instead."""
        if (node.module or "").partition(".")[0] == "flowref":
            import importlib

            module = importlib.import_module(node.module or "")
            self.imported |= {
                alias.asname or alias.name: getattr(module, alias.name) for alias in node.names
            }
            self.drop_lines(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.resolver.mention(node.attr)
        if isinstance(node.value, ast.Name):
            value = self.known(node.value.id)
            if self.resolver.owned(value):
                self.replace(node, self.resolver.express(getattr(value, node.attr), node.attr))
                return
            if value is MISSING:
                self.resolver.reads(node.value.id, node.attr)
        self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.resolver.mention(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        value = self.known(node.id)
        if value is not MISSING:
            text = self.resolver.express(value, node.id)
            if text != node.id:
                self.replace(node, text)

    def known(self, name: str) -> Any:
        """The value of a name where it is not local, or `MISSING`."""
        if name in self.imported:
            return self.imported[name]
        if any(name in scope for scope in self.scopes):
            return MISSING
        found = self.resolver.lookup(name)
        return MISSING if found is MISSING and hasattr(builtins, name) else found


class _Renaming(ast.NodeTransformer):
    """Renames in a piece of code that has no positions."""

    def __init__(self, editor: Editor) -> None:
        self.editor, self.changed = editor, False

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.editor.resolver.mention(node.attr)
        if isinstance(node.value, ast.Name) and self.editor.known(node.value.id) is MISSING:
            self.editor.resolver.reads(node.value.id, node.attr)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        value = self.editor.known(node.id)
        text = node.id if value is MISSING else self.editor.resolver.express(value, node.id)
        self.changed |= text != node.id
        return node if text == node.id else ast.parse(text, mode="eval").body
