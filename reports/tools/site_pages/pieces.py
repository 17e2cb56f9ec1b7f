"""Markdown that several pages share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from flowref.scorecard.formulas import formula

__all__ = ["breakable", "escape", "fenced", "link", "statement", "table", "tiles"]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> list[str]:
    """A table; ``kind``: a class for what holds it."""
    lines = [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    return [f'<div class="wide {kind}" markdown>', "", *lines, "", "</div>", ""]


def statement(text: str) -> str:
    """What a law states, as a block of its own, with its mathematics drawn."""
    return f'<p class="statement">{formula(text)}</p>'


def inline(text: str) -> str:
    """The same within a line or a cell of a table."""
    return str(formula(text)).replace("|", "&#124;")


def breakable(name: str) -> str:
    """A long name as code, which a line may break after its punctuation and nowhere else."""
    return f"<code>{re.sub(r'(?<=[.:_?])', '<wbr>', escape(name)).replace('|', '&#124;')}</code>"


def link(text: str, to: str) -> str:
    """A link whose text is code."""
    return f"[`{text}`]({to})"


def tiles(numbers: Iterable[tuple[str, str, bool]]) -> list[str]:
    """Numbers side by side: the number, what it counts, whether it is bad news."""
    kinds = {True: "bad", False: "plain"}
    items = [
        f'<div class="{kinds[bad]}"><b>{escape(number)}</b>{escape(words)}</div>'
        for number, words, bad in numbers
    ]
    return ['<div class="tiles">', *items, "</div>", ""]


def fenced(text: str, language: str = "") -> list[str]:
    """Text as it is."""
    fence = "```" if "```" not in text else "~~~~"
    return [f"{fence}{language}", text.rstrip("\n"), fence, ""]
