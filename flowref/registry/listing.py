"""Which flows a file defines, read off its text: what `flowref check FILE` and `flowref audit FILE`
load. Candidates that turn out to be none are left out when they are loaded. A class that needs arguments is
looked at where another one builds it, as a part of that one, or is given numbers for them, as examples.
"""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flowref.model import USER, SpecError, Target, TargetError
from flowref.registry.catalogue import adapters
from flowref.registry.definitions import Definitions, definitions, is_file, source_of_module
from flowref.registry.reserved import OURS, PART

Given = tuple[tuple[str, str], ...]
EVERYTHING = "*"
# How the reason begins that a class is left out for which nothing builds.
NEEDS = "needs "
# Methods by which a class may be a map, its way back, a log-det or a density.
TELLING = re.compile(
    r"_?(inv|revers|backward|decode|undo|unflow|pull|z_to_x|from_latent|synth)|.*(log_?(abs_?)?(det|jac)|ladj|ldj)"
    r"|log_?(prob|pdf|p$|density|likelihood)|transform$|i?cdf$",
    re.IGNORECASE,
)
# Parameters of a map that turn it around, or are a running log-det.
TURNING = re.compile(r"rev(erse)?|inv(erse|ert)?|log_?det.*|s?ldj|ladj", re.IGNORECASE)
# What a normalizer keeps, and how one is called that keeps nothing.
RUNNING = re.compile(r"running_|moving_|momentum")
NORMALIZER = re.compile(r"norm(?!al)", re.IGNORECASE)
# Of classes that may be anything, and are seldom flows: said once for all of a file.
UNNAMED = "no method of a name that is known; ?forward=NAME says which maps"
# What a class derives from that maps something, whatever its methods are called.
MODULES = frozenset({"Module", "LightningModule"})
# Base classes that bring no map of their own, and those of what is no flow.
PLAIN = MODULES | {"object", "ABC", "Generic", "Bijection"}
OTHERS = re.compile(
    r".*(Enum|Exception|Error|Dataset|DataLoader|NamedTuple|TypedDict|Protocol|Function|Config|TestCase|Optimizer|Callback)"
)
# Numbers for the parameters of a constructor, by their names; other parameters are given none.
HIDDEN = re.compile(
    r".*(hidden|width|units|bins|knots|blocks|layers|depth|steps|flows)", re.IGNORECASE
)
SIZE = re.compile(
    r"(n|d|k|in|out|num|c)?_?(dims?|d|n|k|c|features?|channels?|size|inputs?|outputs?|ch|latents?|dimensions?"
    r"|classes|labels|components|mixtures|modes)"
    r"(_(dim|size|features|channels|in|out))?|.*_(dim|size|features|channels)|input_dim|half",
    re.IGNORECASE,
)
# Options that say how something is done, and not what; a class is looked at with so many others at most.
MANNERS = re.compile(
    r".*(in_?place|debug|verbose|valid|check|strict|return|training|compile|jit|log).*"
)
VARIANTS = 4
NUMBERS = {
    HIDDEN: "8",
    SIZE: "3",
    re.compile(r"loc|mean|mu|shift"): "0.5",
    re.compile(r"scale|std|stddev|sigma"): "0.75",
    re.compile(r"(low|lower|left|min|minimum)(_bound)?"): "-1.5",
    re.compile(r"(high|upper|right|max|maximum)(_bound)?"): "2.0",
    re.compile(r"df|concentration[01]?|kappa|rate"): "2.5",
}


