"""The sentences that every format shares: evidence, counterexamples, commands and tallies in words."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from flowref.model import OBJECT, Counterexample, Evidence, Status, Verdict
from flowref.reporting.report import BROKEN, Report

LABELS = (
    (Status.HOLDS, "hold"),
    (Status.VIOLATED, "VIOLATED"),
    (Status.CRASHED, "CRASHED"),
    (Status.TIMEOUT, "TIMEOUT"),
    (Status.ERROR, "ERROR"),
    (Status.ADVICE, "advice"),
    (Status.INCONCLUSIVE, "inconclusive"),
    (Status.NOT_APPLICABLE, "n/a"),
    (Status.NOT_RUN, "not run"),
)
FAILURES = (Status.VIOLATED, *BROKEN)
SHOWN = 24


def clean(text: str) -> str:
    r"""Text from a target on one line, control characters made visible, so that it cannot steer a
    terminal.

    >>> clean("a\x1b[31mb\nc")
    'a\\x1b[31mb c'
    """
    flat = " ".join(text.split())
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in flat)


# The mathematics of the laws' statements, where no TeX is read.
TEX = (
    (r"\\mathrm\{(\w+)\}", r"\1"),
    (r"\\hat ?(\w)", r"\1" + "\u0302"),
    (r"\\overline\{([^{}]*)\}", r"mean(\1)"),
    (r"\\frac12 ?", "1/2 "),
    (r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)"),
    (r"\^\{-1\}", "⁻¹"),
    (r"\\partial_\\theta ?", "∂θ "),
    (r"\\partial ?", "∂"),
    (r"\\(log|det)(?![A-Za-z])", r"\1"),
    (r"\\sqrt\{([^{}]*)\}", r"√(\1)"),
    (r"\^\{([^{}]*)\}", r"^(\1)"),
    (r"_\{([^{}]*)\}", r"_\1"),
    (r"\\[, ]", " "),
    (r"\$", ""),
)
LETTERS = {
    "mu": "μ", "epsilon": "ε", "eta": "η", "sum": "Σ", "int": "∫", "ne": "≠",
    "gamma": "γ", "sigma": "σ", "beta": "β", "alpha": "α", "lambda": "λ", "theta": "θ", "pi": "π", "Phi": "Φ",  # noqa: RUF001  Greek letters are meant
    "le": "≤", "sim": "~", "Rightarrow": "⇒", "leftarrow": "←", "pm": "±", "langle": "<", "rangle": ">", "dots": "...",
    "|": "‖", "ge": "≥", "mid": "|", "lfloor": "⌊", "rfloor": "⌋",
}  # fmt: skip


def plain(statement: str) -> str:
    r"""A statement with its mathematics in letters.

    >>> plain(r"The log-det is $\log|\det \partial f^{-1} / \partial z|$.")
    'The log-det is log|det ∂f⁻¹ / ∂z|.'
    """
    statement = re.sub(
        r"\\([A-Za-z]+|\|)", lambda found: LETTERS.get(found[1], found[0]), statement
    )
    for pattern, letters in TEX:
        statement = re.sub(pattern, letters, statement)
    return clean(statement)


def number(value: Any) -> str:
    """A number as short as it can be without lying: six digits if they suffice, all of them
    otherwise.

    >>> number(0.5), number(0.1 + 0.2), number(-0.0), number(3.0)
    ('0.5', '0.30000000000000004', '-0', '3')
    """
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if math.isnan(value) or float(short) == value else repr(value)


def rounded(value: float, digits: int = 4) -> str:
    """A number for reading, to a few significant digits."""
    return f"{value:.{digits}g}"


def contrast(values: Sequence[tuple[str, Any]]) -> str:
    """Named numbers, with just enough digits that the first is seen to differ from those that it
    differs from.

    >>> contrast([("got", 1.0000001), ("expected", 1.0)])
    'got 1.0000001, expected 1.0000000'
    """
    singles = [(name, scalar(value)) for name, value in values]
    first, *others = [value for _, value in singles if isinstance(value, float)] or [0.0]
    different = [value for value in others if value != first]
    digits = next(
        (
            d
            for d in range(4, 17)
            if all(rounded(value, d) != rounded(first, d) for value in different)
        ),
        17,
    )
    shape = f"{{:.{digits}g}}" if digits == 4 else f"{{:#.{digits}g}}"
    return ", ".join(
        f"{clean(name)} {shape.format(value) if isinstance(value, float) else shown(value)}"
        for name, value in singles
    )


def scalar(value: Any) -> Any:
    """The only number of a nested list, or the value itself."""
    while isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    return value


def shown(value: Any) -> str:
    """Any value of a counterexample in brief: long lists are cut, and say so."""
    if isinstance(value, str):
        return clean(value)
    total = _size(value)
    text = _listed(value, [SHOWN])
    return (
        f"{text} ({total} numbers; all of them are in the JSON report)" if total > SHOWN else text
    )


def _size(value: Any) -> int:
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 1


def _listed(value: Any, left: list[int]) -> str:
    """Nested lists with at most ``left[0]`` numbers."""
    if not isinstance(value, list | tuple):
        left[0] -= 1
        return clean(number(value))
    parts = []
    for item in value:
        if left[0] <= 0:
            parts.append("...")
            break
        parts.append(_listed(item, left))
    return f"[{', '.join(parts)}]"


def bits(evidence: Evidence) -> str:
    """How many bits of the format were lost, and how many of those rounding explains; empty if that
    says nothing.

    With unit roundoff u: lost = log2(residual / (u scale)), explained = log2(explained / (u
    scale)), in [0, -log2 u].
    """
    whole = round(-math.log2(evidence.unit)) if 0 < evidence.unit < 1 else 0
    floor = evidence.unit * evidence.scale
    if not whole or not math.isfinite(floor) or floor <= 0 or not math.isfinite(evidence.residual):
        return ""

    def count(size: float) -> int:
        ratio = size / floor
        return (
            0
            if not ratio > 1
            else whole
            if math.isinf(ratio)
            else min(whole, math.ceil(math.log2(ratio)))
        )

    return f"{count(evidence.residual)} of {whole} bits lost; rounding explains {count(evidence.explained)}"


def measured(verdict: Verdict) -> str:
    """What was seen against what was allowed, on one line."""
    parts = []
    case, evidence = verdict.counterexample, verdict.evidence
    if case is not None and case.observed:
        parts.append(contrast(list(case.observed.items())[:4]))
    if evidence is not None:
        size = f"off by {rounded(evidence.residual)}, allowed {rounded(evidence.allowed)}"
        lost = bits(evidence) if evidence.allowed else ""
        parts.append(f"{size} ({lost})" if lost else size)
    return "; ".join(parts)


def circumstances(case: Counterexample, part: str = "") -> str:
    """Under which weights, precision and history a case was seen.

    >>> from flowref.model import Condition
    >>> circumstances(Counterexample([0.0], None, 0, Condition(scale=0.3, seed=7)))
    'parameters moved by 0.3 (seed 7), float64'
    """
    condition = case.condition
    moved = (
        f"parameters moved by {condition.scale:g} (seed {condition.seed})"
        if condition.scale
        else "weights as given"
    )
    history = {"fresh": "as built, in eval mode", "train": "in train mode"}.get(
        condition.history, ""
    )
    where = f"in {clean(part)}" if part else ""
    return ", ".join(filter(None, [moved, condition.dtype, history, where]))


def inputs(case: Counterexample) -> str:
    """The inputs of a case, in brief."""
    parts = [] if case.x is None else [f"x = {shown(_single(case.x))}"]
    if case.context is not None:
        parts.append(f"context = {shown(_single(case.context))}")
    if case.x is None:
        parts.append(f"seed = {case.seed}")
    return ", ".join(parts)


def _single(rows: Any) -> Any:
    """The point of a batch of one."""
    return (
        rows[0] if isinstance(rows, list) and len(rows) == 1 and isinstance(rows[0], list) else rows
    )


def command(*words: str) -> str:
    """A command line that can be pasted into a shell."""
    return shlex.join(("flowref", *words))


def live(verdict: Verdict) -> bool:
    """Whether the verdict is about a live object, which no other process can load."""
    return verdict.target.startswith(f"{OBJECT}:")


def again(verdict: Verdict, *options: str) -> list[str]:
    """The commands that show a failure again; ``options``: of those that read a report."""
    if live(verdict):
        return []
    if verdict.status is Status.VIOLATED and verdict.counterexample is not None:
        return [
            command("replay", verdict.id, *options),
            f"{command('script', verdict.id, *options)} > repro.py",
        ]
    return [command("audit", verdict.target, "--laws", verdict.law)]


def tally(verdicts: Iterable[Verdict]) -> str:
    """How many of each status, those that occur.

    >>> tally([Verdict("t", "l", Status.HOLDS), Verdict("t", "m", Status.NOT_RUN)])
    '1 hold  1 not run'
    """
    counts = Counter(verdict.status for verdict in verdicts)
    return (
        "  ".join(f"{counts[status]} {label}" for status, label in LABELS if counts[status])
        or "nothing checked"
    )


def examples(verdicts: Iterable[Verdict]) -> int:
    """How many points were judged or found undecidable; a violation is one more, since the search
    ends with it.
    """
    return sum(v.counts.held + v.counts.undecided + (v.status is Status.VIOLATED) for v in verdicts)


def reasons(verdicts: Iterable[Verdict], status: Status) -> list[tuple[str, list[str]]]:
    """The reasons given for one status with the laws they concern, the most frequent first."""
    groups: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.status is status:
            groups.setdefault(clean(verdict.reason) or "no reason given", []).append(verdict.law)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def remark(verdict: Verdict) -> str:
    """The reason of a verdict, less what `circumstances` says as well."""
    told = (
        ("at the weights as given", "after moving the parameters by")
        if verdict.counterexample is not None
        else ()
    )
    return "; ".join(
        part
        for part in clean(verdict.reason).split("; ")
        if part and not (told and part.startswith(told))
    )


def failure(verdict: Verdict, statement: str = "", *, commands: bool = True) -> list[str]:
    """One failure in a few lines: name and numbers, the law in words, the reason, the case, how to
    see it again.
    """
    if verdict.status is Status.VIOLATED:
        lines = [f"{verdict.status}  {verdict.id}  {verdict.law}   {measured(verdict)}".rstrip()]
        if statement:
            lines.append(f"      the law: {plain(statement)}")
        if said := remark(verdict):
            lines.append(f"      {said}")
    else:
        lines = [f"{verdict.status}  {verdict.law}   {clean(verdict.reason)}".rstrip()]
    if (case := verdict.counterexample) is not None:
        lines.append(
            "      " + ", ".join(filter(None, [inputs(case), circumstances(case, verdict.part)]))
        )
    if commands and (found := again(verdict)):
        lines.append("      " + "        ".join(found))
    return lines


def failures(report: Report) -> list[str]:
    """Everything that keeps a report from being clean, in words; empty if nothing does."""
    found = report.with_status(*FAILURES)
    if not found and not report.problems:
        return []
    violated = len(report.violations)
    counts = [
        (violated, "violation"),
        (len(found) - violated, "broken check"),
        (len(report.problems), "unloadable target"),
    ]
    lines = [
        ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts if count)
    ]
    lines += [f"  {clean(problem.message)}" for problem in report.problems]
    for target, verdicts in report.by_target().items():
        bad = [verdict for verdict in verdicts if verdict.status in FAILURES]
        if bad:
            lines.append(clean(target))
        for verdict in bad:
            note = report.note(verdict.law)
            lines += [
                f"  {line}"
                for line in failure(verdict, note.statement if note else "", commands=False)
            ]
            if not live(verdict):
                lines.append(f"        {command('audit', verdict.target, '--laws', verdict.law)}")
    return lines
