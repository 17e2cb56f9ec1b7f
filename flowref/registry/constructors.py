"""Parameters of classes and factories, read from their source: required ones, defaults, and example values."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator

from flowref.registry.definitions import Definitions

# Prefix of the reason for leaving out a class that needs arguments.
NEEDS = "needs "
# Containers of torch.
CONTAINER = re.compile(r"(Sequential|ModuleList)$")
# Norms of torch that take a number of features.
FEATURED = re.compile(r"(Batch|Instance)Norm(\dd)?$")
# Example values by parameter name; other parameters have none.
# The plurals alone are lists.
COUNT = re.compile(
    r"(?!(blocks|layers|flows|levels)$).*(blocks?|layers?|depth|flows?|levels?)", re.IGNORECASE
)
HIDDEN = re.compile(r".*(hidden|width|units|bins|knots|steps)", re.IGNORECASE)
SIZE = re.compile(
    r"(n|d|k|in|out|num|c)?_?(dims?|d|n|k|c|features?|channels?|size|inputs?|outputs?|ch|latents?|dimensions?"
    r"|classes|labels|components|mixtures|modes)"
    r"(_(dim|size|features|channels|in|out))?|.*_(dim|size|features|channels)|input_dim|half",
    re.IGNORECASE,
)
ODD = "3"
# Parameters whose default means no context: sizes of a context, or numbers of classes. A larger
# value makes another flow.
OPENING = {
    re.compile(r"(n|num|dim|d)?_?(classes|labels)"): "3",
    re.compile(
        r"(n|num|dim|d)_?(context|ctx|cond|condition|gin|cond_?inputs?)"
        r"|(context|ctx|cond|condition(al|ing)?|gin|global)_?(dims?|features?|size|channels|inputs?)|[cy]_dim"
    ): "2",
}
NUMBERS = {
    COUNT: "2",
    HIDDEN: "8",
    SIZE: ODD,
    re.compile(r"parity|flip|swap|reversed?"): "1",
    re.compile(r"loc|mean|mu|shift"): "0.5",
    re.compile(r"scale|std|stddev|sigma"): "0.75",
    re.compile(r"(low|lower|left|min|minimum)(_bound)?"): "-1.5",
    re.compile(r"(high|upper|right|max|maximum)(_bound)?"): "2.0",
    re.compile(r"df|concentration[01]?|kappa|rate"): "2.5",
}


def own_line(found: Definitions, made: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """A class and its base classes in the file."""
    yield made
    for base in made.bases:
        above = found.values.get(ast.unparse(base).partition("[")[0])
        if isinstance(above, ast.ClassDef) and above is not made:
            yield from own_line(found, above)


def own_methods(made: ast.ClassDef) -> list[ast.FunctionDef]:
    """The methods that a class defines itself."""
    return [one for one in made.body if isinstance(one, ast.FunctionDef)]


def built_by(found: Definitions, value: ast.AST | None) -> ast.arguments | None:
    """The parameters of what builds a value; None if unknown."""
    if isinstance(value, ast.FunctionDef):
        return value.args
    if isinstance(value, ast.ClassDef):
        for above in own_line(found, value):
            for method in own_methods(above):
                if method.name == "__init__" and not _passes_on(method.args):
                    return method.args
    return None


def _passes_on(taken: ast.arguments) -> bool:
    """Whether a constructor names no parameter of its own, and gives all it takes to a base class."""
    own = (*taken.posonlyargs, *taken.args[1:], *taken.kwonlyargs)
    return not own and taken.vararg is not None


def constructor_parameters(found: Definitions, value: ast.AST | None) -> dict[str, ast.arg]:
    """The parameters of a constructor or factory, by name."""
    taken = built_by(found, value)
    if taken is None:
        fields = _inherited_required(found, value) if isinstance(value, ast.ClassDef) else []
        return {one.arg: one for one in fields}
    places = [*taken.posonlyargs, *taken.args]
    own = places[1:] if isinstance(value, ast.ClassDef) else places
    return {one.arg: one for one in (*own, *taken.kwonlyargs)}


def required_parameters(found: Definitions, value: ast.AST) -> list[ast.arg]:
    """Required parameters; for a dataclass its fields without default, for a subclass of torch's norms its
    number of features.
    """
    taken = built_by(found, value)
    if taken is None:
        return _inherited_required(found, value) if isinstance(value, ast.ClassDef) else []
    places = [*taken.posonlyargs, *taken.args]
    own = places[int(isinstance(value, ast.ClassDef)) : len(places) - len(taken.defaults)]
    named = [
        one
        for one, default in zip(taken.kwonlyargs, taken.kw_defaults, strict=True)
        if default is None
    ]
    return [*own, *named]


def _inherited_required(found: Definitions, made: ast.ClassDef) -> list[ast.arg]:
    bases = [ast.unparse(base) for above in own_line(found, made) for base in above.bases]
    if any(CONTAINER.search(base) for base in bases):
        return [ast.arg("layers", ast.Name("Module"))]
    if any(FEATURED.search(base) for base in bases):
        return [ast.arg("num_features", ast.Name("int"))]
    return _fields_without_default(made)


def _fields_without_default(made: ast.ClassDef) -> list[ast.arg]:
    marks = [ast.unparse(mark) for mark in (*made.decorator_list, *made.bases)]
    if not any("dataclass" in mark or mark.startswith(("eqx.", "equinox.")) for mark in marks):
        return []
    rows = (one for one in made.body if isinstance(one, ast.AnnAssign) and one.value is None)
    return [
        ast.arg(row.target.id, row.annotation) for row in rows if isinstance(row.target, ast.Name)
    ]


def default_values(found: Definitions, made: ast.ClassDef) -> dict[str, ast.expr]:
    """The parameters of a constructor with a default, and the defaults."""
    taken = built_by(found, made)
    if taken is None:
        return {}
    places = [one.arg for one in (*taken.posonlyargs, *taken.args)]
    last = places[len(places) - len(taken.defaults) :]
    beside = zip(taken.kwonlyargs, taken.kw_defaults, strict=True)
    return dict(zip(last, taken.defaults, strict=True)) | {
        one.arg: default for one, default in beside if default is not None
    }


def missing_parameters(found: Definitions, name: str, given: dict[str, str]) -> dict[str, str]:
    """Required parameters that are not given, with their annotations as text."""
    made = found.values[name]
    needed = [one.arg for one in required_parameters(found, made)] if made is not None else []
    takes = constructor_parameters(found, made)
    return {
        one: ast.unparse(arg.annotation) if arg.annotation else ""
        for one, arg in takes.items()
        if one in needed and one not in given
    }


def example_size(found: Definitions, names: Iterable[str]) -> str:
    """An example of a size: odd, for what an even one would hide, unless classes of the file halve what they
    are given, which they then may do to an odd number as well.
    """
    nodes = [
        node
        for name in names
        if isinstance(made := found.values.get(name), ast.AST)
        for node in ast.walk(made)
    ]
    return "4" if any(map(_is_halving, nodes)) else ODD


def _is_halving(node: ast.AST) -> bool:
    """Whether an expression divides a size by two, or cuts a tensor into two parts."""
    match node:
        case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Div(), right=ast.Constant(value=2)):
            return bool(SIZE.fullmatch(ast.unparse(left).rpartition(".")[2]))
        case ast.Call(func=ast.Attribute(attr="chunk"), args=[ast.Constant(value=2), *_]):
            return True
    return False


def needing(spec: str, missing: dict[str, str], size: str = ODD) -> str:
    """A sentence: what a class or factory needs, and how to give it. ``missing``: parameter -> annotation;
    ``size``: an example of a size.

    >>> print(needing("flows.py:Flow", {"dim": "", "hidden": "int"}))
    needs dim, hidden: say 'flows.py:Flow?dim=3&hidden=8'
    >>> needing("flows.py:Flow", {"net": "nn.Module"})
    'needs net: name a factory that takes nothing and returns the object, as in flows.py:make'
    """
    values = example_values(missing, size)
    wanted = f"{NEEDS}{', '.join(missing)}"
    if not values:
        place = spec.rpartition(":")[0]
        return f"{wanted}: name a factory that takes nothing and returns the object, as in {place}:make"
    sign = "&" if "?" in spec else "?"
    typed = f"{spec}{sign}{'&'.join(f'{name}={value}' for name, value in values.items())}"
    return f"{wanted}: say {shlex.quote(typed)}"


def example_values(missing: dict[str, str], size: str) -> dict[str, str]:
    """Example values for parameters as typed options; empty if one of them has none."""
    values = {
        name: _example_option_value(name, annotation, size) for name, annotation in missing.items()
    }
    return values if all(values.values()) else {}


def beside_standard(name: str) -> str:
    """A non-default value of a distribution's parameter, by its name; empty for others."""
    found = [one for pattern, one in NUMBERS.items() if pattern.fullmatch(name)]
    return found[0] if found and "." in found[0] else ""


def opening(name: str) -> str:
    """A value of a parameter that enables a context, by its name; empty for others."""
    return next((one for pattern, one in OPENING.items() if pattern.fullmatch(name)), "")


def _example_option_value(name: str, annotation: str, size: str) -> str:
    """An example value as typed option; empty if there is none."""
    number = next((one for pattern, one in NUMBERS.items() if pattern.fullmatch(name)), "")
    number = size if number == ODD else number
    match annotation.partition("|")[0].strip():
        case "int":
            return number if number.isdigit() else size
        case "float":
            return number if "." in number else "0.5"
        case "bool":
            return "true"
        case "":
            return number
        case _:
            return ""
