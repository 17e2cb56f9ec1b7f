"""The catalogue as lines, one per law."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowref.reporting.text import plain_statement


def law_lines(laws: Sequence[Any]) -> list[str]:
    """Return a line with id, force and statement for each law."""
    width = max((len(law.id) for law in laws), default=0)
    return [f"{law.id:<{width}}  {law.force:<8}  {plain_statement(law.statement)}" for law in laws]
