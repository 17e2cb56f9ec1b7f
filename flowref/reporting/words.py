"""One verdict as text: sentences shared by all formats."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flowref.model import (
    OBJECT,
    Counterexample,
    Evidence,
    Recognized,
    Status,
    Verdict,
    base_of,
    named_by,
)
from flowref.reporting.causes import Cause
from flowref.reporting.numbers import contrast, rounded_text, summed_up, value_in_brief
from flowref.reporting.programs import PROGRAMS
from flowref.reporting.severity import magnitude, severity
from flowref.reporting.text import clean, command, line_width, opening

# Two numbers that take more characters are only in the report.
LONGEST = 90
# The observed numbers that are shown: what a law reports and what it is compared with, without error
# estimates after these.
MOST_OBSERVED = 3
# The end of a diagnosis: the points that it was tried on.
TRIED = re.compile(r" \([^()]* tried\)$")
# Laws that draw their own points: the input of their cases is irrelevant.
OWN_POINTS = (
    "batch-norm/*", "sample-norm/*", "sampling/*", "density/mass", "density/stated", "density/support[]",
    "gradient/finite[inverse]", "gradient/of-samples[]", "gradient/of-samples[density]", "random/rows-independent",
    "state/degenerate-batch[*-*]",
    "map/log-det[batch*]", "map/log-det[slopes]",
    "map/finite[samples]", "map/inverse[batch-norm]", "shape/one-number-per-point[samples]",
)  # fmt: skip


def evidence_text(verdict: Verdict, width: int | None = None) -> str:
    """Return all numbers on one line, without the observed ones if they take more than ``width``
    characters. Empty for a yes-or-no law without numbers.
    """
    parts = []
    case, evidence = verdict.counterexample, verdict.evidence
    if case is not None and case.observed:
        text = contrast(list(case.observed.items())[:MOST_OBSERVED])
        if width is None or len(text) <= width:
            parts.append(text)
    if evidence is not None and (size := off_by(evidence)):
        parts.append(size)
    return "; ".join(parts)


def off_by(evidence: Evidence) -> str:
    """Return the size of an error and the allowance; empty for a yes-or-no law.

    >>> off_by(Evidence(0.5, 1e-14, replicas=8)), off_by(Evidence(1.0, 0.0))
    ('off by 0.5, rounding allows 1e-14', '')
    """
    if (evidence.residual, evidence.allowed) == (1.0, 0.0):
        return ""
    if not math.isfinite(evidence.residual):
        return "not finite"
    size = f"off by {rounded_text(evidence.residual)}"
    if not evidence.allowed:
        return size
    whose = "rounding allows" if evidence.replicas else "allowed"
    return f"{size}, {whose} {rounded_text(evidence.allowed)}"


def disagreeing_numbers(verdict: Verdict) -> str:
    """Return the two numbers that disagree; the error size if there are fewer or they are long."""
    case, evidence = verdict.counterexample, verdict.evidence
    pairs = [] if case is None else list(case.observed.items())[:2]
    if len(pairs) == 2 and pairs[0][0] == "reported":
        pairs[1] = ("expected", pairs[1][1])
    text = contrast(pairs) if pairs else ""
    if len(text) > LONGEST:
        pairs, text = [], ""
    size = off_by(evidence) if evidence is not None and len(pairs) < 2 else ""
    return "; ".join(filter(None, (text, size)))


def seen(verdict: Verdict) -> str:
    """The observed numbers on one line, or the remark of a yes-or-no law."""
    return disagreeing_numbers(verdict) or remark(verdict)


def flagged(verdict: Verdict) -> bool:
    """Whether the law is of the yes-or-no kind and observed no number."""
    case, evidence = verdict.counterexample, verdict.evidence
    yes_or_no = evidence is not None and not off_by(evidence)
    return yes_or_no and not (case is not None and case.observed)


def circumstances(case: Counterexample, part: str = "", *, usual: bool = True) -> str:
    """Return the weights, precision and history of a case as text; ``usual``: with those at their
    defaults.

    >>> from flowref.model import Condition
    >>> case = Counterexample([0.0], None, 0, Condition(scale=0.3, seed=7))
    >>> circumstances(case), circumstances(case, usual=False)
    ('parameters moved by 0.3 (seed 7), float64', 'parameters moved by 0.3 (seed 7)')
    """
    condition = case.condition
    moved = f"parameters moved by {condition.scale:g} (seed {condition.seed})"
    weights = moved if condition.scale else "weights as given" if usual else ""
    if condition.weights:
        weights += f"{', ' if weights else 'weights '}of the file with sha256 {condition.weights}"
    history = {"fresh": "as built, in eval mode", "trained": "after training"}.get(
        condition.history, ""
    )
    mode = "in train mode" if condition.mode == "train" else ""
    dtype = condition.dtype if usual or condition.dtype != "float64" else ""
    data = "at data" if condition.data else ""
    where = f"in {clean(part)}" if part else ""
    device = f"on {clean(condition.device)}" if condition.device else ""
    manner = "" if condition.grad else "under no_grad"
    given = "with contexts" if condition.contextual else ""
    given = "at one context" if condition.one_context else given
    size = "at another size" if condition.resized else ""
    return ", ".join(
        filter(None, [weights, mode, manner, given, size, dtype, device, history, data, where])
    )


def inputs(case: Counterexample, written: Callable[[Any], str] = value_in_brief) -> str:
    """The inputs of a case as text; ``written``: formats a value."""
    parts = [] if case.x is None else [f"x = {written(_single(case.x))}"]
    if case.context is not None:
        parts.append(f"context = {written(_single(case.context))}")
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


def again(verdict: Verdict, *options: str, recognized: Recognized | None = None) -> list[str]:
    """Return the commands that reproduce a failure, none for a live object; ``options``: of the
    commands that read a report. Without ``recognized`` the framework is PyTorch.
    """
    if live(verdict):
        return []
    if verdict.status is Status.VIOLATED and verdict.counterexample is not None:
        programs = PROGRAMS.get("torch" if recognized is None else recognized.framework, ())
        script = f"{command('script', verdict.id, *options)} > repro.py"
        return [
            command("replay", verdict.id, *options),
            *([script] if base_of(verdict.law) in programs else []),
        ]
    return [command("audit", verdict.target, "--laws", verdict.law)]


def examples(verdicts: Iterable[Verdict]) -> int:
    """The number of judged or undecided points; a violation is one more, since it ends the search."""
    return sum(v.counts.held + v.counts.undecided + (v.status is Status.VIOLATED) for v in verdicts)


def reasons_with_laws(verdicts: Iterable[Verdict], status: Status) -> list[tuple[str, list[str]]]:
    """Return the reasons of one status with their laws, the most frequent first."""
    groups: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.status is status:
            groups.setdefault(clean(verdict.reason) or "no reason given", []).append(verdict.law)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def remark(verdict: Verdict) -> str:
    """The reason of a verdict, without the parts that `circumstances` repeats."""
    parts = clean(verdict.reason).split("; ")
    if verdict.counterexample is not None:
        weights = ("at the weights as given", "after moving the parameters by")
        parts = [part for part in parts if not part.startswith(weights)]
    return "; ".join(filter(None, parts))


def failure(
    verdict: Verdict,
    statement: str = "",
    *,
    where: str = "",
    recognized: Recognized | None = None,
    verbose: bool = False,
    commands: bool = True,
) -> list[str]:
    """Return the lines of one failure: name and severity, law, explanation, two numbers, location
    ``where``, and the command that reproduces it. ``verbose``: all numbers, and how they were
    measured.
    """
    if verdict.status is Status.VIOLATED:
        head, size = f"{verdict.status}  {verdict.id}  {verdict.law}", f"[{severity(verdict)}]"
        fits = len(head) + len(size) + 5 <= line_width()  # indented by two, and three between them
        lines = [f"{head}   {size}"] if fits else [head, f"  {size}"]
        lines += _meaning(verdict, statement)
        numbers = evidence_text(verdict) if verbose else disagreeing_numbers(verdict)
    else:
        lines, numbers = [f"{verdict.status}  {verdict.law}   {clean(verdict.reason)}".rstrip()], ""
    case = verdict.counterexample
    if case is not None and not any(named_by(glob, verdict.law) for glob in OWN_POINTS):
        numbers = f"{numbers}   at {inputs(case, value_in_brief if verbose else summed_up)}".strip()
    under = "" if case is None else circumstances(case, verdict.part, usual=verbose)
    lines += [f"  {line}" for line in (numbers, ", ".join(filter(None, (where, under)))) if line]
    listed = again(verdict, recognized=recognized) if commands else []
    return lines + [f"  {line}" for line in (listed if verbose else listed[-1:])]


def _meaning(verdict: Verdict, statement: str) -> list[str]:
    law = f"Law: {opening(statement)}" if statement else ""
    found = [f"{name.capitalize()}: {TRIED.sub('', text)}." for name, text in explanations(verdict)]
    parts = (law, remark(verdict), *found)
    return [f"  {line}" for line in parts if line]


def explanations(verdict: Verdict) -> list[tuple[str, str]]:
    """Return (name, text) of the diagnosis and of possible repairs."""
    found = [("diagnosis", clean(verdict.diagnosis))] if verdict.diagnosis else []
    return found + [("repair", clean(one)) for one in verdict.repairs]


def diagnosis_text(verdict: Verdict) -> str:
    """The diagnosis without the points that it was tried on."""
    return TRIED.sub("", clean(verdict.diagnosis))


def symptom(verdict: Verdict, cause: Cause) -> str:
    """A violation that another one explains, on a line."""
    return f"explained  {verdict.id}  {verdict.law}   {cause.because}"


def symptoms(verdicts: Sequence[Verdict], causes: Mapping[str, Cause]) -> list[str]:
    """Violations that another one explains: a line for each reason."""
    groups: dict[str, list[str]] = {}
    for verdict in verdicts:
        groups.setdefault(causes[verdict.law].because, []).append(f"{verdict.law} {verdict.id}")
    lines = []
    for because, names in groups.items():
        fail = "this fails" if len(names) == 1 else "these fail"
        lines.append(f"{fail} {because}: {', '.join(names)}")
    return lines


def minor(verdict: Verdict) -> str:
    """A violation below float32 rounding, on a line."""
    size = "" if verdict.size is None else f"{magnitude(verdict.size)}, "
    return f"minor  {verdict.id}  {verdict.law}   {size}below single precision at every point"


def advice(verdict: Verdict) -> str:
    """An advice, on a line."""
    return f"ADVICE  {verdict.law}   {remark(verdict) or disagreeing_numbers(verdict)}".rstrip()
