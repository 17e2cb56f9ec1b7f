"""Tables and sentences of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flowref.auditing.power.soak import Soak


def caught(defect: dict[str, Any]) -> bool:
    """Whether a law that is meant to catch it does."""
    return bool({*defect["laws"]} & {*defect["killers"]})


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; the columns after the first are numbers, and stand right."""
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join(lines)


def silence(rounds: Soak) -> str:
    """The soak in a sentence."""
    if not rounds.rounds:
        return "No soak was made."
    subjects = max(one.subjects for one in rounds.rounds)
    text = (
        f"Under {len(rounds.rounds)} root seeds, {rounds.pairs:,} pairs of {subjects} healthy "
        f"subjects and laws, {rounds.points:,} judged points, brought {rounds.alarms or 'no'} "
        f"false report{'' if rounds.alarms == 1 else 's'}"
    )
    return text + (
        "." if rounds.bound is None else f": at most {rounds.bound:.1g} per pair (95 %)."
    )


def escaped(defects: Sequence[dict[str, Any]]) -> str:
    """The planted bugs that the laws meant for them missed, and why."""
    rows = [
        (f"`{defect['spec']}`", law, reason)
        for defect in defects
        if not caught(defect)
        for law, reason in defect["silence"].items()
    ]
    if not rows:
        return "None escaped."
    return "What escaped, and why:\n\n" + "\n".join(
        f"- {spec}: `{law}`: {reason}" for spec, law, reason in rows
    )


def laws(strengths: Sequence[dict[str, Any]]) -> str:
    """What each law caught, the strongest first."""
    order = sorted(strengths, key=lambda one: (-one["alone"], -one["kills"], one["law"]))
    return table(
        ("law", "kills", "alone", "seconds"),
        ((f"`{o['law']}`", o["kills"], o["alone"], f"{o['seconds']:.0f}") for o in order),
    )


def sizes(thresholds: Sequence[dict[str, Any]]) -> str:
    """The smallest sizes, by law."""
    order = sorted(thresholds, key=lambda one: one["mutant"])
    return table(
        ("mutant", "smallest size caught", "size it must be caught at"),
        (
            (
                f"`{one['mutant']}`",
                "none" if one["smallest"] is None else f"{one['smallest']:.1e}",
                f"{min(one['declared']):.0e}",
            )
            for one in order
        ),
    )


def rounds(every: Soak) -> str:
    """The rounds of the soak."""
    if not every.rounds:
        return "No soak was made."
    rows = [
        (
            f"{one.seed} ({one.profile})",
            one.subjects,
            f"{one.pairs:,}",
            f"{one.points:,}",
            one.alarms,
        )
        for one in every.rounds
    ]
    text = table(("root seed", "subjects", "judged pairs", "judged points", "false reports"), rows)
    accused = [line for one in every.rounds for line in one.accused]
    return text + ("\n\n" + "\n".join(f"- {line}" for line in accused) if accused else "")
