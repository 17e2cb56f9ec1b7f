"""Changes between two reports, for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from flowref.model import Status, Verdict
from flowref.reporting.markup import code, escaped
from flowref.reporting.numbers import rounded_text
from flowref.reporting.outcomes import FAILING, tally
from flowref.reporting.report_diff import (
    PairChange,
    ReportComparison,
    StandingChange,
    Trend,
    WholeChange,
)
from flowref.reporting.text import clean, command
from flowref.reporting.words import evidence_text, live, off_by, remark

SHOWN = 5


@dataclass(frozen=True)
class _Style:
    """How names and prose are escaped: both may come from a target."""

    name: Callable[[str], str]
    prose: Callable[[str], str]
    every: bool = False


def headline(comparison: ReportComparison) -> str:
    """The counts in one line; a whole target or law is one change.

    >>> headline(ReportComparison(unchanged=85280))
    'nothing changed: 85,280 pairs'
    """
    if not comparison:
        return f"nothing changed: {comparison.unchanged:,} pairs"
    counts = ", ".join(f"{comparison.count(trend):,} {trend}" for trend in Trend)
    return f"{counts}, {comparison.unchanged:,} unchanged"


def change_lines(
    comparison: ReportComparison, origin: str = "", *, verbose: bool = False
) -> list[str]:
    """Return the changes for a terminal: counts, circumstances, and changes by trend. ``origin``:
    path of the new report, for the replay command; ``verbose``: also every target, the failures of
    what appeared or is gone, and unchanged pairs with other texts or numbers.
    """
    style = _Style(clean, clean, verbose)
    lines = [headline(comparison), *(f"  {line}" for line in _differences(comparison, style))]
    for title, entries in _sections(comparison, style):
        lines += ["", title, *(f"{'  ' * depth}{text}" for depth, text in entries)]
    if origin and (again := _replayable(comparison)):
        lines += [
            "",
            f"  {command('replay', again, '--report', origin)}   measures a violation again",
        ]
    if _renamed_perhaps(comparison):
        lines += ["", "  where only a name changed, --rename OLD=NEW compares both sides"]
    return lines


def change_markdown(
    comparison: ReportComparison,
    *,
    verbose: bool = False,
    title: str = "What changed",
    level: int = 1,
    trends: Iterable[Trend] = tuple(Trend),
) -> str:
    """Return the changes as Markdown under a heading of ``level``; ``trends``: their order."""
    style = _Style(code, escaped, verbose)
    lines = [f"{'#' * level} {title}", "", f"**{headline(comparison)}**"]
    if differences := _differences(comparison, style):
        lines += ["", *(f"- {line}" for line in differences)]
    for part, entries in _sections(comparison, style, trends):
        lines += [
            "",
            f"{'#' * level}# {part.capitalize()}",
            "",
            *(f"{'  ' * (depth - 1)}- {text}" for depth, text in entries),
        ]
    return "\n".join(lines) + "\n"


def _differences(comparison: ReportComparison, style: _Style) -> list[str]:
    return [style.prose(f"{d.name}: {d.old} -> {d.new}") for d in comparison.differences]


def _sections(
    comparison: ReportComparison, style: _Style, trends: Iterable[Trend] = tuple(Trend)
) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Titles with their entries, (depth, text) each."""
    for trend in trends:
        wholes = list(
            _whole_change_lines(
                [change for change in comparison.wholes if change.trend is trend], style
            )
        )
        pairs = _pair_change_lines(
            [change for change in comparison.pairs if change.trend is trend], style
        )
        if wholes or pairs:
            yield str(trend), pairs + wholes
    if comparison.standings:
        yield "known failures", [(1, _standing(change, style)) for change in comparison.standings]
    if style.every and (reworded := _pair_change_lines(list(comparison.reworded), style)):
        yield "unchanged, in other words", reworded
    if style.every and comparison.drifted:
        counts = [(1, f"{style.name(law)}   {count:,}") for law, count in comparison.drifted]
        yield "unchanged, with other numbers", counts


def _standing(change: StandingChange, style: _Style) -> str:
    old, new = ("not known" if one is None else one.standing for one in (change.old, change.new))
    last = change.new or change.old
    detail = "" if last is None else style.prose(last.detail or last.reason)
    return f"{old} -> {new}  {style.name(change.law)}   {style.name(change.target)}   {detail}".rstrip()


