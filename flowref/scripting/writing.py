"""A program for one recorded case: the sources that it needs, its points, and how it reports what
it measures.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref import registry
from flowref.checking.tolerance import SCREEN
from flowref.model import (
    BOUND,
    ROUNDING,
    STATISTICAL,
    Batch,
    Evidence,
    Law,
    Status,
    Subject,
    Undecidable,
    Unsupported,
)
from flowref.reporting.text import plain
from flowref.reporting.words import circumstances
from flowref.scripting.building import building
from flowref.scripting.cases import Case
from flowref.scripting.gathering import Gathering, Mentions, packages_of
from flowref.scripting.standins import substitutes
from flowref.scripting.wording import array, docstring, quoted, shown, wrapped

# Names that the end of each program uses itself.
RESERVED = {
    "X", "CONTEXT", "SEED", "ROW", "ALLOWED", "DTYPE", "OBJECT_SEED", "build", "fresh", "main", "live", "subject", "residual",
    "obj", "imported", "audited", "sys", "traceback",
}  # fmt: skip
LEEWAY = 32
CALLS = ("forward", "inverse", "log_prob")


def program(case: Case) -> str:
    """The whole program."""
    mentions, before = Mentions({"per_row", "silent"}), -1
    while mentions.size() != before:
        before = mentions.size()
        gathering, parts = _gathered(case, mentions)
    imports = sorted(
        gathering.imports | {"import numpy as np", "import sys", "import torch"},
        key=lambda line: (line.startswith("from "), line),
    )
    return "\n".join(
        [
            *docstring(case),
            "",
            "from __future__ import annotations",
            "",
            *imports,
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
        substitutes(case.live.pristine, plan.facts, "float32" in mentions.in_laws),
        mentions,
        packages_of(case.target, case.law, adapter),
        RESERVED,
    )
    gathering.names[id(case.live)] = "live"
    law = gathering.express(case.law)
    names = _abilities(case, mentions)
    given = {name: _value(subject, name, mentions) for name in sorted(mentions.of_subject | names)}
    given = {name: value for name, value in given.items() if value is not None}
    abilities = [f"{name}={gathering.express(value, name)}" for name, value in given.items()]
    live_class = gathering.express(type(case.live))
    subject_class = gathering.express(Subject)
    dialect = gathering.literal(plan.dialect)
    facts = gathering.literal(plan.facts)
    resolve = (
        gathering.express(plan.resolve)
        if "resolve" in mentions.words and mentions.of_subject & {"arrange"}
        else "None"
    )
    built = building(case, gathering, "fresh" in mentions.words and "play" in given)
    batch = gathering.express(Batch)
    arguments = [
        "build",
        dialect,
        facts,
        "DTYPE",
        "OBJECT_SEED",
        "fresh" if "def fresh():" in built else "build",
        resolve,
    ]
    return gathering, [
        *_inputs(case),
        "",
        *built,
        "",
        "",
        "def main():",
        *wrapped(f"live = {live_class}(", arguments, ")"),
        *wrapped(f"subject = {subject_class}(", abilities, ")"),
        *_ending(case, law, batch, gathering),
        "",
        "",
        'if __name__ == "__main__":',
        "    sys.exit(main())",
    ]


def _abilities(case: Case, mentions: Mentions) -> set[str]:
    """The abilities that the law may ask for by a name it was given, rather than as an attribute."""
    asked = set(case.law.needs) & set(CALLS)
    if "normalizer" in case.law.needs and case.subject.normalizer is not None:
        asked.add(case.subject.normalizer.call)
    return asked | ({case.subject.normalizing} if "normalizing" in mentions.of_subject else set())


def _value(subject: Subject, name: str, mentions: Mentions) -> Any:
    """A value or ability of the subject, as far as the law can notice it."""
    value = getattr(subject, name, None)
    if name == "promises":
        return {key: item for key, item in dict(value or {}).items() if key in mentions.in_laws}
    return value


def _inputs(case: Case) -> list[str]:
    """The points and the condition."""
    found, evidence = case.found, case.verdict.evidence
    lines = [f"X = {array(found.x)}"]
    lines.append(f"CONTEXT = {'None' if found.context is None else array(found.context)}")
    lines.append(f"SEED = {found.seed}")
    lines.append(f"DTYPE = torch.{case.condition.dtype}")
    lines.append(f"OBJECT_SEED = {case.condition.seed}")
    if evidence is not None:
        allowed = evidence.allowed if np.isfinite(evidence.allowed) else SCREEN * evidence.unit
        rows = len(found.x)
        lines += _allowed(case.law, evidence, allowed)
        lines.append(
            f"ROW = {_row(case)}"
            + ("  # the point that is judged; the others are its batch" if rows > 1 else "")
        )
    return lines


def _allowed(law: Law, evidence: Evidence, allowed: float) -> list[str]:
    """The bounds that the program judges by. It measures no rounding, so of a small part of what
    was seen it says nothing.
    """
    leeway = evidence.residual / LEEWAY
    if not _lenient(law, evidence, allowed):
        return [
            f"ALLOWED = {allowed!r}  # how far off rounding (or the law itself) lets the residual "
            "be"
        ]
    return [
        f"# Rounding explains {allowed:.3g} of the {evidence.residual:.3g} that were seen. How it "
        "acts on mended code is not",
        f"# measured here: up to a {LEEWAY}nd of what was seen nothing is said, and far below "
        "that the law holds.",
        f"ALLOWED = {leeway!r}",
        f"NEGLIGIBLE = {min(leeway, float(np.sqrt(allowed * evidence.residual)))!r}",
    ]


def _lenient(law: Law, evidence: Evidence, allowed: float) -> bool:
    """Whether there is room between what rounding explains and what was seen."""
    leeway = evidence.residual / LEEWAY
    return law.tolerance == ROUNDING and bool(np.isfinite(leeway)) and leeway > allowed


def _row(case: Case) -> int:
    """Which point of the batch the recorded numbers are of."""
    if len(case.found.x) == 1 or case.verdict.evidence is None:
        return 0
    context = (
        None if case.found.context is None else np.asarray(case.found.context, dtype=np.float64)
    )
    batch = Batch(np.asarray(case.found.x, dtype=np.float64), context, case.found.seed)
    try:
        with np.errstate(all="ignore"):
            residual = case.law.measure(case.subject, batch)
            size = residual.per_row()
            size = np.where(residual.silent, -1.0, size)
    except Exception:  # the program will show what it raises
        return 0
    gap = np.abs(size - case.verdict.evidence.residual)
    return int(np.nan_to_num(gap, nan=0.0, posinf=np.inf).argmin())


def _ending(case: Case, law: str, batch: str, gathering: Gathering) -> list[str]:
    """Measuring, printing and judging."""
    error = case.verdict.status is Status.ERROR
    name, statement = case.verdict.law, case.law.statement
    unsure = [
        gathering.express(kind) for kind in (Unsupported, Undecidable) if gathering.wrote(kind)
    ]
    lines = [
        *wrapped("print(", quoted(f"{name}: {plain(statement)}"), ")", comma=""),
        *wrapped(
            "print(",
            quoted(f"target: {shown(case.verdict.target)}, {circumstances(case.found)}"),
            ")",
            comma="",
        ),
        '    print("x =", X.tolist(), "" if CONTEXT is None else f"context = {CONTEXT.tolist()}")',
        "    try:",
        '        with np.errstate(all="ignore"):',
        f"            residual = {law}(subject, {batch}(X.copy(), None if CONTEXT is None else "
        "CONTEXT.copy(), SEED))",
    ]
    if unsure:
        lines += [
            f"    except {unsure[0] if len(unsure) == 1 else '(' + ', '.join(unsure) + ')'} as "
            "reason:",
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
        allowed = [
            "    allowed = max(ALLOWED, float(np.broadcast_to(residual.allowed, len(X))[ROW]))"
        ]
    evidence = case.verdict.evidence
    between = []
    if (
        evidence is not None
        and np.isfinite(evidence.allowed)
        and _lenient(case.law, evidence, evidence.allowed)
    ):
        between = [
            "    if off > NEGLIGIBLE:",
            '        print("NOT DECIDED: much less than was seen, but rounding is not measured here; flowref replay measures it")',
            "        return 2",
        ]
    return [
        *lines,
        "    off = float(residual.per_row()[ROW])",
        *allowed,
        '    print(f"off by {off!r}, allowed {allowed!r}")',
        "    if residual.silent[ROW]:",
        '        print("NOT MEASURED: the law says nothing at this point")',
        "        return 2",
        "    if not off <= allowed:",
        f'        print(f"VIOLATED {name}: off by {{off:.6g}}, allowed {{allowed:.6g}}")',
        "        return 1",
        *between,
        '    print("the law holds here")',
        "    return 0",
    ]