@dataclass(frozen=True)
class Listing:
    """``targets``: what may be a flow; ``left``: other classes, each with the reason; ``examples``: those of the
    targets whose arguments are examples, since nothing gives them; ``variants``: targets once more, with an option
    that makes something else of them.
    """

    place: str
    targets: tuple[Target, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    examples: tuple[Target, ...] = ()
    variants: tuple[Target, ...] = ()

    @property
    def incomplete(self) -> list[tuple[str, str]]:
        """What may be a flow, and needs arguments."""
        return [(name, reason) for name, reason in self.left if reason.startswith(NEEDS)]


def is_whole(spec: str) -> bool:
    """Whether a spec means all that a file or a module defines: flows.py, flows.py:*, mine.flows."""
    head = spec.partition("?")[0]
    place = head.removesuffix(f":{EVERYTHING}")
    if place.casefold() in {name.casefold() for name in adapters()} or ":" in place:
        return False
    if is_file(place):
        return place.endswith(".py")
    named = "." in place or head != place  # a word by itself is the name of a library
    if not named or not all(part.isidentifier() for part in place.split(".")):
        return False
    with contextlib.suppress(TargetError):
        return source_of_module(place) is not None
    return False


def listing(spec: str) -> Listing:
    """What may be a flow in the file or module of a spec such as flows.py, flows.py:* or, in front
    of options for all of it, flows.py?event=4.

    Raises: `SpecError` or `TargetError` in one sentence where there is nothing, or nothing to read.
    """
    found = listed(spec)
    if not found.targets:
        left = "; ".join(f"{name}: {reason}" for name, reason in found.left)
        raise SpecError(
            f"{found.place} defines no flow that can be built{f' ({left})' if left else ''}"
        )
    return found


def listed(spec: str) -> Listing:
    """What `listing` gives, also where it has no target.

    Raises: `SpecError` or `TargetError` where the text cannot be read.
    """
    head, _, query = spec.partition("?")
    place = head.removesuffix(f":{EVERYTHING}")
    found = definitions(place)
    if found is None:
        raise SpecError(
            f"{place} cannot be read without importing it; name a flow in it, as {place}:make"
        )
    given = Target.parse(f"{place}:x{'?' if query else ''}{query}", set()).options
    targets: dict[str, Target] = {}
    left: dict[str, str] = {}
    for name in found.public:
        reason = _no_flow(found, name, dict(given))
        if reason is None:
            targets[name] = _target(found, name, given)
        elif reason:
            left[name] = reason
    examples: dict[str, Target] = {}
    made = set().union(*(_made_by(found, one) for one in targets.values()))
    left = {name: reason for name, reason in left.items() if name not in made}
    for step in (_part, _built_here, _part):
        hosts = (*targets.values(), *examples.values())
        for name in [name for name, reason in left.items() if reason.startswith(NEEDS)]:
            if (target := step(found, name, given, hosts)) is not None:
                (examples if step is _built_here else targets)[name] = target
                del left[name]
    targets |= examples
    unnamed = [name for name, reason in left.items() if reason == UNNAMED]
    reasons = [(name, reason) for name, reason in left.items() if reason != UNNAMED]
    reasons += [(", ".join(unnamed), UNNAMED)] if unnamed else []
    in_order = {name: targets[name] for name in found.public if name in targets}
    variants = [one for name in in_order for one in _otherwise(found, name, in_order[name])]
    return Listing(
        place,
        tuple(in_order.values()),
        tuple(reasons),
        tuple(examples.values()),
        tuple(variants),
    )


def _otherwise(found: Definitions, name: str, target: Target) -> Iterator[Target]:
    """A class once more for each parameter with a default that its text asks about, and that is not given: a
    number whether it is None, as the momentum of a batch norm, and what is true or false. Behind such a
    question is another class in all but name.
    """
    made = found.values[name]
    if not isinstance(made, ast.ClassDef) or target.option(PART) is not None:
        return
    nodes = [one for above in _line(found, made) for one in ast.walk(above)]
    compared = [
        one.left
        for one in nodes
        if isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.Is | ast.IsNot)
    ]
    tests = [one.test for one in nodes if isinstance(one, ast.If | ast.IfExp)]
    whether_none = set(map(_named_by, compared))
    whether = {_named_by(one) for test in tests for one in ast.walk(test)}
    others = {}
    for parameter, default in _defaults(found, made).items():
        value = default.value if isinstance(default, ast.Constant) else None
        if target.option(parameter) is not None or MANNERS.fullmatch(parameter):
            continue
        if type(value) in (int, float) and parameter in whether_none:
            others[parameter] = "None"
        if type(value) is bool and parameter in whether:
            others[parameter] = str(not value).lower()
    for parameter in list(others)[:VARIANTS]:
        yield target.with_options(**{parameter: others[parameter]})


