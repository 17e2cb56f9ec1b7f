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
from flowref.model.declaration import FLOW
from flowref.registry.catalogue import adapters
from flowref.registry.constructors import (
    NEEDS,
    beside_standard,
    constructor_parameters,
    default_values,
    example_values,
    missing_parameters,
    needing,
    opening,
    own_line,
    own_methods,
    required_parameters,
)
from flowref.registry.definitions import Definitions, definitions, is_file, source_of_module
from flowref.registry.reserved_options import OURS, PADDED, PART

Given = tuple[tuple[str, str], ...]
EVERYTHING = "*"
# Methods by which a class may be a map, its way back, a log-det or a density.
TELLING = re.compile(
    r"_?(inv|revers|backward|decode|undo|unflow|pull|z_to_x|from_(latent|base|noise)|to_(latent|base|noise|data)|synth)|.*(log_?(abs_?)?(det|jac)|ladj|ldj)"
    r"|log_?(prob|pdf|[pq]$|density|lik)|score_samples$|transform$|i?cdf$"
    r"|(marginal_prob|rate_matrix|transition_matrix|q_sample)$",
    re.IGNORECASE,
)
# Numbers that are one by default, by which something is divided or multiplied on purpose, and what they are beside it:
# weights of a loss are none.
NEUTRAL = re.compile(r"temp(erature)?|tau|t|gain|.*(scale|sigma|std)", re.IGNORECASE)
BESIDE_ONE = "0.7"
# Those that are minus a log-density.
NEGATIVE = re.compile(r"nll|neg(ative)?_log_?(p|prob|lik)")
# Parameters of a map that turn it around, or are a running log-det.
TURNING = re.compile(r"rev(erse)?|inv(erse|ert)?|log_?det.*|s?ldj|ladj", re.IGNORECASE)
# What a log-det is called where it is returned.
LOG_DET = re.compile(r"log_?(abs_?)?_?(det|jac)|ladj|ldj", re.IGNORECASE)
# What a normalizer keeps, and how one is called that keeps nothing.
RUNNING = re.compile(r"running_|moving_|momentum")
NORMALIZER = re.compile(r"(?i:norm(?!al))|BN(?![a-z])")
# Of classes that may be anything, and are seldom flows: said once for all of a file.
UNNAMED = "no method of a name that is known; ?forward=NAME says which maps"
# What a class derives from that maps something, whatever its methods are called.
MODULES = frozenset({"Module", "LightningModule"})
# Base classes that bring no map of their own, and those of what is no flow.
PLAIN = MODULES | {"object", "ABC", "Generic", "Bijection"}
OTHERS = re.compile(
    r".*(Enum|Exception|Error|Dataset|DataLoader|NamedTuple|TypedDict|Protocol|Function|Config|TestCase|Optimizer|Callback)"
)
# Options that say how something is done, and not what; a class is looked at with so many others at most.
MANNERS = re.compile(
    r".*(in_?place|debug|verbose|valid|check|strict|return|training|compile|jit|log).*"
)
VARIANTS = 4
# Masks of padded sequences; those that are none of anything else.
PADDING = re.compile(r"x_mask|pad(ding)?_mask|seq(uence)?_mask")
MASK = re.compile(r"(x|z|pad(ding)?|seq(uence)?|valid)?_?mask")


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
    found = full_listing(spec)
    if not found.targets:
        left = "; ".join(f"{name}: {reason}" for name, reason in found.left)
        raise SpecError(
            f"{found.place} defines no flow that can be built{f' ({left})' if left else ''}"
        )
    return found


