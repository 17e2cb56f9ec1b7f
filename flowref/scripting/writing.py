"""A program for one recorded case: the sources that it needs, how its object is built, and how it reports what it measures."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import platform
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np

from flowref import checking, loading, registry
from flowref.backends.torch.guard import sandbox
from flowref.backends.torch.live import DTYPES, derive
from flowref.backends.torch.present import warm
from flowref.backends.torch.state import cast, duplicate, modules, move, set_mode
from flowref.model import (
    BOUND,
    OBJECT,
    REAL,
    STATISTICAL,
    USER,
    Batch,
    Condition,
    Counterexample,
    FlowrefError,
    Law,
    Status,
    Subject,
    Target,
    Undecidable,
    Unsupported,
    Verdict,
    draw,
)
from flowref.scripting.gathering import Gathering, Mentions, packages_of
from flowref.scripting.standins import substitutes
from flowref.tolerance import SCREEN

WIDTH = 116
# Names that the end of each program uses itself.
RESERVED = {
    "X", "CONTEXT", "SEED", "ROW", "ALLOWED", "DTYPE", "OBJECT_SEED", "build", "fresh", "main", "live", "subject", "residual",
    "obj", "imported", "sys", "traceback",
}  # fmt: skip
CALLS = ("forward", "inverse", "log_prob")


@dataclass(frozen=True)
class Case:
    """Everything that a program is written from."""

    verdict: Verdict
    found: Counterexample
    law: Law
    target: Target
    plan: loading.Plan
    condition: Condition
    subject: Subject

    @property
    def live(self) -> Any:
        """The loaded object behind the subject."""
        return self.subject.call.args[0]  # type: ignore[union-attr]  # every subject is made of partial functions


def case_of(verdict: Verdict) -> Case:
    """The recorded case, loaded. Raises `FlowrefError` in one sentence where no program can show it."""
    found = verdict.counterexample
    if found is None:
        raise FlowrefError(f"{verdict.law} in {verdict.target} was {verdict.status}, which leaves no case to write down")
    target, law = registry.parse_target(verdict.target) if not live(verdict) else None, registry.find_law(verdict.law)
    if target is None:
        raise FlowrefError(
            f"{verdict.target} was a live object, which no program can build; put its construction into a function and "
            "audit that: flowref audit file.py:factory"
        )
    if target.option("mutant") is not None:
        raise FlowrefError(f"{target} is a mutant, and mutants live only inside flowref")
    plan = loading.plan(target)
    if law.rebuild is not None:
        plain = checking.load(target, Condition(history=law.history))
        target = checking.larger(target, plain, law.rebuild) or target
        plan = loading.plan(target)
    dtype = plan.dtype if found.condition.dtype == "float64" else found.condition.dtype
    condition = Condition(dtype, found.condition.seed, found.condition.scale, found.condition.history)
    return Case(verdict, found, law, target, plan, condition, loading.load(target, condition))


def live(verdict: Verdict) -> bool:
    """Whether the target was a live object of some process."""
    return verdict.target.startswith(f"{OBJECT}:")


def program(case: Case) -> str:
    """The whole program."""
    mentions, before = Mentions({"per_row"}), -1
    while mentions.size() != before:
        before = mentions.size()
        gathering, parts = _gathered(case, mentions)
    imports = sorted(
        gathering.imports | {"import numpy as np", "import sys", "import torch"},
        key=lambda line: (line.startswith("from "), line),
    )
    ours = [line for line in imports if not line.startswith("from __")]
    return "\n".join(
        [
            *_docstring(case),
            "",
            "from __future__ import annotations",
            "",
            *ours,
            "",
            "# How the law is measured: flowref's code, as far as it is needed here.",
            "",
            _joined(gathering.definitions),
            "",
            "",
            "# What is measured: the object in the condition that was recorded, and the points.",
            "",
            *parts,
            "",
        ]
    )


def _joined(definitions: list[str]) -> str:
    """Definitions with two blank lines around functions and classes; constants stay together."""
    text = ""
    small = False
    for definition in definitions:
        before, small = small, not definition.startswith(("def ", "class ", "@"))
        text += ("\n" if before and small else "\n\n\n") + definition if text else definition
    return text


def _gathered(case: Case, mentions: Mentions) -> tuple[Gathering, list[str]]:
    """The definitions, and the text of what follows them."""
    subject, plan = case.subject, case.plan
    adapter = registry.adapters().get(case.target.adapter)
    gathering = Gathering(
        substitutes(case.live.pristine, plan.facts, DTYPES[case.condition.dtype]),
        mentions,
        packages_of(case.target, case.law, adapter),
        RESERVED,
    )
    live_object = case.live
    gathering.names[id(live_object)] = "live"
    law = gathering.express(case.law)
    names = _abilities(case, mentions)
    given = {name: _value(subject, name, mentions) for name in sorted(mentions.of_subject | names)}
    given = {name: value for name, value in given.items() if value not in (None, {}, ())}
    abilities = [f"{name}={gathering.express(value, name)}" for name, value in given.items()]
    live_class = gathering.express(type(live_object))
    subject_class = gathering.express(Subject)
    dialect = gathering.literal(plan.dialect)
    facts = gathering.literal(plan.facts)
    resolve = gathering.express(plan.resolve) if "resolve" in mentions.words and mentions.of_subject & {"arrange"} else "None"
    building = _building(case, gathering, "fresh" in mentions.words and "play" in given)
    batch = gathering.express(Batch)
    arguments = ["build", dialect, facts, "DTYPE", "OBJECT_SEED", "fresh" if "def fresh():" in building else "build", resolve]
    return gathering, [
        *_inputs(case),
        "",
        *building,
        "",
        "",
        "def main():",
        *_wrapped(f"live = {live_class}(", arguments, ")"),
        *_wrapped(f"subject = {subject_class}(", abilities, ")"),
        *_ending(case, law, batch, gathering),
        "",
        "",
        'if __name__ == "__main__":',
        "    sys.exit(main())",
    ]


def _abilities(case: Case, mentions: Mentions) -> set[str]:
    """The abilities that the law may ask for by a name it was given, rather than as an attribute."""
    asked = set(case.law.needs) & set(CALLS)
    return asked | ({case.subject.normalising} if "normalising" in mentions.of_subject else set())


def _value(subject: Subject, name: str, mentions: Mentions) -> Any:
    """A value or ability of the subject, as far as the law can notice it."""
    value = getattr(subject, name, None)
    if name == "promises":
        return {key: item for key, item in dict(value or {}).items() if key in mentions.in_laws}
    return value


def _inputs(case: Case) -> list[str]:
    """The points and the condition."""
    found, evidence = case.found, case.verdict.evidence
    lines = [f"X = {_array(found.x)}"]
    lines.append(f"CONTEXT = {'None' if found.context is None else _array(found.context)}")
    lines.append(f"SEED = {found.seed}")
    lines.append(f"DTYPE = torch.{case.condition.dtype}")
    lines.append(f"OBJECT_SEED = {case.condition.seed}")
    if evidence is not None:
        allowed = evidence.allowed if np.isfinite(evidence.allowed) else SCREEN * evidence.unit
        rows = len(found.x)
        lines.append(f"ALLOWED = {allowed!r}  # how far off rounding (or the law itself) lets the residual be")
        lines.append(f"ROW = {_row(case)}" + ("  # the point that is judged; the others are its batch" if rows > 1 else ""))
    return lines


def _row(case: Case) -> int:
    """Which point of the batch the recorded numbers are of."""
    if len(case.found.x) == 1 or case.verdict.evidence is None:
        return 0
    context = None if case.found.context is None else np.asarray(case.found.context, dtype=np.float64)
    batch = Batch(np.asarray(case.found.x, dtype=np.float64), context, case.found.seed)
    try:
        with np.errstate(all="ignore"):
            residual = case.law.measure(case.subject, batch)
            size = residual.per_row()
            if residual.decidable is not None:
                size = np.where(residual.decidable, size, -1.0)
    except Exception:  # the program will show what it raises
        return 0
    gap = np.abs(size - case.verdict.evidence.residual)
    return int(np.nan_to_num(gap, nan=0.0, posinf=np.inf).argmin())


def _array(value: Any) -> str:
    """Nested lists as an array, each number with all its digits."""
    array = np.asarray(value, dtype=np.float64)
    if array.size > 1 and not array.any() and not np.signbit(array).any():
        return f"np.zeros({array.shape})"
    text = repr(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    if len(text) + 14 > WIDTH:
        text = "\n    " + "\n    ".join(textwrap.wrap(text, WIDTH - 6, break_long_words=False)) + "\n"
    shaped = f".reshape({array.shape})" if 0 in array.shape else ""
    return f"np.array({text}){shaped}"


def _wrapped(head: str, items: list[str], tail: str, comma: str = ",") -> list[str]:
    """A call in the body of a function, on one line if it fits."""
    line = f"    {head}{f'{comma} '.join(items)}{tail}"
    if len(line) <= WIDTH:
        return [line]
    return [f"    {head}", *(f"        {item}{comma}" for item in items), f"    {tail}"]


def _quoted(text: str) -> list[str]:
    """A text as string literals of a bounded length, one after the other."""
    pieces = textwrap.wrap(text, WIDTH - 24, drop_whitespace=False, break_long_words=False)
    return [json.dumps(piece, ensure_ascii=False) for piece in pieces]


def _building(case: Case, gathering: Gathering, fresh: bool) -> list[str]:
    """The functions that build the object: as it comes, and in the recorded condition."""
    plan, condition = case.plan, case.condition
    maker, before = _maker(case, gathering)
    caster, mode = gathering.express(cast), gathering.express(set_mode)
    box, seeds = gathering.express(sandbox), gathering.express(derive)
    lines = [*before]
    head = f"    with {box}({seeds}(OBJECT_SEED, 3), DTYPE):"
    made = f"        obj = {caster}({maker}, DTYPE)"
    if fresh:
        lines += ["", "def fresh():", '    """The object as it is built, in eval mode."""', head, made]
        lines += [f"        {mode}(obj, False)", "        return obj", ""]
    lines += ["", "def build():", f'    """{_condition(case)}"""', head, made]
    if condition.history != "fresh" and modules(case.live.pristine):
        lines += _warming(case, gathering) or [f"        {mode}(obj, True)"]
    if condition.scale and not plan.facts.promises.get("fixed"):
        lines.append(f"        {gathering.express(move)}(obj, {condition.scale!r}, {seeds}(OBJECT_SEED, 5))")
        if plan.dialect.repair is not None:
            lines += ["        with torch.no_grad():", f"            {gathering.express(plan.dialect.repair)}(obj)"]
    lines += [f"        {mode}(obj, {condition.history == 'train'})", "        return obj"]
    return lines


def _condition(case: Case) -> str:
    condition = case.condition
    history = "as built" if condition.history == "fresh" else "after two train-mode batches"
    moved = f", its parameters moved by {condition.scale:g}" if condition.scale else ""
    return f"The object {history}{moved}, in {'train' if condition.history == 'train' else 'eval'} mode."


def _warming(case: Case, gathering: Gathering) -> list[str]:
    """The call that passes two batches through the object in train mode; none where it has no such call."""
    dialect, facts = case.plan.dialect, case.plan.facts
    which = dialect.normalising if dialect.inverse is not None or dialect.normalising == "forward" else "forward"
    speak = getattr(dialect, which) or dialect.log_prob
    if speak is None:
        return []
    support = facts.domain if which == "forward" else (facts.codomain or REAL)
    shape = facts.event_shape if which == "forward" else (facts.latent_shape or facts.event_shape)
    domain = "None" if gathering.express(draw) and gathering.stands_in(draw) else gathering.express(support)
    given = [gathering.express(warm), gathering.express(speak), domain, repr(tuple(shape)), repr(facts.context_shape)]
    return [f"        {given[0]}(obj, {', '.join(given[1:])}, DTYPE, OBJECT_SEED)"]


def _maker(case: Case, gathering: Gathering) -> tuple[str, list[str]]:
    """The expression that builds the object, and the lines that come before it."""
    build = case.plan.build
    if case.target.adapter != USER:
        component = registry.find_component(case.target)
        options = registry.builder_options(case.target)
        listed = ", ".join(f"{key}={value!r}" for key, value in options.items())
        return f"{gathering.express(component.build, 'build')}({listed})", []
    place, _, name = case.target.component.rpartition(":")
    assert isinstance(build, functools.partial)
    instance = build.func is duplicate
    options = registry.builder_options(case.target)
    listed = ", ".join(f"{key}={value!r}" for key, value in options.items())
    if place.partition(".")[0] == "flowref":
        return f"{gathering.express(build.func)}({listed})", []
    if place.endswith(".py"):
        gathering.imports |= {"import importlib.util", "import os"}
        lines = [
            "",
            "def imported(path):",
            '    """The module in a file."""',
            "    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))",
            "    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)",
            "    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)",
            "    spec.loader.exec_module(module)",
            "    return module",
            "",
            "",
            f"audited = imported({place!r})",
            "",
        ]
    else:
        gathering.imports |= {"import importlib", "import os"}
        lines = ["sys.path.insert(0, os.getcwd())", f"audited = importlib.import_module({place!r})", ""]
    if instance:
        gathering.imports.add("import copy")
        return f"copy.deepcopy(audited.{name})", lines
    return f"audited.{name}({listed})", lines


def _docstring(case: Case) -> list[str]:
    """What the program shows, and what was seen when it was written."""
    verdict, evidence = case.verdict, case.verdict.evidence
    verb = "raises an error" if verdict.status is Status.ERROR else "does not hold"
    text = [f"The law {verdict.law} {verb} in {_shown(verdict.target)}.", ""]
    text += textwrap.wrap(f"The law: {case.law.statement}", WIDTH, break_long_words=False)
    if case.law.source:
        text += textwrap.wrap(f"Source: {case.law.source}", WIDTH, break_long_words=False)
    text.append("")
    if verdict.reason:
        text += textwrap.wrap(f"Seen: {verdict.reason}", WIDTH)
    for name, value in case.found.observed.items():
        text += textwrap.wrap(f"  {name}: {_brief(value)}", WIDTH, subsequent_indent="    ")
    if evidence is not None:
        text.append(f"  off by {evidence.residual:.6g}, allowed {evidence.allowed:.6g}")
    if verdict.part:
        text.append(f"  first in {verdict.part}")
    text += ["", f"With {_versions(case)}.", ""]
    text += textwrap.wrap(
        "Run it with Python: it exits with 1 as long as the law is violated, with 0 once it holds, and with 2 where nothing "
        "can be said. It needs the audited code, torch and numpy, and was written by flowref.",
        WIDTH,
    )
    body = "\n".join(text).replace('"""', "'''")
    return [f'{"r" if chr(92) in body else ""}"""{body}', '"""']


