"""A card for each failure: the law, the observed numbers, the circumstances, and how to reproduce
it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from flowref.model import ROUNDING, STATISTICAL, KnownFailure, Status, Verdict
from flowref.reporting.causes import by_size, by_target, explained
from flowref.reporting.contents import LawNote
from flowref.reporting.issue import issue
from flowref.reporting.numbers import bits, rounded_text
from flowref.reporting.outcomes import FAILING
from flowref.reporting.report import Report
from flowref.reporting.severity import severity
from flowref.reporting.text import clean, shortened
from flowref.reporting.words import again, circumstances, flagged, remark
from flowref.scorecard.formulas import formula
from flowref.scorecard.letters import BY_LETTER, OutcomeLetter, letters
from flowref.scorecard.matrix import group_of
from flowref.scorecard.phrases import brief
from flowref.scorecard.plots.bits import strip
from flowref.scorecard.tables import Table, observed_tables, point
from flowref.scorecard.views import views

# The most complete cards; the others have no figures and no issue text, so that pages with thousands of
# cards open.
COMPLETE = 400
KNOWN = "k"
# Largest length of the numbers in a card's heading.
BRIEF = 90
# Larger margins mean that nothing is allowed.
SAID = 1e300


@dataclass(frozen=True)
class Card:
    """A failure as the page shows it: texts, and markup made here."""

    anchor: str
    name: str
    outcome: OutcomeLetter
    law: str
    target: str
    group: str
    brief: str
    size: float
    statement: Markup
    source: str
    place: str
    why: str
    because: str
    diagnosis: str
    repairs: tuple[str, ...]
    known: str
    sight: tuple[tuple[str, str], ...]
    strip: Markup
    compared: tuple[Table, ...]
    inputs: str
    circumstances: tuple[tuple[str, str], ...]
    pictures: tuple[Markup, ...]
    commands: tuple[str, ...]
    issue: str


def law_place(law: str) -> str:
    """The HTML id of a law's row."""
    return "law-" + re.sub(r"\W+", "-", clean(law)).strip("-")


def anchors(report: Report) -> dict[tuple[str, str], str]:
    """Return pair -> HTML id of its card: its short name, numbered if another pair has the same
    one.
    """
    found: dict[tuple[str, str], str] = {}
    times: dict[str, int] = {}
    for verdict in report.with_status(*FAILING):
        times[verdict.id] = count = times.get(verdict.id, 0) + 1
        found[verdict.target, verdict.law] = verdict.id if count == 1 else f"{verdict.id}-{count}"
    return found


def cards(report: Report, names: Mapping[tuple[str, str], str]) -> Iterator[Card]:
    """Yield the cards, target by target: causes before symptoms, known failures last, the largest
    first.
    """
    outcomes = {(v.target, v.law): BY_LETTER[letter] for v, letter in letters(report)}
    notes = {note.id: note for note in report.laws}
    known = {(one.target, one.law): one for one in report.known}
    left = COMPLETE
    everything = report.by_target()
    for target, verdicts in by_target(report.with_status(*FAILING)).items():
        causes = explained(everything[target])
        kept = {one.law for one in verdicts if outcomes[one.target, one.law].letter == KNOWN}
        for verdict in _ranked(verdicts, kept, causes):
            pair = verdict.target, verdict.law
            because = ""
            if verdict.law in causes:
                cause = causes[verdict.law]
                because = f"Explained by {cause.law}: {cause.because.removeprefix('because ')}."
            yield _card(
                report,
                verdict,
                names[pair],
                outcomes[pair],
                notes.get(verdict.law),
                because,
                known.get(pair),
                complete=left > 0,
            )
            left -= 1


def _ranked(
    verdicts: Sequence[Verdict], kept: Collection[str], causes: Collection[str]
) -> list[Verdict]:
    return sorted(by_size(verdicts), key=lambda one: (one.law in kept, one.law in causes))


