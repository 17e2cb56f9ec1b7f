"""One verdict in words: the sentences that every format shares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flowref.model import OBJECT, Counterexample, Status, Verdict
from flowref.reporting.causes import Cause
from flowref.reporting.numbers import bits, contrast, rounded, shown
from flowref.reporting.text import clean, command, opening


def measured(verdict: Verdict, width: int | None = None) -> str:
    """What was seen against what was allowed, on one line; what was seen is left out where it takes
    more than ``width`` letters.
    """
    parts = []
    case, evidence = verdict.counterexample, verdict.evidence
    if case is not None and case.observed:
        seen = contrast(list(case.observed.items())[:4])
        if width is None or len(seen) <= width:
            parts.append(seen)
    if evidence is not None:
        size = f"off by {rounded(evidence.residual)}, allowed {rounded(evidence.allowed)}"
        # Bits are of laws that are judged by rounding, in runs of which there are none otherwise.
        lost = bits(evidence) if evidence.allowed and evidence.replicas else ""
        parts.append(f"{size} ({lost})" if lost else size)
    return "; ".join(parts)


def seen(verdict: Verdict) -> str:
    """What was seen, on one line: numbers, or of a law that only says yes or no what it says."""
    return (remark(verdict) if flagged(verdict) else "") or measured(verdict)


def flagged(verdict: Verdict) -> bool:
    """Whether the law says yes or no, and no number was measured."""
    case, evidence = verdict.counterexample, verdict.evidence
    yes_or_no = evidence is not None and (evidence.residual, evidence.allowed) == (1.0, 0.0)
    return yes_or_no and not (case is not None and case.observed)


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
    if condition.weights:
        moved += f", of the file with sha256 {condition.weights}"
    history = {"fresh": "as built, in eval mode", "trained": "after training"}.get(
        condition.history, ""
    )
    data = "at data" if condition.data else ""
    where = f"in {clean(part)}" if part else ""
    return ", ".join(filter(None, [moved, condition.dtype, history, data, where]))


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
    parts = clean(verdict.reason).split("; ")
    if verdict.counterexample is not None:
        weights = ("at the weights as given", "after moving the parameters by")
        parts = [part for part in parts if not part.startswith(weights)]
    return "; ".join(filter(None, parts))


def failure(verdict: Verdict, statement: str = "", *, commands: bool = True) -> list[str]:
    """One failure in a few lines: name and numbers, the law in words, the reason, the case, how to
    see it again.
    """
    if verdict.status is Status.VIOLATED:
        told = seen(verdict)
        lines = [f"{verdict.status}  {verdict.id}  {verdict.law}   {told}".rstrip()]
        if statement:
            lines.append(f"      the law: {opening(statement)}")
        if (text := remark(verdict)) and text != told:
            lines.append(f"      {text}")
        if verdict.diagnosis:
            lines.append(f"      diagnosis: {clean(verdict.diagnosis)}")
    else:
        lines = [f"{verdict.status}  {verdict.law}   {clean(verdict.reason)}".rstrip()]
    if (case := verdict.counterexample) is not None:
        parts = [inputs(case), circumstances(case, verdict.part)]
        lines.append("      " + ", ".join(filter(None, parts)))
    if commands and (listed := again(verdict)):
        lines.append("      " + "        ".join(listed))
    return lines


def symptom(verdict: Verdict, cause: Cause) -> str:
    """A violation that another one explains, on a line."""
    size = "" if verdict.evidence is None else f"   off by {rounded(verdict.evidence.residual)}"
    return f"{verdict.id}  {verdict.law}   violated {cause.because}{size}"