def full_listing(spec: str) -> Listing:
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
            targets[name] = _user_target(found, name, given)
        elif reason:
            left[name] = reason
    examples: dict[str, Target] = {}
    made = set().union(*(_made_by(found, one) for one in targets.values()))
    left = {name: reason for name, reason in left.items() if name not in made}
    for step in (_part_target, _built_here, _part_target):
        hosts = (*targets.values(), *examples.values())
        for name in [name for name, reason in left.items() if reason.startswith(NEEDS)]:
            if (target := step(found, name, given, hosts)) is not None:
                (examples if step is _built_here else targets)[name] = target
                del left[name]
    targets |= examples
    left = {name: _reached(found, name, why, given, hosts) for name, why in left.items()}
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
    number whether it is None, as the momentum of a batch norm, what is true or false, and the size of a context:
    behind such a question is another class in all but name. A distribution is looked at beside its standard form
    as well, in which a scale that is forgotten does not show, as is what has a temperature; and what takes a mask of sequences
    with padding.
    """
    made = found.values[name]
    if not isinstance(made, ast.ClassDef) or target.option(PART) is not None:
        return
    nodes = [one for above in own_line(found, made) for one in ast.walk(above)]
    compared = [
        one.left
        for one in nodes
        if isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.Is | ast.IsNot)
    ]
    tests = [one.test for one in nodes if isinstance(one, ast.If | ast.IfExp)]
    whether_none = set(map(_named_by, compared))
    whether = {_named_by(one) for test in tests for one in ast.walk(test)}
    others: dict[str, str] = {}
    standard: dict[str, str] = {}
    for parameter, default in default_values(found, made).items():
        value = default.value if isinstance(default, ast.Constant) else None
        if target.option(parameter) is not None or MANNERS.fullmatch(parameter):
            continue
        if value in (None, 0) and isinstance(default, ast.Constant) and (one := opening(parameter)):
            others[parameter] = one
        if type(value) is int and value and opening(parameter) and parameter in whether:
            others[parameter] = "0"
        if type(value) in (int, float) and parameter in whether_none:
            others[parameter] = "None"
        if type(value) is bool and parameter in whether:
            others[parameter] = str(not value).lower()
        if type(value) in (int, float) and value in (0, 1) and (one := beside_standard(parameter)):
            standard[parameter] = one
        elif type(value) is float and value == 1 and NEUTRAL.fullmatch(parameter):
            standard[parameter] = BESIDE_ONE
    if standard:
        yield target.with_options(**standard)
    if mask := _padding_mask(found, made):
        yield target.with_options(**{PADDED: mask})
    for parameter in list(others)[:VARIANTS]:
        yield target.with_options(**{parameter: others[parameter]})


def _padding_mask(found: Definitions, made: ast.ClassDef) -> str:
    """The argument of a map that is None by default and called a mask, as that of padded sequences is, or is
    called so without a doubt; empty where there is none.
    """
    for above in own_line(found, made):
        for method in own_methods(above):
            if method.name == "forward":
                taken, defaults = method.args.args, method.args.defaults
                needed = [one.arg for one in taken[: len(taken) - len(defaults)]]
                pairs = zip(taken[len(needed) :], defaults, strict=True)
                masks = [one.arg for one, default in pairs if ast.unparse(default) == "None"]
                return next(
                    (name for name in masks if MASK.fullmatch(name)),
                    next((name for name in needed if PADDING.fullmatch(name)), ""),
                )
    return ""


def _named_by(node: ast.AST) -> str:
    """The last name of a name or an attribute."""
    return node.id if isinstance(node, ast.Name) else str(getattr(node, "attr", ""))


def _user_target(found: Definitions, name: str, given: Given) -> Target:
    """What a name stands for, with those of the options that are its own or flowref's."""
    takes = constructor_parameters(found, found.values[name])
    options = tuple(one for one in given if one[0] in takes or one[0] in OURS)
    return Target(USER, f"{found.place}:{name}", options)


def _reached(
    found: Definitions, name: str, reason: str, given: Given, hosts: Sequence[Target]
) -> str:
    """A reason whose example of a spec reaches a class that needs arguments: within what builds it."""
    plain = f"{found.place}:{name}?"
    if plain not in reason or not missing_parameters(found, name, dict(given)):
        return reason
    host = next((one for one in hosts if name in _builds_within(found, one)), None)
    return (
        reason if host is None else reason.replace(plain, f"{host.with_options(**{PART: name})}&")
    )


