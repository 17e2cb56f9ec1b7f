"""Names that changed between two reports: former ids of laws, and names that the user changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from flowref.model import ReportError, nearest
from flowref.reporting.report import Report
from flowref.reporting.report_diff import renamed_report


def aligned(
    old: Report, new: Report, options: Iterable[str], former: Mapping[str, str]
) -> tuple[Report, Report]:
    """Return both reports under today's names. ``former``: former law id -> id; ``options``:
    ``OLD=NEW`` for a renamed target or law, ``OLD*=NEW*`` for a prefix.

    Raises: `ReportError` as `renames` does.
    """
    return renamed_report(renamed_report(old, renames(options, old, new)), former), renamed_report(
        new, former
    )


def target_and_law_names(report: Report) -> set[str]:
    """All names of targets and laws in a report."""
    listed = {
        *report.targets,
        *(note.id for note in report.laws),
        *(problem.spec for problem in report.problems),
    }
    return listed.union(*((verdict.target, verdict.law) for verdict in report.verdicts))


def renames(options: Iterable[str], old: Report, new: Report) -> dict[str, str]:
    """Return old name -> new name, for each name of ``old`` that an option renames; the first
    option wins.

    Raises: `ReportError` if an option is no pair, matches no name of ``old``, yields no name of
    ``new``, or makes two names equal.
    """
    mapping: dict[str, str] = {}
    if options := tuple(options):
        before, after = target_and_law_names(old), target_and_law_names(new)
        for option in options:
            mapping = {**_renames(option, before, after), **mapping}
        counts = Counter([*mapping.values(), *(before - mapping.keys())])
        if twice := sorted(name for name, count in counts.items() if count > 1):
            raise ReportError(
                f"--rename makes two of the old report's names one: {twice[0]}; "
                "rename each to another"
            )
    return mapping


def _renames(option: str, before: set[str], after: set[str]) -> dict[str, str]:
    pairs = list(_old_new_splits(option))
    if not pairs:
        raise ReportError(
            f"--rename {option} is no pair of names; expected OLD=NEW, or OLD*=NEW* for a prefix"
        )
    readings = [(old, new, _matches(old, new, before)) for old, new in pairs]
    for _, _, mapping in readings:
        if not after.isdisjoint(mapping.values()):
            return mapping
    for _, new, mapping in readings:
        if mapping:
            raise ReportError(
                f"--rename {option} makes no name that the new report has"
                f"{nearest(new.rstrip('*'), after)}"
            )
    raise ReportError(
        f"--rename {option} matches no target and no law of the old report"
        f"{nearest(pairs[0][0].rstrip('*'), before)}"
    )


def _old_new_splits(option: str) -> Iterator[tuple[str, str]]:
    """The ways to split ``OLD=NEW`` at an equal sign, since specs contain some; both sides end with
    a star or neither does.
    """
    for n, letter in enumerate(option):
        old, new = option[:n], option[n + 1 :]
        if letter == "=" and old and new and old.endswith("*") is new.endswith("*"):
            yield old, new


def _matches(old: str, new: str, before: set[str]) -> dict[str, str]:
    if not old.endswith("*"):
        return {old: new} if old in before else {}
    return {
        name: new[:-1] + name.removeprefix(old[:-1])
        for name in sorted(before)
        if name.startswith(old[:-1])
    }
