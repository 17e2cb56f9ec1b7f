"""Counts and verdicts in few words, shared by the parts of a scorecard."""

from __future__ import annotations

from flowref.model import Recognized, Status, Verdict
from flowref.reporting.numbers import rounded_text
from flowref.reporting.text import clean
from flowref.reporting.words import evidence_text, remark


def grouped_digits(count: int) -> str:
    r"""A count with thin spaces between thousands.

    >>> grouped_digits(85711) == "85\N{NARROW NO-BREAK SPACE}711"
    True
    """
    return f"{count:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def counted(count: int, noun: str) -> str:
    """A count with its noun.

    >>> counted(1, "law"), counted(2, "law")
    ('1 law', '2 laws')
    """
    return f"{grouped_digits(count)} {noun}{'' if count == 1 else 's'}"


def how(one: Recognized) -> tuple[str, ...]:
    """The unusual conventions of a target, and hints."""
    parts = (one.event, *one.conventions, *one.conflicts, *one.data, *one.hints)
    return tuple(filter(None, parts))


def brief(verdict: Verdict) -> str:
    """The size of a violation, or its remark; for another verdict its reason with the remedy."""
    evidence = verdict.evidence
    if verdict.status is not Status.VIOLATED:
        reason = clean(verdict.reason)
        return f"{reason}; {clean(verdict.remedy)}" if verdict.remedy else reason
    if evidence is None or not evidence.allowed:
        return remark(verdict) or evidence_text(verdict, 60)
    return (
        f"off by {rounded_text(evidence.residual, 3)}, allowed {rounded_text(evidence.allowed, 2)}"
    )
