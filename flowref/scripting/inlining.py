"""A call of flowref's as the few lines that a user would write: helpers are put in place of their
calls, and whatever is known is put in place of its name.

It is a partial evaluator of small functions: the builders of constructions and the functions of a
dialect. What it does not understand is refused, never guessed.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any

from flowref.scripting.functions import Function, function_of
from flowref.scripting.names import Names, Unwritable

UNKNOWN = object()
# Functions that are evaluated when a program is written, where their arguments are known.
PURE = (
    tuple, list, dict, set, len, max, min, sum, abs, int, float, str, bool, round, sorted, range, zip, enumerate,
    getattr, hasattr, isinstance, callable, importlib.import_module,
)  # fmt: skip
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


@dataclass(frozen=True)
class Operand:
    """A part of an expression: its value as far as that is known, and how it is written. Without a
    node it is a constant, which is written as its value.
    """

    value: Any = UNKNOWN
    node: ast.expr | None = None

    @property
    def known(self) -> bool:
        """Whether the value is known."""
        return self.value is not UNKNOWN

    @property
    def constant(self) -> bool:
        """Whether the value stands for itself."""
        return self.node is None


Env = dict[str, Operand]


def named(name: str, value: Any = UNKNOWN) -> Operand:
    """A variable of the program."""
    return Operand(value, ast.Name(name, ast.Load()))


class Inliner:
    """Writes calls of small functions out; statements that they need come into ``lines``.

    ``perform``: make the calls whose arguments are known, so that conditions on what they return
    are decided as they were decided in the audit.
    """

    def __init__(self, names: Names, perform: bool = False) -> None:
        self.names, self.perform = names, perform
        self.lines: list[ast.stmt] = []
        self.definitions: list[ast.stmt] = []
        self.defined: dict[Any, str] = {}
        self.changing: set[str] = set()

    def expression(self, function: Any, *given: Operand, **options: Operand) -> ast.expr:
        """The call of a function as an expression."""
        return self.written(self.called(Operand(function), list(given), options))

    def define(
        self, function: Any, name: str, given: Mapping[str, Operand], taken: str
    ) -> ast.stmt:
        """A function of the program, of the parameters ``taken``, which does what one of ours does
        for what is ``given`` of its parameters, in their order.
        """
        outer, self.lines = self.lines, []
        inner = function_of(function) if isinstance(function, FunctionType) else function
        names = [argument.arg for argument in inner.node.args.args]
        env = {**self._around(inner), **dict(zip(names, given.values(), strict=False))}
        result = self.run(inner.body, env) or Operand(None)
        body = _shortened(self.lines, self.written(result), env)
        self.lines = outer
        arguments = ast.parse(f"lambda {taken}: 0", mode="eval").body.args  # type: ignore[attr-defined]  # a lambda has arguments
        return ast.FunctionDef(name, arguments, body, [], lineno=0)

    # Statements

    def run(self, statements: list[ast.stmt], env: Env) -> Operand | None:
        """Write statements out, up to a return, whose operand it gives."""
        self.changing |= _mutated(statements)
        for statement in statements:
            match statement:
                case ast.Return():
                    return self.of(statement.value, env) if statement.value else Operand(None)
                case ast.Import() | ast.ImportFrom():
                    env |= _imported(statement)
                case ast.FunctionDef():
                    around = {name: value for name, value in env.items() if name != statement.name}
                    env[statement.name] = Operand(Function(statement, statement.name, around))
                case ast.Assign(targets=[target], value=value):
                    self._assign(target, self.of(value, env), env)
                case ast.AnnAssign(target=target, value=value) if value is not None:
                    self._assign(target, self.of(value, env), env)
                case ast.AugAssign():
                    target = self.node(_in(statement.target, ast.Load()), env)
                    added = self.node(statement.value, env)
                    self.lines.append(ast.AugAssign(_in(target, ast.Store()), statement.op, added))
                case ast.Expr():
                    self.lines.append(ast.Expr(self.node(statement.value, env)))
                case ast.For():
                    self._for(statement, env)
                case ast.If():
                    test = self.of(statement.test, env)
                    if not test.known:
                        self.lines.append(self._if(statement, test, env))
                    elif (result := self._branch(statement, test, env)) is not None:
                        return result
                case ast.Try(body=body, handlers=[handler]):
                    try:
                        result = self.run(body, env)
                    except TypeError:  # what the one handler of ours is for
                        result = self.run(handler.body, env)
                    if result is not None:
                        return result
                case ast.Pass():
                    pass
                case _:
                    raise Unwritable(f"its builder has a {type(statement).__name__}")
        return None

    def _branch(self, statement: ast.If, test: Operand, env: Env) -> Operand | None:
        return self.run(statement.body if test.value else statement.orelse, env)

    def _inner(self, statements: list[ast.stmt], env: Env) -> list[ast.stmt]:
        outer, self.lines = self.lines, []
        if self.run(statements, env) is not None:
            raise Unwritable("its builder returns from within a loop or a condition")
        inner, self.lines = self.lines, outer
        return inner

    def _if(self, statement: ast.If, test: Operand, env: Env) -> ast.stmt:
        body, other = self._inner(statement.body, env), self._inner(statement.orelse, env)
        return ast.If(self.written(test), body, other)

    def _for(self, statement: ast.For, env: Env) -> None:
        each = self.node(statement.iter, env)
        target = self._bind(statement.target, env)
        body = self._inner(statement.body, env)
        self.lines.append(ast.For(target, each, body, [], lineno=0))

    def _assign(self, target: ast.expr, value: Operand, env: Env) -> None:
        still = isinstance(target, ast.Name) and target.id not in self.changing
        if isinstance(target, ast.Name) and still and (value.constant or _plain(value.node)):
            env[target.id] = value
            return
        text = self.written(value)
        if isinstance(target, ast.Name):
            fresh = self.names.fresh(target.id)
            env[target.id] = named(fresh, value.value)
            stored: ast.expr = ast.Name(fresh, ast.Store())
        elif isinstance(target, ast.Tuple):
            stored = self._bind(target, env, value.value)
        else:
            stored = _in(self.node(_in(target, ast.Load()), env), ast.Store())
        self.lines.append(ast.Assign([stored], text, lineno=0))

    def _bind(self, target: ast.expr, env: Env, value: Any = UNKNOWN) -> ast.expr:
        """New variables for the names of a loop, a comprehension or an unpacking."""
        if isinstance(target, ast.Name):
            fresh = target.id if target.id == "_" else self.names.fresh(target.id)
            env[target.id] = named(fresh, value)
            return ast.Name(fresh, ast.Store())
        if isinstance(target, ast.Tuple):
            told = isinstance(value, (tuple, list)) and len(value) == len(target.elts)
            values = value if told else [UNKNOWN] * len(target.elts)
            pairs = zip(target.elts, values, strict=True)
            return ast.Tuple([self._bind(one, env, each) for one, each in pairs], ast.Store())
        raise Unwritable(f"its builder assigns to a {type(target).__name__}")

    # Expressions

    def node(self, node: ast.expr, env: Env) -> ast.expr:
        """An expression with what is known put in."""
        return self.written(self.of(node, env))

    def written(self, operand: Operand) -> ast.expr:
        """An operand as an expression."""
        if operand.node is not None:
            return operand.node
        if isinstance(operand.value, Function):
            return self._function(operand.value, operand.value)
        if isinstance(operand.value, FunctionType) and _ours(operand.value):
            return self._function(function_of(operand.value), operand.value)
        return self.names.write(operand.value)

    def _function(self, function: Function, key: Any) -> ast.expr:
        """A helper that is handed over rather than called: a lambda, or a function defined above."""
        parameters = [argument.arg for argument in function.node.args.args]
        if isinstance(function.node, ast.Lambda):
            env = {**self._around(function), **{name: named(name) for name in parameters}}
            return ast.Lambda(_bare(function.node.args), self.node(function.node.body, env))
        if key not in self.defined:
            self.defined[key] = self.names.fresh(function.name)
            given = {name: named(name) for name in parameters}
            self.definitions.append(
                self.define(function, self.defined[key], given, ", ".join(parameters))
            )
        return ast.Name(self.defined[key], ast.Load())

    def of(self, node: ast.expr, env: Env) -> Operand:
        """An expression as an operand: a constant where all is known, else with the known put in."""
        if (constant := self._constant(node, env)) is not None:
            return constant
        match node:
            case ast.Name():
                if node.id not in env:
                    raise Unwritable(f"its builder uses {node.id}, which is defined nowhere")
                return env[node.id]
            case ast.Call():
                return self._call(node, env)
            case ast.Attribute():
                return self._attribute(self.of(node.value, env), node.attr)
            case ast.IfExp():
                test = self.of(node.test, env)
                if test.known:
                    return self.of(node.body if test.value else node.orelse, env)
            case ast.Lambda():
                return Operand(Function(node, "<lambda>", dict(env)))
            case _ if isinstance(node, COMPREHENSIONS):
                return Operand(node=self._comprehension(node, env))
        return self._generic(node, env)

    def _constant(self, node: ast.expr, env: Env) -> Operand | None:
        """The value of an expression in which every name is a constant and every call is pure."""
        inside = list(ast.walk(node))
        bound = {part.id for part in inside if isinstance(part, ast.Name) and not _loaded(part)}
        values: dict[str, Any] = {}
        for part in inside:
            if isinstance(part, (ast.Lambda, ast.Await, ast.Yield, ast.NamedExpr)):
                return None
            if isinstance(part, ast.Name) and part.id not in bound:
                operand = env.get(part.id, Operand())
                if not operand.constant or not operand.known:
                    return None
                values[part.id] = operand.value
        calls = [part for part in inside if isinstance(part, ast.Call)]
        if not all(_evaluated(call.func, values) in PURE for call in calls):
            return None
        value = _evaluated(node, values)
        return None if isinstance(value, (zip, enumerate, range)) else Operand(value)

    def _generic(self, node: ast.expr, env: Env) -> Operand:
        """An expression rebuilt from its parts; known where its parts are."""
        parts: dict[str, Any] = {}
        place = copy.copy(node)

        def replaced(child: Any) -> Any:
            if not isinstance(child, ast.expr) or isinstance(
                child, (ast.Slice, ast.FormattedValue)
            ):
                if not isinstance(child, (ast.Slice, ast.FormattedValue)):
                    return child
                inner = copy.copy(child)
                for name, value in ast.iter_fields(child):
                    setattr(inner, name, replaced(value))
                return inner
            if isinstance(child, ast.Starred):
                return ast.Starred(replaced(child.value), ast.Load())
            operand = self.of(child, env)
            parts[f"_{len(parts)}"] = operand.value
            return self.written(operand)

        for name, value in ast.iter_fields(node):
            changed = (
                [replaced(one) for one in value] if isinstance(value, list) else replaced(value)
            )
            setattr(place, name, changed)
        if UNKNOWN in map(_identity, parts.values()) or UNKNOWN in parts.values():
            return Operand(node=place)
        value = self._valued(node, env)
        return Operand(value) if isinstance(value, bool) else Operand(value, place)

    def _valued(self, node: ast.expr, env: Env) -> Any:
        """The value of an expression whose parts are known, or `UNKNOWN`."""
        values = {}
        for part in ast.walk(node):
            if isinstance(part, (ast.Call, *COMPREHENSIONS)):
                return UNKNOWN
            if isinstance(part, ast.Name) and _loaded(part):
                values[part.id] = env[part.id].value if part.id in env else UNKNOWN
        if any(value is UNKNOWN for value in values.values()):
            return UNKNOWN
        return _evaluated(node, values)

    def _attribute(self, owner: Operand, name: str) -> Operand:
        value = getattr(owner.value, name) if owner.known and self.perform else UNKNOWN
        if owner.constant and owner.known:
            return Operand(getattr(owner.value, name))
        return Operand(value, ast.Attribute(self.written(owner), name, ast.Load()))

    def _comprehension(self, node: Any, env: Env) -> ast.expr:
        inner, place = dict(env), copy.copy(node)
        place.generators = []
        for generator in node.generators:
            each = self.node(generator.iter, inner)
            target = self._bind(generator.target, inner)
            tests = [self.node(test, inner) for test in generator.ifs]
            place.generators.append(ast.comprehension(target, each, tests, generator.is_async))
        for name in ("elt", "key", "value"):
            if hasattr(node, name):
                setattr(place, name, self.node(getattr(node, name), inner))
        result: ast.expr = place
        return result

    # Calls

    def _call(self, node: ast.Call, env: Env) -> Operand:
        given: list[Operand] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                given += self._several(self.of(argument.value, env))
            else:
                given.append(self.of(argument, env))
        options: dict[str, Operand] = {}
        for keyword in node.keywords:
            operand = self.of(keyword.value, env)
            if keyword.arg is not None:
                options[keyword.arg] = operand
            elif operand.constant and isinstance(operand.value, Mapping):
                options |= {name: _operand(value) for name, value in operand.value.items()}
            elif isinstance(operand.node, ast.Dict):
                for key, value in zip(operand.node.keys, operand.node.values, strict=True):
                    assert isinstance(key, ast.Constant)
                    options[str(key.value)] = Operand(node=value)
            else:
                raise Unwritable("its builder hands on keywords that are not known")
        return self.called(self.of(node.func, env), given, options)

    def _several(self, operand: Operand) -> list[Operand]:
        """What a starred argument stands for."""
        if operand.constant and isinstance(operand.value, Iterable):
            return [_operand(value) for value in operand.value]
        if isinstance(operand.node, (ast.Tuple, ast.List)):
            return [Operand(node=entry) for entry in operand.node.elts]
        return [Operand(node=ast.Starred(self.written(operand), ast.Load()))]

    def called(self, function: Operand, given: list[Operand], options: Env) -> Operand:
        """A call: put in place where the function is ours, evaluated where it is pure."""
        target = function.value
        if function.constant and isinstance(target, Function):
            return self._inlined(target, given, options)
        if function.constant and isinstance(target, FunctionType) and _ours(target):
            return self._inlined(function_of(inspect.unwrap(target)), given, options)
        if function.constant and hasattr(target, "func") and hasattr(target, "keywords"):
            bound = {name: Operand(value) for name, value in target.keywords.items()}
            before = [Operand(value) for value in target.args]
            return self.called(Operand(target.func), [*before, *given], {**bound, **options})
        known = all(operand.known for operand in (function, *given, *options.values()))
        whole = given[0].node if len(given) == 1 else None
        if function.constant and target is list and isinstance(whole, ast.Tuple):
            return Operand(node=ast.List(whole.elts, ast.Load()))
        if known and function.constant and target in PURE and not options:
            value = target(*(operand.value for operand in given))
            if isinstance(value, bool) or all(operand.constant for operand in given):
                return Operand(value)
            if target is getattr:
                return self._attribute(given[0], given[1].value)
        given, options = _without_defaults(target, given, options)
        keywords = [ast.keyword(name, self.written(value)) for name, value in options.items()]
        call = ast.Call(self.written(function), [self.written(one) for one in given], keywords)
        if not (self.perform and known):
            return Operand(node=call)
        return Operand(_performed(target, given, options), call)

    def _inlined(self, function: Function, given: list[Operand], options: Env) -> Operand:
        """A call of ours, put in place."""
        arguments = function.node.args
        env = self._around(function)
        parameters = [argument.arg for argument in arguments.args]
        bound = dict(zip(parameters, given, strict=False))
        if arguments.vararg:
            rest = given[len(parameters) :]
            entries = [self.written(one) for one in rest]
            bound[arguments.vararg.arg] = Operand(node=ast.Tuple(entries, ast.Load()))
        defaults = {name: Operand(value) for name, value in function.defaults.items()}
        for name, default in zip(parameters[::-1], arguments.defaults[::-1], strict=False):
            if name not in defaults:
                defaults[name] = self.of(default, env)
        for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if value is not None and argument.arg not in defaults:
                defaults[argument.arg] = self.of(value, env)
        named_ones = {name: value for name, value in options.items() if name in _named(arguments)}
        if arguments.kwarg:
            others = {name: value for name, value in options.items() if name not in named_ones}
            bound[arguments.kwarg.arg] = self._mapping(others)
        elif len(named_ones) < len(options):
            raise Unwritable(f"{function.name} does not take {sorted({*options} - {*named_ones})}")
        env |= {**defaults, **bound, **named_ones}
        for name in _used_often(function, {**bound, **named_ones}):
            self._assign(ast.Name(name), env[name], env)
        return self.run(function.body, env) or Operand(None)

    def _mapping(self, options: Env) -> Operand:
        if all(value.constant for value in options.values()):
            return Operand({name: value.value for name, value in options.items()})
        keys: list[ast.expr | None] = [ast.Constant(name) for name in options]
        return Operand(node=ast.Dict(keys, [self.written(one) for one in options.values()]))

    def _around(self, function: Function) -> Env:
        return {name: _operand(value) for name, value in function.around.items()}


def _shortened(lines: list[ast.stmt], value: ast.expr, env: Env) -> list[ast.stmt]:
    """A body that returns a value; without its last variable where that is used once, or where the
    value is the pair that it holds.
    """
    match lines[-1:]:
        case [ast.Assign(targets=[ast.Name(id=name)], value=made)]:
            pair = [ast.unparse(one) for one in getattr(value, "elts", ())]
            held = next((one.value for one in env.values() if _is(one.node, name)), UNKNOWN)
            whole = isinstance(held, tuple) and len(held) == 2
            if whole and pair == [f"{name}[0]", f"{name}[1]"]:
                return [*lines[:-1], ast.Return(made)]
            if sum(_is(part, name) for part in ast.walk(value)) == 1:
                return [*lines[:-1], ast.Return(_Put(name, made).visit(value))]
    return [*lines, ast.Return(value)]


class _Put(ast.NodeTransformer):
    """Puts an expression where a name stands."""

    def __init__(self, name: str, node: ast.expr) -> None:
        self.name, self.node = name, node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.node if node.id == self.name else node


def _is(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _operand(value: Any) -> Operand:
    return value if isinstance(value, Operand) else Operand(value)


def _identity(value: Any) -> Any:
    return value if value is UNKNOWN else None


def _named(arguments: ast.arguments) -> set[str]:
    return {argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)}


def _loaded(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _ours(value: Any) -> bool:
    """Whether a function is part of flowref, or of an adapter that another package offers."""
    return (value.__module__ or "").partition(".")[0] == "flowref"


def _plain(node: ast.expr | None) -> bool:
    """Whether an expression is a name or a container of some, which may stand where it is used."""
    parts = (ast.Dict, ast.List, ast.Tuple, ast.Name, ast.Constant, ast.expr_context)
    container = isinstance(node, (ast.Name, ast.Dict, ast.List, ast.Tuple))
    return container and all(isinstance(part, parts) for part in ast.walk(node))  # type: ignore[arg-type]  # no None


def _in(node: ast.expr, context: ast.expr_context) -> Any:
    """A name, attribute or entry that is read, or assigned to."""
    place: Any = copy.copy(node)
    place.ctx = context
    return place


def _mutated(statements: Iterable[ast.stmt]) -> set[str]:
    """Names of variables whose values are changed in place, or by a method at least."""
    owners: list[ast.expr] = []
    for part in (part for statement in statements for part in ast.walk(statement)):
        if isinstance(part, ast.AugAssign):
            owners.append(part.target)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            owners.append(part.func.value)
        if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
            owners.append(part.value)
    return {owner.id for owner in owners if isinstance(owner, ast.Name)}


def _bare(arguments: ast.arguments) -> ast.arguments:
    """Parameters without annotations and defaults."""
    bare = ast.parse(f"lambda {', '.join(a.arg for a in arguments.args)}: 0", mode="eval").body
    return bare.args  # type: ignore[attr-defined, no-any-return]  # a lambda has arguments


def _imported(statement: ast.Import | ast.ImportFrom) -> Env:
    names: Env = {}
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            module = importlib.import_module(statement.module or "")
            try:
                value = getattr(module, alias.name)
            except AttributeError:
                value = importlib.import_module(f"{statement.module}.{alias.name}")
        else:
            value = importlib.import_module(alias.name)
            if alias.asname is None:
                value = importlib.import_module(alias.name.partition(".")[0])
        names[alias.asname or alias.name.partition(".")[0]] = Operand(value)
    return names


def _evaluated(node: ast.expr, values: dict[str, Any]) -> Any:
    """The value of an expression of ours."""
    expression = ast.fix_missing_locations(ast.Expression(copy.deepcopy(node)))
    return eval(compile(expression, "a builder of flowref", "eval"), dict(values))


def _used_often(function: Function, bound: Env) -> list[str]:
    """Parameters that are used more than once, and given by more than a name or a constant."""
    count: dict[str, int] = {}
    for part in ast.walk(function.node):
        if isinstance(part, ast.Name):
            count[part.id] = count.get(part.id, 0) + 1
    simple = (ast.Name, ast.Constant, ast.Attribute, ast.Tuple, ast.Dict)
    return [
        name
        for name, value in bound.items()
        if value.node is not None and not isinstance(value.node, simple) and count.get(name, 0) > 1
    ]


def _without_defaults(target: Any, given: list[Operand], options: Env) -> tuple[list[Operand], Env]:
    """Arguments less the Nones that are the default anyway."""
    none = [one for one in (*given[-1:], *options.values()) if one.constant and one.value is None]
    if not none or target is UNKNOWN or isinstance(target, BuiltinFunctionType):
        return given, options
    try:
        parameters = inspect.signature(getattr(target, "forward", target)).parameters
    except (TypeError, ValueError):
        return given, options
    order = list(parameters.values())

    def idle(operand: Operand, parameter: inspect.Parameter | None) -> bool:
        default = parameter is not None and parameter.default is None
        return default and operand.constant and operand.value is None

    options = {k: v for k, v in options.items() if not idle(v, parameters.get(k))}
    while given and len(given) <= len(order) and idle(given[-1], order[len(given) - 1]):
        given = given[:-1]
    return given, options


def _performed(target: Any, given: list[Operand], options: Env) -> Any:
    return target(*(one.value for one in given), **{k: v.value for k, v in options.items()})
