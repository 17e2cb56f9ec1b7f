"""The catalogue as text: the output of `flowref laws` and `flowref explain`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from flowref.model import ADVICE, BOUND, CLAIM, CONTRACT, EXACT, ROUNDING, STATISTICAL, Law, Mutant
from flowref.reporting.text import plain_statement

FORCES = {
    CLAIM: "a claim: mathematics, or what the component documents; it can be VIOLATED",
    CONTRACT: "a contract: judged only where the component promises it",
    ADVICE: "advice: measured and listed, never a violation",
}
TOLERANCES = {
    ROUNDING: "rounding: the law is evaluated again with every operation randomly rounded, and may "
    "be off by a fixed multiple of the spread that this causes; a violation is confirmed with more "
    "replicas",
    EXACT: "exact: bit for bit",
    BOUND: "a bound: an error bound in closed form that the law states itself",
    STATISTICAL: "statistical: a test whose chance of a false alarm is fixed beforehand",
}
HISTORIES = {
    "warm": "after two batches in train mode, then in eval mode",
    "fresh": "as built, in eval mode",
    "trained": "after some 30 training steps, then in eval mode",
}

WIDTH = 100


def applying(laws: Sequence[Law], why_not: dict[str, str | None]) -> list[str]:
    """Return a line for each law: whether it applies, or why not; and a line with the count."""
    width = max((len(law.id) for law in laws), default=0)
    lines = []
    for law in laws:
        reason = why_not[law.id]
        lines.append(
            f"{law.id:<{width}}  {'applies' if reason is None else f'not applicable: {reason}'}"
        )
    count = sum(reason is None for reason in why_not.values())
    return [*lines, f"{count} of {len(laws)} laws apply"]


def explanation(law: Law, mutants: Sequence[Mutant], older: Sequence[str]) -> list[str]:
    """Return the lines of `flowref explain` for one law, with its mutants and former ids."""
    scales = ", ".join(f"{scale:g}" for scale in law.scales if scale)
    facts = [
        ("force", FORCES.get(law.force, law.force)),
        ("needs", ", ".join(sorted(law.needs)) or "nothing"),
        ("promise", law.promise or ""),
        ("tolerance", TOLERANCES.get(law.tolerance, law.tolerance)),
        (
            "inputs",
            {"domain": "points of the domain", "beyond": "points outside the declared domain"}.get(
                law.points, law.points
            ),
        ),
        ("history", HISTORIES[law.history].replace("in eval", f"in {law.mode}")),
        (
            "weights",
            f"as given, and moved by noise of standard deviation {scales}"
            if len(law.scales) > 1
            else "as given",
        ),
        ("profile", "thorough only" if law.thorough else ""),
        ("source", law.source),
        ("version", str(law.version)),
        ("also", "; ".join(f"{law.in_case(one).id}: {one.words}" for one in law.cases)),
        ("formerly", ", ".join(older)),
    ]
    lines = [law.id, "", *_hung("  ", plain_statement(law.statement)), ""]
    for name, text in facts:
        lines += _hung(f"  {name + ':':<11}", text) if text else []
    lines += ["", "  mutants that it must catch:"] if mutants else []
    for mutant in mutants:
        lines += _hung("    ", f"{mutant.name}: {mutant.description} (on {mutant.host})")
    return lines


def overview(name: str, sentence: str, laws: Sequence[Law]) -> list[str]:
    """Return the lines of a statement, and of the laws that are its cases."""
    lines = [name, "", *_hung("  ", plain_statement(sentence)), "", "  cases:"]
    for law in laws:
        lines += _hung("    ", f"{law.id}: {plain_statement(law.statement)}")
    return lines


def _hung(first: str, text: str) -> list[str]:
    """Text wrapped to `WIDTH`, with a hanging indent after ``first``."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