def _part_target(found: Definitions, name: str, _: Given, hosts: Sequence[Target]) -> Target | None:
    """What needs arguments, within another one that builds it."""
    if not _is_sure(found, name):
        return None
    host = next((one for one in hosts if name in _builds_within(found, one)), None)
    return None if host is None else host.with_options(**{PART: name})


def _built_here(found: Definitions, name: str, given: Given, _: Sequence[Target]) -> Target | None:
    """What needs arguments, with numbers for them."""
    values = (
        example_values(missing_parameters(found, name, dict(given)))
        if _is_sure(found, name)
        else {}
    )
    return _user_target(found, name, given).with_options(**values) if values else None


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
    wanted = missing_parameters(found, name, given)
    return needing(f"{found.place}:{name}", wanted) if wanted else None


def _foreign(found: Definitions, made: ast.ClassDef) -> list[str]:
    """The last names of the base classes that the file does not define."""
    bases = [
        ast.unparse(base).partition("[")[0] for one in own_line(found, made) for base in one.bases
    ]
    return [
        base.rpartition(".")[2]
        for base in bases
        if not isinstance(found.values.get(base), ast.ClassDef)
    ]


def _no_class(found: Definitions, made: ast.ClassDef) -> str | None:
    """Why a class is no flow; empty where that goes without saying, None where it may be one."""
    foreign = _foreign(found, made)
    if any(OTHERS.fullmatch(base) for base in (*foreign, made.name)):
        return ""
    above_it = list(own_line(found, made))
    its = {one.name: one for above in reversed(above_it) for one in own_methods(above)}
    if any(
        "abstractmethod" in ast.unparse(mark) for one in its.values() for mark in one.decorator_list
    ):
        return ""
    if FLOW in its or any(map(_declares, above_it)):
        return None
    if any(base not in PLAIN for base in foreign) or any(map(TELLING.match, its)):
        return None
    called = its.get("forward") or its.get("__call__")
    if called is None:
        own = [name for name in its if not name.startswith("_")]
        if not own or not MODULES.intersection(foreign):
            return UNNAMED if own else ""
        minus = [f"log_prob={name}" for name in own if NEGATIVE.match(name)]
        typed = shlex.quote(f"{found.place}:{made.name}?{[*minus, f'forward={own[0]}'][0]}")
        return f"none of {', '.join(own)} is a name that is known: say which, as in {typed}"
    if any(TURNING.fullmatch(one.arg) for one in called.args.args) or _gives_several(called):
        return None
    if NORMALIZER.search(made.name) or any(
        RUNNING.search(ast.unparse(above)) for above in above_it
    ):
        return None
    return "no inverse, no log-det and no log_prob"


def _declares(made: ast.ClassDef) -> bool:
    """Whether a class states what it is."""
    set_here = [one.targets for one in made.body if isinstance(one, ast.Assign)]
    set_here += [[one.target] for one in made.body if isinstance(one, ast.AnnAssign)]
    return any(_named_by(one) == FLOW for targets in set_here for one in targets)


def _is_sure(found: Definitions, name: str) -> bool:
    """Whether what a class returns is no pair of a network, as the shift and the scale of a coupling are: it has
    more than a call, or names a log-det.
    """
    made = found.values[name]
    if not isinstance(made, ast.ClassDef):
        return True
    its = {
        one.name: one
        for above in reversed(list(own_line(found, made)))
        for one in own_methods(above)
    }
    called = its.get("forward") or its.get("__call__")
    if called is None or any(map(TELLING.match, its)) or not _gives_several(called):
        return True
    named = [one.arg for one in called.args.args]
    returned = [ast.unparse(one) for one in ast.walk(called) if isinstance(one, ast.Return)]
    return any(map(TURNING.fullmatch, named)) or any(map(LOG_DET.search, returned))


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
    return isinstance(built, ast.ClassDef) and not required_parameters(found, built)


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