def _card(
    report: Report,
    verdict: Verdict,
    anchor: str,
    outcome: OutcomeLetter,
    note: LawNote | None,
    because: str,
    known: KnownFailure | None,
    *,
    complete: bool,
) -> Card:
    case, evidence = verdict.counterexample, verdict.evidence
    standing = ""
    if known is not None:
        notes = "; ".join(filter(None, (known.reason, known.issue, known.detail)))
        standing = f"{str(known.standing).lower()}: {clean(notes)}"
    violated = verdict.status is Status.VIOLATED
    rounding = note is None or note.tolerance == ROUNDING
    chance = note is not None and note.tolerance == STATISTICAL  # no single input shows it
    return Card(
        anchor=anchor,
        name=verdict.id,
        outcome=outcome,
        law=clean(verdict.law),
        target=clean(verdict.target),
        group=clean(group_of(verdict.target)),
        brief=shortened(brief(verdict), BRIEF),
        size=_severity_number(verdict),
        statement=formula(note.statement) if note is not None else Markup(""),
        source=clean(note.source) if note is not None else "",
        place="" if note is None else law_place(note.id),
        why=remark(verdict) if violated else clean(verdict.reason),
        because=because,
        diagnosis=clean(verdict.diagnosis),
        repairs=tuple(map(clean, verdict.repairs)),
        known=standing,
        sight=_error_rows(verdict, rounding=rounding),
        strip=strip(evidence) if evidence is not None and rounding and complete else Markup(""),
        compared=() if case is None else tuple(observed_tables(case.observed)),
        inputs="" if case is None or chance else point(case),
        circumstances=_circumstances(verdict),
        pictures=tuple(views(verdict)) if complete else (),
        commands=tuple(again(verdict, recognized=report.recognized.get(verdict.target))),
        issue=issue(report, verdict) if complete else "",
    )


def _severity_number(verdict: Verdict) -> float:
    """Sort key by size: nats per point, above all margins; for other laws the margin, a large
    number without one.
    """
    if verdict.size is not None and not verdict.minor:
        return SAID * (1 + min(verdict.size.nats, 1e6))
    margin = verdict.evidence.margin if verdict.evidence is not None else float("inf")
    return margin if margin == margin and margin < SAID / 10 else SAID / 10


def _error_rows(verdict: Verdict, *, rounding: bool) -> tuple[tuple[str, str], ...]:
    """(name, text) of the error and the allowance."""
    evidence = verdict.evidence
    wrong = (("severity", severity(verdict)),) if verdict.status is Status.VIOLATED else ()
    if evidence is None or flagged(verdict):
        return wrong
    off = rounded_text(evidence.residual, 6)
    if not evidence.allowed:
        return *wrong, ("off by", off), ("allowed", "nothing: the law is exact")
    times = ""
    if evidence.margin < SAID:
        times = f", {rounded_text(evidence.margin, 3)} times the allowance"
    allowed = [rounded_text(evidence.allowed)]
    if evidence.explained:
        allowed.append(f"rounding explains {rounded_text(evidence.explained)} of it")
    if evidence.replicas:
        allowed.append(f"in {evidence.replicas} runs with random rounding")
    rows = [("off by", f"{off}{times}"), ("allowed", ", ".join(allowed))]
    if rounding and (text := bits(evidence)) and not strip(evidence):
        rows.append(("bits", text))
    return *wrong, *rows


def _circumstances(verdict: Verdict) -> tuple[tuple[str, str], ...]:
    """(name, text) of weights, precision, history and layer."""
    case, counts = verdict.counterexample, verdict.counts
    rows = []
    if verdict.part:
        rows.append(("offending layer", clean(verdict.part)))
    if case is not None:
        batches = f"batch {counts.batches}" if counts.batches else ""
        points = f"after {counts.held} points that held" if counts.held else ""
        conditions = (circumstances(case), batches, points, f"seed {case.seed}")
        rows.append(("seen with", ", ".join(filter(None, conditions))))
    return tuple(rows)


def cards_by_target(found: Sequence[Card]) -> dict[str, list[Card]]:
    """Group cards by target, in their order."""
    groups: dict[str, list[Card]] = {}
    for card in found:
        groups.setdefault(card.target, []).append(card)
    return groups
