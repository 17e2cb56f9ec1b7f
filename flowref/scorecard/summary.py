"""The head of a scorecard: the verdict in a sentence, the counts, and the facts of the run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from flowref.model import Standing, Status
from flowref.reporting.contents import FREE
from flowref.reporting.coverage import put_to_the_test
from flowref.reporting.outcomes import violations
from flowref.reporting.report import Report
from flowref.reporting.text import clean
from flowref.reporting.words import examples
from flowref.scorecard.letters import letters
from flowref.scorecard.matrix import group_of
from flowref.scorecard.phrases import counted, grouped_digits, how


@dataclass(frozen=True)
class Tile:
    """A count. ``style``: CSS class of an outcome; ``place``: HTML id of the section with the
    counted pairs.
    """

    label: str
    count: str
    style: str
    place: str
    more: str = ""


@dataclass(frozen=True)
class Summary:
    """The head of the page."""

    title: str
    sentence: str
    good: bool
    details: tuple[str, ...]
    tiles: tuple[Tile, ...]
    command: str
    facts: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]
    many: bool


def summary(report: Report) -> Summary:
    """Return the head of the page."""
    good = not report.new_failures and not report.problems
    return Summary(
        _title(report),
        _sentence(report),
        good,
        _details(report),
        _tiles(report),
        clean(report.environment.command),
        _facts(report),
        tuple(clean(problem.message) for problem in report.problems),
        len(report.targets) > 1,
    )


def _title(report: Report) -> str:
    if len(report.targets) == 1:
        return clean(report.targets[0])
    groups = sorted({group_of(target) for target in report.targets}, key=str.casefold)
    return ", ".join(map(clean, groups)) if len(groups) <= 10 else f"{len(groups)} libraries"


def _sentence(report: Report) -> str:
    targets, laws = counted(len(report.targets), "target"), counted(len(report.laws), "law")
    where = f"in {targets} under {laws}"
    if report.exit_code == 5:
        return f"Nothing meaningful was checked {where}."
    if not report.violations:
        broken = len(report.new_failures)
        more = f"; {counted(broken, 'check')} broke" if broken else ""
        return f"No law is violated {where}{more}."
    text = violations(report.verdicts)
    if report.known:
        new = sum(verdict.status is Status.VIOLATED for verdict in report.new_failures)
        text += f", {new or 'none'} of them new"
    return f"{text}{',' if ',' in text else ''} {where}."


def _details(report: Report) -> tuple[str, ...]:
    judged, about = put_to_the_test(report.verdicts)
    rest = "; the reasons for the others are listed below" if judged < about else ""
    details = [
        f"Of {counted(about, 'check')} that apply, {grouped_digits(judged)} "
        f"{'was' if judged == 1 else 'were'} run{rest}."
    ]
    if len(report.targets) == 1 and (one := report.recognized.get(report.targets[0])):
        details.append(f"It was recognized as: {clean('; '.join((one.kind, *how(one))))}.")
    if not report.complete:
        details.append("This audit was interrupted: unreached pairs are marked not run.")
    if report.omitted is not None:
        details.append(
            "This report is brief: pairs that hold or do not apply have an outcome, but no numbers "
            "or reasons."
        )
    return tuple(details)


def _tiles(report: Report) -> tuple[Tile, ...]:
    counts = Counter(letter for _, letter in letters(report))
    standings = Counter(one.standing for one in report.known)
    broken = counts["E"] + counts["T"] + counts["C"]
    points = examples(report.verdicts)
    if report.omitted is not None:
        points += report.omitted.points + report.omitted.undecided
    proved = sum(bool(verdict.proof) for verdict in report.verdicts)
    tiles = [
        Tile("new violations", grouped_digits(counts["V"]), "violated", "failures", _also(counts["e"], "explained by them")),
        Tile("known", grouped_digits(standings[Standing.KNOWN]), "known", "known"),
        Tile("fixed", grouped_digits(standings[Standing.FIXED]), "fixed", "known"),
        Tile("broke", grouped_digits(broken), "broken", "failures", "error, time-out, crash"),
        Tile("minor", grouped_digits(counts["m"]), "advice", "failures", "below single precision"),
        Tile("advice", grouped_digits(counts["a"]), "advice", "advice" if counts["a"] else "matrix", "never counts"),
        Tile("inconclusive", grouped_digits(counts["i"]), "unsure", "honesty", _also(counts["o"], "not run")),
        Tile("hold", grouped_digits(counts["h"]), "holds", "matrix", _also(proved, "of them proved")),
        Tile("not applicable", grouped_digits(counts["-"] + counts["w"]), "idle", "honesty", _also(counts["w"], "of them skipped")),
        Tile("examples", grouped_digits(points), "plain", "honesty", "points measured"),
    ]  # fmt: skip
    quiet = ("known", "fixed", "broke", "minor") if not report.known else ("broke", "minor")
    return tuple(tile for tile in tiles if tile.count != "0" or tile.label not in quiet)


def _facts(report: Report) -> tuple[tuple[str, str], ...]:
    environment = report.environment
    spent = sum(report.expenses.values(), FREE)
    versions = ", ".join(f"{name} {version}" for name, version in environment.versions)
    rows = [
        ("flowref", environment.flowref),
        ("profile", f"{environment.profile}, seed {environment.seed}"),
        ("Python", f"{environment.python}, {environment.platform}"),
        ("versions", versions),
        ("started", environment.started),
        ("time", f"{environment.seconds:.0f} s" if environment.seconds else ""),
        ("CPU time", f"{spent.seconds:.0f} s in workers" if spent.seconds else ""),
        ("memory", f"{spent.peak / 2**20:.0f} MiB in a worker at most" if spent.peak else ""),
    ]
    return tuple((name, clean(text)) for name, text in rows if text)


def _also(count: int, words: str) -> str:
    return f"{grouped_digits(count)} {words}" if count else ""
