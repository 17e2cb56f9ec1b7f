"""The catalogue as text: the output of `flowref laws` and `flowref explain`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from flowref.model import ADVICE, BOUND, CLAIM, CONTRACT, EXACT, ROUNDING, STATISTICAL, Law, Mutant
from flowref.reporting.text import plain_statement

FORCES = {
    CLAIM: "requirement: mathematics, or what the object documents; it can be VIOLATED",
    CONTRACT: "requirement of what promises it; it can be VIOLATED there, and is not checked elsewhere",
    ADVICE: "advice: measured and listed, never VIOLATED",
}
TOLERANCES = {
    ROUNDING: "rounding: the law is measured again with every operation randomly rounded, and may be "
    "off by 64 times (in float32 32 times) the spread that this causes; a violation is confirmed by more such runs",
    EXACT: "exact: bit for bit",
    BOUND: "a bound: an error bound in closed form that the law states itself",
    STATISTICAL: "statistical: a test whose chance of a false alarm is fixed beforehand",
}
HISTORIES = {
    "warm": "two forward passes in train mode first, then eval mode",
    "fresh": "as built, eval mode",
    "trained": "some 30 training steps first, then eval mode",
}

# Abilities whose names are not those of methods -> words.
ABILITIES = {
    "along": "parameters that can be moved",
    "arrange": "a way to compose its parts",
    "coupling": "the form of a coupling",
    "jacobian": "derivatives with respect to the input",
    "kernel": "the density of a stochastic layer",
    "multi_scale": "levels",
    "normalizer": "running statistics",
    "own": "an inverse that can be followed step by step",
    "part_maps": "parts",
    "play": "calls that train it, save it or copy it",
    "pull": "a stochastic inverse",
    "push": "a stochastic forward",
    "slope": "derivatives with respect to parameters",
    "squeezing": "the form of a squeeze",
    "vjp": "gradients",
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
    """Return the lines of `flowref explain` for one law, with the bugs planted for it and its former ids."""
    scales = ", ".join(f"{scale:g}" for scale in law.scales if scale)
    facts = [
        ("kind", FORCES.get(law.force, law.force)),
        ("needs", _needs(law)),
        ("promise", law.promise or ""),
        ("tolerance", TOLERANCES.get(law.tolerance, law.tolerance)),
        (
            "inputs",
            {"domain": "points of the domain", "beyond": "points outside the declared domain"}.get(
                law.points, law.points
            ),
        ),
        ("state", HISTORIES[law.history].replace("eval", law.mode)),
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
    ]
    lines = [law.id, "", *_hung("  ", plain_statement(law.statement)), ""]
    for name, text in facts:
        lines += _hung(f"  {name + ':':<11}", text) if text else []
    lines += ["", "  bugs it is tested to catch:"] if mutants else []
    for mutant in mutants:
        lines += _hung("    - ", mutant.description)
    return [*lines, *(["", *_hung("  formerly:  ", ", ".join(older))] if older else [])]


def _needs(law: Law) -> str:
    """What an object must offer, in words."""
    return ", ".join(ABILITIES.get(name, name) for name in sorted(law.needs)) or "nothing"


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
