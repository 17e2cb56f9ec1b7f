"""A target in a terminal: its line, failures, known failures and skipped laws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flowref.model import (
    KnownFailure,
    Recognized,
    Standing,
    Status,
    Verdict,
    pair_id,
)
from flowref.reporting.causes import Cause, by_size, deepest, explained
from flowref.reporting.coverage import skipped_check_lines as skipped_lines
from flowref.reporting.coverage import waiting
from flowref.reporting.faults import fault
from flowref.reporting.lines import target_line
from flowref.reporting.outcomes import (
    FAILING,
)
from flowref.reporting.text import clean, wrapped_lines
from flowref.reporting.words import (
    advice,
    failure,
    minor,
    reasons_with_laws,
    symptoms,
)

# Reasons of fewer laws are counted together.
FEW = 3
# The most laws of one reason that are named.
NAMED = 3


def target_lines(
    target: str,
    verdicts: Sequence[Verdict],
    statements: Mapping[str, str],
    recognized: Recognized | None = None,
    *,
    verbosity: int = 0,
    known: Sequence[KnownFailure] = (),
) -> list[str]:
    """Return the lines of a target, wrapped to the terminal: summary, unusual conventions,
    failures, ``known`` failures, advice, and undecided laws.
    """
    if verbosity < 0:
        return [target_line(target, verdicts, recognized, known)]
    verbose = verbosity > 0
    lines = head_lines(target, verdicts, recognized, verbose=verbose, known=known)
    accepted = {one.law for one in known if one.standing is Standing.KNOWN}
    new = [verdict for verdict in verdicts if verdict.law not in accepted]
    more = failing(new, statements, recognized, verbose=verbose)
    more += [known_line(one) for one in known]
    more += [advice(one) for one in verdicts if one.status is Status.ADVICE]
    for status in (Status.INCONCLUSIVE, Status.NOT_RUN):
        word = str(status).lower().replace("_", " ")
        for reason, laws in reasons_with_laws(verdicts, status):
            more.append(f"{word}: {_law_list_text(laws, verbose=verbose)}: {reason}")
    more += list(_sections(verdicts, recognized)) if verbose else []
    return wrapped_lines([*lines, *(f"  {line}" for line in more)])


def head_lines(
    target: str,
    verdicts: Sequence[Verdict],
    recognized: Recognized | None = None,
    *,
    verbose: bool = False,
    known: Sequence[KnownFailure] = (),
) -> list[str]:
    """Return the summary line of a target, its unusual conventions, and what blocks laws."""
    lines = [target_line(target, verdicts, recognized, known)]
    if recognized is not None:
        lines += [f"  {line}" for line in recognition_lines(recognized)]
    if not verbose:
        hints = () if recognized is None else recognized.hints
        lines += [f"  {line}" for line in skipped_lines(verdicts, hints)]
    return wrapped_lines(lines)


def failing(
    verdicts: Sequence[Verdict],
    statements: Mapping[str, str],
    recognized: Recognized | None = None,
    *,
    verbose: bool = False,
) -> list[str]:
    """Return the failures of a target, the gravest first, each followed by the ones it explains;
    minor ones last.
    """
    lines, causes = [], explained(verdicts)
    own = [one for one in verdicts if one.status in FAILING and one.law not in causes]
    for verdict in by_size(one for one in own if not one.minor):
        where = fault(verdict, recognized)
        statement = statements.get(verdict.law, "")
        lines += failure(verdict, statement, where=where, recognized=recognized, verbose=verbose)
        lines += _explains(verdict, verdicts, causes)
    for verdict in (one for one in own if one.minor):
        lines += [minor(verdict), *_explains(verdict, verdicts, causes)]
    return lines


def _explains(
    cause: Verdict, verdicts: Sequence[Verdict], causes: Mapping[str, Cause]
) -> list[str]:
    found = by_size(one for one in verdicts if deepest(one, causes) == cause.law)
    return [f"  {line}" for line in symptoms(found, causes)]


def _sections(verdicts: Sequence[Verdict], recognized: Recognized | None) -> Iterator[str]:
    """Proved, skipped and inapplicable laws, and the evidence of recognition: a title and a line
    for each reason.
    """
    proved: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.proof:
            proved.setdefault(clean(verdict.proof), []).append(verdict.law)
    if proved:
        yield f"Proved ({sum(map(len, proved.values()))}):"
        yield from (f"  {', '.join(laws)}: {words}" for words, laws in proved.items())
    skipped = waiting(verdicts, 1)
    if skipped:
        yield f"Skipped ({sum(len(one.laws) for one in skipped)}):"
        yield from (f"  {one.line}: {_law_list_text(one.laws, verbose=True)}" for one in skipped)
    elsewhere = [v for v in verdicts if v.status is Status.NOT_APPLICABLE and not v.blocked]
    if elsewhere:
        yield f"Not applicable ({len(elsewhere)}):"
        groups = reasons_with_laws(elsewhere, Status.NOT_APPLICABLE)
        few = sum(len(laws) for _, laws in groups if len(laws) < FEW)
        yield from (f"  {len(laws)}: {reason}" for reason, laws in groups if len(laws) >= FEW)
        if few:
            yield f"  {few}: other reasons (flowref laws --for SPEC lists them)"
    if recognized is not None and (recognized.why or recognized.hints):
        yield "Recognized by:"
        yield from (f"  {clean(line)}" for line in (*recognized.why, *recognized.hints))


def _law_list_text(laws: Sequence[str], *, verbose: bool) -> str:
    return ", ".join(laws) if verbose or len(laws) <= NAMED else f"{len(laws)} laws"


def recognition_lines(recognized: Recognized) -> list[str]:
    """Unusual conventions of a target, a line each."""
    lines = [recognized.event] if recognized.event else []
    lines += [f"read as: {'; '.join(recognized.conventions)}"] if recognized.conventions else []
    return [clean(line) for line in (*lines, *recognized.conflicts, *recognized.data)]


def known_line(one: KnownFailure, *, target: bool = False) -> str:
    """A known failure with its standing, on one line; ``target``: with target and law."""
    name = pair_id(one.target, one.law)
    pair = f"{clean(one.target)}  {one.law}" if target else one.law
    issue = f"{clean(one.reason)} ({clean(one.issue)})" if one.issue else clean(one.reason)
    return f"{str(one.standing).lower():<9}  {name}  {pair}   {one.detail or issue}"