def _named_by(node: ast.AST) -> str:
    """The last name of a name or an attribute."""
    return node.id if isinstance(node, ast.Name) else str(getattr(node, "attr", ""))


def _defaults(found: Definitions, made: ast.ClassDef) -> dict[str, ast.expr]:
    """The parameters of a constructor that have a default, with it."""
    taken = _built_by(found, made)
    if taken is None:
        return {}
    places = [one.arg for one in (*taken.posonlyargs, *taken.args)]
    last = places[len(places) - len(taken.defaults) :]
    beside = zip(taken.kwonlyargs, taken.kw_defaults, strict=True)
    return dict(zip(last, taken.defaults, strict=True)) | {
        one.arg: default for one, default in beside if default is not None
    }


def _target(found: Definitions, name: str, given: Given) -> Target:
    """What a name stands for, with those of the options that are its own or flowref's."""
    takes = _parameters(found, found.values[name])
    options = tuple(one for one in given if one[0] in takes or one[0] in OURS)
    return Target(USER, f"{found.place}:{name}", options)


def _part(found: Definitions, name: str, _: Given, hosts: Sequence[Target]) -> Target | None:
    """What needs arguments, within another one that builds it."""
    host = next((one for one in hosts if name in _builds_within(found, one)), None)
    return None if host is None else host.with_options(**{PART: name})


def _built_here(found: Definitions, name: str, given: Given, _: Sequence[Target]) -> Target | None:
    """What needs arguments, with numbers for them."""
    values = _examples(_missing(found, name, dict(given)))
    return _target(found, name, given).with_options(**values) if values else None


def _missing(found: Definitions, name: str, given: dict[str, str]) -> dict[str, str]:
    """The parameters that have no default and are not given, with their annotations as text."""
    made = found.values[name]
    needed = [one.arg for one in _required(found, made)] if made is not None else []
    takes = _parameters(found, made)
    return {
        one: ast.unparse(arg.annotation) if arg.annotation else ""
        for one, arg in takes.items()
        if one in needed and one not in given
    }


def _examples(missing: dict[str, str]) -> dict[str, str]:
    """Values for parameters, as options are typed; none where there is none for one of them."""
    values = {name: _example(name, annotation) for name, annotation in missing.items()}
    return values if all(values.values()) else {}


def _builds_within(found: Definitions, host: Target) -> set[str]:
    """The names of the file that may be those of parts of what a target builds: those that its text has, that
    theirs has, and so on, without the class that it is of.
    """
    within: set[str] = set()
    waiting = [host.component.rpartition(":")[2]]
    while waiting:
        text = found.values.get(waiting.pop())
        nodes = ast.walk(text) if isinstance(text, ast.AST) else ()
        new = {one.id for one in nodes if isinstance(one, ast.Name) and one.id in found.values}
        waiting += new - within
        within |= new
    return within - _made_by(found, host)


def _made_by(found: Definitions, target: Target) -> set[str]:
    """The classes of which what a function returns is, or what a name stands for."""
    made = found.values[target.component.rpartition(":")[2]]
    calls = _returned(made) if isinstance(made, ast.FunctionDef) else (made,)
    return {ast.unparse(one.func) for one in calls if isinstance(one, ast.Call)}


def _no_flow(found: Definitions, name: str, given: dict[str, str]) -> str | None:
    """Why a name is none, empty where that goes without saying; None where it may be one."""
    match found.values[name]:
        case ast.ClassDef() as made:
            reason: str | None = _no_class(found, made)
        case ast.FunctionDef() as made:
            reason = None if _makes(found, made) else ""
        case ast.Call() as made:
            return None if _builds(found, made) else ""
        case _:
            return ""
    if reason is not None:
        return reason
    missing = _missing(found, name, given)
    return needing(f"{found.place}:{name}", missing) if missing else None


