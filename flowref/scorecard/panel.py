"""The laws that were not judged, and the extent of the search."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from flowref import registry
from flowref.model import SpecError, Status, Verdict
from flowref.model.law import STATISTICAL, Law
from flowref.reporting.contents import LawNote
from flowref.reporting.coverage import DECIDED, OPEN, concerns, put_to_the_test
from flowref.reporting.numbers import rounded_text
from flowref.reporting.report import Report
from flowref.reporting.text import clean
from flowref.scorecard.cards import law_place
from flowref.scorecard.formulas import formula
from flowref.scorecard.letters import FAILURES, letters
from flowref.scorecard.matrix import group_of
from flowref.scorecard.phrases import counted, grouped_digits, how

# Abilities that are the user's calls; the other needs of laws are means of measurement (`MANNERS`).
CALLS = (
    "forward", "inverse", "log_prob", "sample", "sample_log_prob", "base_log_prob", "base_sample", "cdf",
    "icdf", "stated", "score", "bound", "estimate", "rescaled", "bits_per_dim", "loss", "dequantize", "push",
    "pull", "rates", "transitions", "evolution", "moments", "schedule", "time_functions", "scalings",
    "conversions", "prior",
)  # fmt: skip
MANNERS = {
    "play": "steps on one object, such as training and saving",
    "jacobian": "Jacobians by autodiff",
    "vjp": "gradients",
    "noise": "random rounding",
}
STATES = {
    "warm": "after two train-mode batches, in eval mode",
    "fresh": "as built",
    "trained": "after steps of its own gradients",
}
BIAS = "smallest bias it could have seen"
SHOWN = 60
# Significance level of each of the two stages of a statistical law.
LEVEL = 1e-3


@dataclass(frozen=True)
class Reason:
    """Why pairs were not judged, and what would enable it."""

    text: str
    remedy: str
    kind: str
    pairs: int
    laws: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class LawRow:
    """The outcomes of one law, and the mutants that it catches."""

    id: str
    place: str
    page: str
    family: str
    statement: Markup
    source: str
    force: str
    tolerance: str
    judged: int
    failed: int
    unsure: int
    blocked: int
    abstention: str
    mutants: tuple[str, ...]
    sizes: str
    bias: str


@dataclass(frozen=True)
class Panel:
    """``taken``: library -> (target, recognized kind, conventions); ``reach``: extent of the
    search; ``reasons``: why laws were not judged; ``more``: number of further reasons.
    """

    taken: dict[str, list[tuple[str, str, str]]]
    reach: tuple[tuple[str, str], ...]
    reasons: tuple[Reason, ...]
    more: int
    laws: tuple[LawRow, ...]


def panel(report: Report, law_pages: Mapping[str, str]) -> Panel:
    """Return the panel of a report. ``law_pages``: law -> address of the page about it."""
    reasons = _unjudged_reasons(report.verdicts)
    more = max(0, len(reasons) - SHOWN)
    return Panel(
        _recognized_by_group(report),
        _search_extent(report),
        reasons[:SHOWN],
        more,
        _law_rows(report, law_pages),
    )


def _recognized_by_group(report: Report) -> dict[str, list[tuple[str, str, str]]]:
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for target, one in report.recognized.items():
        row = clean(target), clean(one.kind), clean("; ".join(how(one)))
        groups.setdefault(clean(group_of(target)), []).append(row)
    return groups


def _search_extent(report: Report) -> tuple[tuple[str, str], ...]:
    """(name, text) of the extent of the search."""
    verdicts = report.verdicts
    held = sum(verdict.counts.held for verdict in verdicts)
    undecided = sum(verdict.counts.undecided for verdict in verdicts)
    if report.omitted is not None:
        held, undecided = held + report.omitted.points, undecided + report.omitted.undecided
    judged, about = put_to_the_test(verdicts)
    decided = [verdict for verdict in verdicts if verdict.status in (Status.HOLDS, Status.VIOLATED)]
    laws = [
        law for law in map(_law_or_none, {verdict.law for verdict in decided}) if law is not None
    ]
    needs = Counter(need for law in laws for need in law.needs)
    scales = sorted({scale for verdict in verdicts for scale in verdict.counts.scales})
    states = Counter(law.history for law in laws)
    share = _share(undecided, held + undecided)
    rows = [
        ("checks run", f"{grouped_digits(judged)} of {grouped_digits(about)} that apply"),
        ("points decided", f"{grouped_digits(held)}; {grouped_digits(undecided)} left undecided ({share})"),
        ("dropped and trivial points", _idle(verdicts)),
        ("parameter scales", ", ".join(f"{scale:g}" for scale in scales)),
        ("states", "; ".join(f"{STATES.get(name, name)} ({counted(count, 'law')})" for name, count in states.most_common())),
        ("calls", ", ".join(f"{name} ({counted(needs[name], 'law')})" for name in CALLS if needs[name])),
        ("false alarms", _expected_false_alarms(report)),
        ("plots", _pictured(verdicts)),
        ("measured by", "; ".join(f"{words} ({counted(needs[name], 'law')})" for name, words in MANNERS.items() if needs[name])),
    ]  # fmt: skip
    return tuple((name, words) for name, words in rows if words)


def _expected_false_alarms(report: Report) -> str:
    """The expected number of false alarms of statistical laws, as text."""
    chances = {note.id for note in report.laws if note.tolerance == STATISTICAL}
    pairs = sum(v.law in chances and v.status in DECIDED for v in report.verdicts)
    if not pairs:
        return ""
    return (
        f"{counted(pairs, 'pair')} judged by statistical tests, reported only if two stages of level "
        f"{LEVEL:g} agree: {rounded_text(pairs * LEVEL**2, 2)} false alarms are expected; every other violation "
        "exceeds what measured rounding explains"
    )


def _pictured(verdicts: Iterable[Verdict]) -> str:
    """The number of violations with a figure; empty if all have one."""
    violated = [verdict for verdict in verdicts if verdict.status is Status.VIOLATED]
    drawn = sum(verdict.figure is not None for verdict in violated)
    if drawn == len(violated):
        return ""
    return (
        f"{grouped_digits(drawn)} of {counted(len(violated), 'violation')} {'has' if drawn == 1 else 'have'} "
        "one: its numbers are measured with the violation, and are not in reports of earlier versions; "
        "exact laws and expensive calls have none"
    )


def _idle(verdicts: Iterable[Verdict]) -> str:
    dropped = trivial = 0
    for verdict in verdicts:
        dropped += verdict.counts.dropped
        trivial += verdict.counts.trivial
    if not dropped and not trivial:
        return ""
    return f"{grouped_digits(dropped)} outside the domain or not finite; {grouped_digits(trivial)} that any flow passes"


def _unjudged_reasons(verdicts: Iterable[Verdict]) -> tuple[Reason, ...]:
    """The reasons why applicable pairs were not judged; those of most pairs first."""
    laws: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    targets: dict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
    pairs: Counter[tuple[str, str, str]] = Counter()
    kinds = {Status.INCONCLUSIVE: "inconclusive", Status.NOT_RUN: "not run"}
    for verdict in verdicts:
        if verdict.status not in (*OPEN, Status.NOT_RUN) or not concerns(verdict):
            continue
        kind = kinds.get(verdict.status, "skipped")
        key = kind, clean(verdict.reason) or "no reason given", clean(verdict.remedy)
        laws[key].add(verdict.law)
        targets[key][clean(verdict.target)] = None
        pairs[key] += 1
    order = {"inconclusive": 0, "skipped": 1, "not run": 2}
    keys = sorted(pairs, key=lambda key: (order[key[0]], -pairs[key], key))
    return tuple(
        Reason(key[1], key[2], key[0], pairs[key], tuple(sorted(laws[key])), tuple(targets[key]))
        for key in keys
    )


def _law_rows(report: Report, law_pages: Mapping[str, str]) -> tuple[LawRow, ...]:
    groups: dict[str, list[tuple[Verdict, str]]] = defaultdict(list)
    for verdict, letter in letters(report):
        groups[verdict.law].append((verdict, letter))
    mutants = defaultdict(list)
    for mutant in registry.mutants():
        mutants[mutant.law].append(mutant)
    rows = []
    for note in report.laws:
        verdicts = groups[note.id]
        found = [letter for _, letter in verdicts]
        points = sum(verdict.counts.held for verdict, _ in verdicts)
        open_points = sum(verdict.counts.undecided for verdict, _ in verdicts)
        sizes = sorted({size for mutant in mutants[note.id] for size in mutant.sizes})
        rows.append(
            LawRow(
                id=clean(note.id),
                place=law_place(note.id),
                page=law_pages.get(note.id, ""),
                family=clean(note.id.partition("/")[0]),
                statement=formula(note.statement),
                source=clean(note.source),
                force=clean(note.force),
                tolerance=clean(note.tolerance),
                judged=sum(letter in "hVeka" for letter in found),
                failed=sum(letter in FAILURES for letter in found),
                unsure=found.count("i"),
                blocked=found.count("w"),
                abstention=_share(open_points, points + open_points) if open_points else "",
                mutants=tuple(f"{m.name}: {m.description}" for m in mutants[note.id]),
                sizes=_size_range_text(sizes),
                bias=_bias(note, verdicts),
            )
        )
    return tuple(rows)


def _bias(note: LawNote, verdicts: Iterable[tuple[Verdict, str]]) -> str:
    """The smallest bias that a statistical law could detect, if recorded."""
    if note.tolerance != STATISTICAL:
        return ""
    seen = [
        value
        for verdict, _ in verdicts
        if verdict.counterexample is not None
        and isinstance(value := verdict.counterexample.observed.get(BIAS), float)
        and math.isfinite(value)
    ]
    return rounded_text(min(seen), 2) if seen else ""


def _size_range_text(sizes: list[float]) -> str:
    if not sizes:
        return ""
    if len(sizes) == 1:
        return f"of size {sizes[0]:g}"
    return f"of sizes {sizes[0]:g} to {sizes[-1]:g}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2g} %" if whole else "none"


def _law_or_none(law_id: str) -> Law | None:
    """The law of this catalogue; None if it was removed."""
    try:
        return registry.find_law(law_id)
    except SpecError:
        return None