def _whole_change_lines(changes: list[WholeChange], style: _Style) -> Iterator[tuple[int, str]]:
    """Failures to load, then targets and laws; many of one library or family share a line."""

    def kin(change: WholeChange) -> tuple[str, bool, str]:
        return change.kind, change.appeared, _family(change)

    for change in changes:
        if change.kind == "loading":
            yield 1, _loading(change, style)
    for (kind, appeared, family), alike in groupby(
        [c for c in changes if c.kind != "loading"], key=kin
    ):
        group = list(alike)
        fate = "appeared" if appeared else "gone"
        if len(group) > SHOWN and not style.every:
            total = tally(verdict for change in group for verdict in change.verdicts)
            yield 1, f"{fate}: {len(group):,} {kind}s {style.name(f'{family}*')}   {total}"
            continue
        for change in group:
            yield 1, f"{fate}: {kind} {style.name(change.name)}   {tally(change.verdicts)}"
            for verdict in change.verdicts if style.every else ():
                if verdict.status in FAILING:
                    other = style.name(verdict.law if kind == "target" else verdict.target)
                    seen = style.prose(_verdict_summary(verdict, style))
                    yield 2, f"{verdict.status}  {other}   {seen}".rstrip()


def _family(change: WholeChange) -> str:
    """The library of a target or the family of a law, with its separator."""
    head, mark, _ = change.name.partition("/" if change.kind == "law" else ":")
    return head + mark


def _loading(change: WholeChange, style: _Style) -> str:
    why = style.prose(change.message.removeprefix(f"{change.name} cannot be loaded: "))
    if change.appeared:
        return f"{style.name(change.name)} cannot be loaded: {why}"
    return f"{style.name(change.name)} can be loaded; was: {why}"


def _pair_change_lines(changes: list[PairChange], style: _Style) -> list[tuple[int, str]]:
    """(depth, text) of the pairs, grouped by transition and law."""
    entries = []
    for (title, law), alike in groupby(
        changes, key=lambda change: (_transition(change), change.law)
    ):
        group = list(alike)
        details = [style.prose(_detail(change, style)) for change in group]
        shared = details[0] if len(group) > 1 and len(set(details)) == 1 else ""
        entries.append((1, f"{title}  {style.name(law)}   {shared}".rstrip()))
        cut = len(group) > SHOWN and group[0].trend is Trend.OTHER and not style.every
        for change, detail in list(zip(group, details, strict=True))[: SHOWN if cut else None]:
            entries.append(
                (2, f"{style.name(change.target)}   {'' if shared else detail}".rstrip())
            )
        if cut:
            entries.append((2, f"and {len(group) - SHOWN:,} more; --verbose lists them"))
    return entries


def _transition(change: PairChange) -> str:
    if change.old is None or change.new is None:
        verdict = change.old or change.new
        assert verdict is not None
        return f"{'gone' if change.new is None else 'appeared'}: {verdict.status}"
    if change.old.status is change.new.status:
        grown = {Trend.WORSE: ", margin larger", Trend.BETTER: ", margin smaller"}.get(
            change.trend, ""
        )
        return f"{change.new.status}{grown}"
    return f"{change.old.status} -> {change.new.status}"


def _detail(change: PairChange, style: _Style) -> str:
    """Numbers or reason of the side that has any."""
    old, new = change.old, change.new
    if old is None or new is None:
        return _verdict_summary(old or new, style)
    if old.status is new.status:
        if old.evidence is None or new.evidence is None or change.trend is Trend.OTHER:
            return f"was: {_verdict_summary(old, style)}; is: {_verdict_summary(new, style)}"
        one, other = old.evidence, new.evidence
        if one.allowed or other.allowed:
            return f"margin {rounded_text(one.margin)} -> {rounded_text(other.margin)}"
        return f"off by {rounded_text(one.residual)} -> {rounded_text(other.residual)}, nothing allowed"
    if new.status is not Status.HOLDS and (seen := _verdict_summary(new, style)):
        return seen
    return f"was: {seen}" if (seen := _verdict_summary(old, style)) else ""


def _verdict_summary(verdict: Verdict | None, style: _Style) -> str:
    """Numbers and reason of a verdict, with its short name if it is a violation."""
    if verdict is None or verdict.status is Status.HOLDS:
        return ""
    name = f"{verdict.id}: " if verdict.status is Status.VIOLATED else ""
    numbers, evidence = "", verdict.evidence
    if verdict.status in (Status.VIOLATED, Status.ADVICE) and evidence is not None:
        numbers = evidence_text(verdict) if style.every else off_by(evidence)
    return name + "; ".join(filter(None, [numbers, remark(verdict)]))


def _replayable(comparison: ReportComparison) -> str:
    worse = [
        change.new
        for change in comparison.pairs
        if change.trend is Trend.WORSE and change.new is not None
    ]
    violated = [
        new for new in worse if new.status is Status.VIOLATED and new.counterexample is not None
    ]
    return next((verdict.id for verdict in violated if not live(verdict)), "")


def _renamed_perhaps(comparison: ReportComparison) -> bool:
    """Whether a name of some kind is gone while another of that kind appeared."""
    sides = {(change.kind, change.appeared) for change in comparison.wholes}
    return any({(kind, False), (kind, True)} <= sides for kind in ("target", "law"))