def _shown(text: str) -> str:
    return " ".join(text.split())


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:400]}..."


def _versions(case: Case) -> str:
    """The versions that the case was loaded with."""
    names = [f"Python {platform.python_version()}"]
    if case.target.adapter != USER:
        title = registry.adapters()[case.target.adapter].title
        names.append(f"{title} {registry.library_version(case.target.adapter)}".strip())
    names += [f"{name} {importlib.metadata.version(name)}" for name in ("torch", "numpy")]
    return ", ".join(dict.fromkeys(names))


def _ending(case: Case, law: str, batch: str, gathering: Gathering) -> list[str]:
    """Measuring, printing and judging."""
    error = case.verdict.status is Status.ERROR
    name, statement = case.verdict.law, case.law.statement
    unsure = [gathering.express(kind) for kind in (Unsupported, Undecidable) if gathering.wrote(kind)]
    lines = [
        *_wrapped("print(", _quoted(f"{name}: {statement}"), ")", comma=""),
        *_wrapped("print(", _quoted(f"target: {_shown(case.verdict.target)}"), ")", comma=""),
        '    print("x =", X.tolist(), "" if CONTEXT is None else f"context = {CONTEXT.tolist()}")',
        "    try:",
        '        with np.errstate(all="ignore"):',
        f"            residual = {law}(subject, {batch}(X.copy(), None if CONTEXT is None else CONTEXT.copy(), SEED))",
    ]
    if unsure:
        lines += [
            f"    except {unsure[0] if len(unsure) == 1 else '(' + ', '.join(unsure) + ')'} as reason:",
            '        print(f"NOT MEASURED: {reason}")',
            "        return 2",
        ]
    lines += [
        "    except Exception as error:",
        "        traceback.print_exc()",
        '        print(f"RAISED {type(error).__name__}: {error}")',
        "        return 1",
    ]
    gathering.imports.add("import traceback")
    row = "0" if error else "ROW"
    lines += [
        "    for name, values in residual.observed.items():",
        f'        print(f"{{name}}: {{np.asarray(values)[{row}].tolist()}}")',
        "    if residual.note:",
        '        print("note:", residual.note)',
    ]
    if error:
        return [*lines, '    print("the law is measured here without an error")', "    return 0"]
    allowed = ["    allowed = ALLOWED"]
    if case.law.tolerance in (BOUND, STATISTICAL):
        allowed = ["    allowed = max(ALLOWED, float(np.broadcast_to(residual.allowed, len(X))[ROW]))"]
    return [
        *lines,
        "    off = float(residual.per_row()[ROW])",
        *allowed,
        '    print(f"off by {off!r}, allowed {allowed!r}")',
        "    if residual.decidable is not None and not residual.decidable[ROW]:",
        '        print("NOT MEASURED: the law says nothing at this point")',
        "        return 2",
        "    if not off <= allowed:",
        f'        print(f"VIOLATED {name}: off by {{off:.6g}}, allowed {{allowed:.6g}}")',
        "        return 1",
        '    print("the law holds here")',
        "    return 0",
    ]

