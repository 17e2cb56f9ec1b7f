"""The command of the precision card: `flowref precision`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from flowref.cli.completion import Specs
from flowref.cli.help import Command

if TYPE_CHECKING:
    from flowref.checking.precision_card import Digits

# Widths of names and cells; the digits from which on nothing is lost.
NAME, CELL, WIDE, ALL = 22, 6, 10, 15.0


@click.command(
    cls=Command,
    examples=(
        ("flowref precision zuko:NSF?features=3", "how many digits are left in float32?"),
        ("flowref precision flow.py:make", "of your own flow, and under autocast?"),
    ),
)
@click.argument("specs", metavar="TARGET...", nargs=-1, required=True, type=Specs())
def precision(specs: tuple[str, ...]) -> None:
    """Show how many digits are left of values, log-dets and log-densities in the precisions in
    which people run a flow: float32, and autocast to float16 and bfloat16.

    The reference is float64 at points representable in float32. A cell is the fewest digits at
    sixteen points with coordinates up to a number, for weights as built, moved and trained; 7/16
    means that a result is not finite at seven of them, but finite in float64. `flowref audit`
    judges avoidable losses, dtype/accurate.

    Exit codes: 0 shown, 2 a target that cannot be read.
    """
    from flowref.auditing.selection import select
    from flowref.auditing.worker import undisturbed
    from flowref.checking.precision_card import card
    from flowref.model import FlowrefError

    selection = select(specs)
    problems = [one.message for one in selection.problems]
    for target in selection.targets:
        try:
            with undisturbed():
                found = list(card(target))
        except FlowrefError as error:
            if target not in selection.optional:
                problems.append(str(error))
            continue
        click.echo("\n".join([str(target), *table(found)]))
    for sentence in problems:
        click.echo(f"flowref: {sentence}", err=True)
    if problems:
        sys.exit(2)


def table(found: Sequence[Digits]) -> Iterator[str]:
    """Yield the lines of a card: a block for each precision, a line for each result, a column for
    each state and reach.
    """
    if not found:
        yield "  it does not run in float64, so there is no reference"
        return
    columns = list(dict.fromkeys((one.state, one.reach) for one in found))
    states = list(dict.fromkeys(state for state, _ in columns))
    each = len(columns) // len(states)
    width = CELL if each > 1 else WIDE
    plain: list[float] = []
    for precision in dict.fromkeys(one.precision for one in found):
        here = [one for one in found if one.precision == precision]
        left = [one.left.fewest for one in here]
        if str(left) == str(plain):
            yield f"  {precision}: the same, it changes nothing here"
            continue
        plain = plain or left
        yield f"  {precision:{NAME}}" + "".join(f"{state:>{width * each}}" for state in states)
        if errors := refusals(here):
            yield f"    it does not run in this precision: {errors}"
            continue
        if each > 1:
            yield f"    {'coordinates up to':{NAME - 2}}" + "".join(
                f"{reach:>{width}g}" for _, reach in columns
            )
        for call, result in dict.fromkeys((one.call, one.left.result) for one in here):
            cells = {
                (one.state, one.reach): one
                for one in here
                if (one.call, one.left.result) == (call, result)
            }
            yield f"    {name(call, result):{NAME - 2}}" + "".join(
                f"{cell(cells.get(column)):>{width}}" for column in columns
            )


def name(call: str, result: str) -> str:
    """A result in a few words."""
    if result == "log-density":
        return result
    return f"{result} of {call}" if call in ("forward", "inverse") else "round trip"


def refusals(found: Iterable[Digits]) -> str:
    """The error of the calls in a precision, if all raise; else empty."""
    found = list(found)
    return found[0].left.error if all(one.left.error for one in found) else ""


def cell(one: Digits | None) -> str:
    """The digits, or at how many of the points a result is lost."""
    if one is None or not one.left.points:
        return "-"
    if one.left.lost:
        return f"{one.left.lost}/{one.left.points}"
    if math.isnan(one.left.fewest):
        return "-"
    return "all" if one.left.fewest >= ALL else f"{one.left.fewest:.1f}"