def needing(spec: str, missing: dict[str, str]) -> str:
    """What a class or a factory needs, and how it is given. ``missing``: parameter -> annotation.

    >>> print(needing("flows.py:Flow", {"dim": "", "hidden": "int"}))
    needs dim, hidden: say 'flows.py:Flow?dim=3&hidden=8'
    >>> needing("flows.py:Flow", {"net": "nn.Module"})
    'needs net: name a factory that takes nothing and returns the object, as in flows.py:make'
    """
    values = _examples(missing)
    wanted = f"{NEEDS}{', '.join(missing)}"
    if not values:
        place = spec.rpartition(":")[0]
        return f"{wanted}: name a factory that takes nothing and returns the object, as in {place}:make"
    sign = "&" if "?" in spec else "?"
    typed = f"{spec}{sign}{'&'.join(f'{name}={value}' for name, value in values.items())}"
    return f"{wanted}: say {shlex.quote(typed)}"


def _example(name: str, annotation: str) -> str:
    """A value for a parameter, as an option is typed; empty where it is none that can be typed."""
    number = next((one for pattern, one in NUMBERS.items() if pattern.fullmatch(name)), "")
    match annotation.partition("|")[0].strip():
        case "int":
            return "8" if HIDDEN.fullmatch(name) else "3"
        case "float":
            return number if "." in number else "0.5"
        case "bool":
            return "true"
        case "":
            return number
        case _:
            return ""


