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

from flowref.model import USER, FlowrefError, SpecError, Target, TargetError
from flowref.model.declaration import FLOW
from flowref.registry.catalogue import adapters
from flowref.registry.constructors import (
    NEEDS,
    beside_standard,
    constructor_parameters,
    default_values,
    example_size,
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
# Names of methods of a map, its inverse, a log-det or a density.
TELLING = re.compile(
    r"_?(inv|revers|backward|decode|undo|unflow|pull|z_to_x|from_(latent|base|noise)|to_(latent|base|noise|data)|synth)|.*(log_?(abs_?)?(det|jac)|ladj|ldj)"
    r"|log_?(prob|pdf|[pq]$|density|lik)|score_samples$|transform$|i?cdf$"
    r"|(marginal_prob|rate_matrix|transition_matrix|q_sample)$",
    re.IGNORECASE,
)
# Parameters that scale by one by default, and a non-default value; weights of a loss do not count.
NEUTRAL = re.compile(r"temp(erature)?|tau|t|gain|.*(scale|sigma|std)", re.IGNORECASE)
BESIDE_ONE = "0.7"
# Names of negative log-densities.
NEGATIVE = re.compile(r"nll|neg(ative)?_log_?(p|prob|lik)")
# Parameters of a map that reverse it, or accumulate a log-det.
TURNING = re.compile(
    r"rev(erse)?|inv(erse|ert)?|mode|direction|log_?det.*|s?ldj|ladj", re.IGNORECASE
)
# Names of returned log-dets.
LOG_DET = re.compile(r"log_?(abs_?)?_?(det|jac)|ladj|ldj", re.IGNORECASE)
# Attributes of normalizers with running statistics, and names of those without.
RUNNING = re.compile(r"running_|moving_|momentum")
NORMALIZER = re.compile(r"(?i:norm(?!al))|BN(?![a-z])")
# The reason for classes that are rarely flows; reported once per file.
UNNAMED = "no method has a known name; ?forward=NAME names the map"
# Base classes of modules, whose methods may have any name.
MODULES = frozenset({"Module", "LightningModule"})
# Base classes without a map of their own, and those of other things.
PLAIN = MODULES | {"object", "ABC", "Generic", "Bijection"}
OTHERS = re.compile(
    r".*(Enum|Exception|Error|Dataset|DataLoader|NamedTuple|TypedDict|Protocol|Function|Config|TestCase|Optimizer|Callback)"
)
# Options about how something is computed; a class is tried with at most so many others.
MANNERS = re.compile(
    r".*(in_?place|debug|verbose|valid|check|strict|return|training|compile|jit|log).*"
)
VARIANTS = 4
# Names of masks for padded sequences; unambiguous ones.
PADDING = re.compile(r"x_mask|pad(ding)?_mask|seq(uence)?_mask")
MASK = re.compile(r"(x|z|pad(ding)?|seq(uence)?|valid)?_?mask")


@dataclass(frozen=True)
class Listing:
    """``targets``: possible flows; ``left``: other classes with reasons; ``examples``: targets whose
    arguments are example values; ``variants``: targets repeated with an option that changes them.
    """

    place: str
    targets: tuple[Target, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    examples: tuple[Target, ...] = ()
    variants: tuple[Target, ...] = ()

    @property
    def incomplete(self) -> list[tuple[str, str]]:
        """Possible flows that need arguments, with reasons."""
        return [(name, reason) for name, reason in self.left if reason.startswith(NEEDS)]


def is_whole(spec: str) -> bool:
    """Whether a spec means all definitions of a file or module: flows.py, flows.py:*, mine.flows."""
    head = spec.partition("?")[0]
    place = head.removesuffix(f":{EVERYTHING}")
    if place.casefold() in {name.casefold() for name in adapters()} or ":" in place:
        return False
    if is_file(place):
        return place.endswith(".py")
    named = "." in place or head != place  # a single word is a library's name
    if not named or not all(part.isidentifier() for part in place.split(".")):
        return False
    with contextlib.suppress(TargetError):
        return source_of_module(place) is not None
    return False


def listing(spec: str) -> Listing:
    """Possible flows in the file or module of a spec such as flows.py, flows.py:* or, with options for all
    of them, flows.py?event=4.

    Raises `SpecError` or `TargetError` in one sentence if there are none, or the file cannot be read.
    """
    found = full_listing(spec)
    if not found.targets:
        left = "; ".join(f"{name}: {reason}" for name, reason in found.left)
        raise SpecError(
            f"{found.place} defines no flow that can be built{f' ({left})' if left else ''}"
        )
    return found


def parts_within(target: Target) -> str:
    """A hint at the flows that an object of a file has as parts, or an empty string."""
    place = target.component.rpartition(":")[0]
    if target.option("part") or not place.endswith(".py"):
        return ""
    try:
        listed = full_listing(place).targets
    except FlowrefError:
        return ""
    parts = [one.option("part") for one in listed if one.component == target.component]
    named = [str(target.with_options(part=part)) for part in parts if part]
    return f"; it has flows as parts: {', '.join(named)}" if named else ""


def full_listing(spec: str) -> Listing:
    """`listing`, also without any target.

    Raises `SpecError` or `TargetError` if the source cannot be read.
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
    """Variants of a class, one for each optional parameter that its source branches on: numbers compared
    with None (such as the momentum of a batch norm), flags, and context sizes, since each branch is in
    effect another class. Distributions are also tried away from their standard form, in which a missing
    scale does not show, as are parameters such as temperatures; maps with a padding mask are tried with
    padding.
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
    whether_none = set(map(_last_name, compared))
    whether = {_last_name(one) for test in tests for one in ast.walk(test)}
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
    """The argument of a map that masks padded sequences: None by default and named as a mask, or
    unambiguously named; else empty.
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


def _last_name(node: ast.AST) -> str:
    """The last part of a dotted name; empty for other expressions."""
    return node.id if isinstance(node, ast.Name) else str(getattr(node, "attr", ""))


def _user_target(found: Definitions, name: str, given: Given) -> Target:
    """The target of a name, with those options that it accepts or flowref reserves."""
    takes = constructor_parameters(found, found.values[name])
    options = tuple(one for one in given if one[0] in takes or one[0] in OURS)
    return Target(USER, f"{found.place}:{name}", options)


def _reached(
    found: Definitions, name: str, reason: str, given: Given, hosts: Sequence[Target]
) -> str:
    """A reason whose example spec reaches a class that needs arguments as a part of what builds it."""
    plain = f"{found.place}:{name}?"
    if plain not in reason or not missing_parameters(found, name, dict(given)):
        return reason
    host = next((one for one in hosts if name in _builds_within(found, one)), None)
    return (
        reason if host is None else reason.replace(plain, f"{host.with_options(**{PART: name})}&")
    )


def _part_target(found: Definitions, name: str, _: Given, hosts: Sequence[Target]) -> Target | None:
    """A class that needs arguments, as a part of a target that builds it."""
    if not _is_sure(found, name):
        return None
    host = next((one for one in hosts if name in _builds_within(found, one)), None)
    return None if host is None else host.with_options(**{PART: name})


def _built_here(found: Definitions, name: str, given: Given, _: Sequence[Target]) -> Target | None:
    """A class that needs arguments, with example values."""
    values = (
        example_values(missing_parameters(found, name, dict(given)), _size(found, name))
        if _is_sure(found, name)
        else {}
    )
    return _user_target(found, name, given).with_options(**values) if values else None


def _builds_within(found: Definitions, host: Target) -> set[str]:
    """Names of the file used, transitively, in the source of what a target builds, without its own class."""
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
    """The classes of which a function returns an object, or a name is one."""
    made = found.values[target.component.rpartition(":")[2]]
    calls = _returned_calls(made) if isinstance(made, ast.FunctionDef) else (made,)
    return {ast.unparse(one.func) for one in calls if isinstance(one, ast.Call)}


def _no_flow(found: Definitions, name: str, given: dict[str, str]) -> str | None:
    """Why a name is no flow, empty if that is evident; None if it may be one."""
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
    return needing(f"{found.place}:{name}", wanted, _size(found, name)) if wanted else None


def _size(found: Definitions, name: str) -> str:
    """An example of a size for a class or factory, by its code and that of what it builds."""
    within = _builds_within(found, Target(USER, f"{found.place}:{name}"))
    return example_size(found, sorted({name, *within}))


def _external_bases(found: Definitions, made: ast.ClassDef) -> list[str]:
    bases = [
        ast.unparse(base).partition("[")[0] for one in own_line(found, made) for base in one.bases
    ]
    return [
        base.rpartition(".")[2]
        for base in bases
        if not isinstance(found.values.get(base), ast.ClassDef)
    ]


def _no_class(found: Definitions, made: ast.ClassDef) -> str | None:
    """Why a class is no flow, empty if that is evident; None if it may be one."""
    foreign = _external_bases(found, made)
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
        return f"none of {', '.join(own)} is a known name: say which, as in {typed}"
    if any(TURNING.fullmatch(one.arg) for one in called.args.args) or _returns_tuple(called):
        return None
    if NORMALIZER.search(made.name) or any(
        RUNNING.search(ast.unparse(above)) for above in above_it
    ):
        return None
    return "no inverse, no log-det and no log_prob"


def _declares(made: ast.ClassDef) -> bool:
    set_here = [one.targets for one in made.body if isinstance(one, ast.Assign)]
    set_here += [[one.target] for one in made.body if isinstance(one, ast.AnnAssign)]
    return any(_last_name(one) == FLOW for targets in set_here for one in targets)


def _is_sure(found: Definitions, name: str) -> bool:
    """Whether the pair that a class returns is a map's rather than a network's (such as shift and scale of
    a coupling): it has several methods, or names a log-det.
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
    if called is None or any(map(TELLING.match, its)) or not _returns_tuple(called):
        return True
    named = [one.arg for one in called.args.args]
    returned = [ast.unparse(one) for one in ast.walk(called) if isinstance(one, ast.Return)]
    return any(map(TURNING.fullmatch, named)) or any(map(LOG_DET.search, returned))


def _returns_tuple(called: ast.FunctionDef) -> bool:
    """Whether a call returns a tuple, which may hold a log-det."""
    returned = (one.value for one in ast.walk(called) if isinstance(one, ast.Return))
    return any(isinstance(one, ast.Tuple) and len(one.elts) > 1 for one in returned)


def _makes(found: Definitions, made: ast.FunctionDef) -> bool:
    """Whether a function returns a possible flow, other than a class of the file with default arguments."""
    for call in _returned_calls(made):
        if _builds(found, call):
            return bool(call.args or call.keywords) or not _builds_own_class(found, call)
    return False


def _returned_calls(made: ast.FunctionDef) -> Iterator[ast.Call]:
    """The calls whose values a function returns, directly or through a variable."""
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


def _builds_own_class(found: Definitions, call: ast.Call) -> bool:
    """Whether a call builds a class of the file that needs no arguments."""
    built = found.values.get(ast.unparse(call.func))
    return isinstance(built, ast.ClassDef) and not required_parameters(found, built)


def _builds(found: Definitions, call: ast.Call) -> bool:
    """Whether a call builds a possible flow of the file or of a supported library."""
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