def _line(found: Definitions, made: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """A class and those of the file that it derives from."""
    yield made
    for base in made.bases:
        above = found.values.get(ast.unparse(base).partition("[")[0])
        if isinstance(above, ast.ClassDef) and above is not made:
            yield from _line(found, above)


def _foreign(found: Definitions, made: ast.ClassDef) -> list[str]:
    """The last names of the base classes that the file does not define."""
    bases = [
        ast.unparse(base).partition("[")[0] for one in _line(found, made) for base in one.bases
    ]
    return [
        base.rpartition(".")[2]
        for base in bases
        if not isinstance(found.values.get(base), ast.ClassDef)
    ]


def _methods(made: ast.ClassDef) -> list[ast.FunctionDef]:
    return [one for one in made.body if isinstance(one, ast.FunctionDef)]


def _no_class(found: Definitions, made: ast.ClassDef) -> str | None:
    """Why a class is no flow; empty where that goes without saying, None where it may be one."""
    foreign = _foreign(found, made)
    if any(OTHERS.fullmatch(base) for base in (*foreign, made.name)):
        return ""
    line = list(_line(found, made))
    methods = {one.name: one for above in reversed(line) for one in _methods(above)}
    if any(
        "abstractmethod" in ast.unparse(mark)
        for one in methods.values()
        for mark in one.decorator_list
    ):
        return ""
    if any(base not in PLAIN for base in foreign) or any(map(TELLING.match, methods)):
        return None
    called = methods.get("forward") or methods.get("__call__")
    if called is None:
        own = [name for name in methods if not name.startswith("_")]
        if not own or not MODULES.intersection(foreign):
            return UNNAMED if own else ""
        typed = shlex.quote(f"{found.place}:{made.name}?forward={own[0]}")
        return f"none of {', '.join(own)} is a name that is known: say which, as in {typed}"
    if any(TURNING.fullmatch(one.arg) for one in called.args.args) or _gives_several(called):
        return None
    if NORMALIZER.search(made.name) or any(RUNNING.search(ast.unparse(above)) for above in line):
        return None
    return "no inverse, no log-det and no log_prob"


def _gives_several(called: ast.FunctionDef) -> bool:
    """Whether a call returns a tuple, which may hold a log-det."""
    returned = (one.value for one in ast.walk(called) if isinstance(one, ast.Return))
    return any(isinstance(one, ast.Tuple) and len(one.elts) > 1 for one in returned)


def _makes(found: Definitions, made: ast.FunctionDef) -> bool:
    """Whether a function returns what may be a flow; one that returns what a class of the file is by default
    adds nothing to that.
    """
    for call in _returned(made):
        if _builds(found, call):
            return bool(call.args or call.keywords) or not _is_class(found, call)
    return False


def _returned(made: ast.FunctionDef) -> Iterator[ast.Call]:
    """The calls whose values a function returns, there and then or a few lines before."""
    given = {
        target.id: node.value
        for node in ast.walk(made)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(made):
        value = node.value if isinstance(node, ast.Return) else None
        value = given.get(value.id, value) if isinstance(value, ast.Name) else value
        if isinstance(value, ast.Call):
            yield value


def _is_class(found: Definitions, call: ast.Call) -> bool:
    """Whether a call builds an object of a class of the file that needs no argument."""
    built = found.values.get(ast.unparse(call.func))
    return isinstance(built, ast.ClassDef) and not _required(found, built)


def _builds(found: Definitions, call: ast.Call) -> bool:
    """Whether a call builds what may be a flow: of a class of the file, or of a supported library."""
    first, *rest = ast.unparse(call.func).split(".")
    origin = found.values.get(first)
    match origin:
        case ast.ClassDef():
            return not rest and _no_class(found, origin) is None
        case ast.Import(names=names):
            module = next(
                (one.name for one in names if (one.asname or one.name).startswith(first)), ""
            )
        case ast.ImportFrom(module=str(module), level=0):
            pass
        case _:
            return False
    package = module.partition(".")[0]
    known = {adapter.package for adapter in adapters().values()} - {"", "torch"}
    distribution = package == "torch" and "distributions" in [*module.split("."), *rest]
    return package in known or distribution


def _built_by(found: Definitions, value: ast.AST | None) -> ast.arguments | None:
    """The parameters of what builds a value; None where its text does not tell."""
    if isinstance(value, ast.FunctionDef):
        return value.args
    if isinstance(value, ast.ClassDef):
        for above in _line(found, value):
            for method in _methods(above):
                if method.name == "__init__":
                    return method.args
    return None


def _parameters(found: Definitions, value: ast.AST | None) -> dict[str, ast.arg]:
    """The parameters of a constructor or a factory, by name."""
    taken = _built_by(found, value)
    if taken is None:
        fields = _fields(value) if isinstance(value, ast.ClassDef) else []
        return {one.arg: one for one in fields}
    places = [*taken.posonlyargs, *taken.args]
    own = places[1:] if isinstance(value, ast.ClassDef) else places
    return {one.arg: one for one in (*own, *taken.kwonlyargs)}


def _required(found: Definitions, value: ast.AST) -> list[ast.arg]:
    """Those without a default; of a dataclass its fields without one."""
    taken = _built_by(found, value)
    if taken is None:
        return _fields(value) if isinstance(value, ast.ClassDef) else []
    places = [*taken.posonlyargs, *taken.args]
    own = places[int(isinstance(value, ast.ClassDef)) : len(places) - len(taken.defaults)]
    named = [
        one
        for one, default in zip(taken.kwonlyargs, taken.kw_defaults, strict=True)
        if default is None
    ]
    return [*own, *named]


def _fields(made: ast.ClassDef) -> list[ast.arg]:
    """The fields of a dataclass that have no default."""
    marks = [ast.unparse(mark) for mark in (*made.decorator_list, *made.bases)]
    if not any("dataclass" in mark or mark.startswith(("eqx.", "equinox.")) for mark in marks):
        return []
    rows = (one for one in made.body if isinstance(one, ast.AnnAssign) and one.value is None)
    return [
        ast.arg(row.target.id, row.annotation) for row in rows if isinstance(row.target, ast.Name)
    ]
