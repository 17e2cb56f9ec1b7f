"""What the flows of this folder share: bugs that can be had one by one, and which laws they break."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ALL, NONE = "all", "none"
LOG_2_PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class Row:
    """Where a bug is shown and which laws it breaks.

    ``targets``: constructions of its module that have the bug and no other. ``laws``: ids of
    which each target breaks at least one. ``besides``: ids that may be broken along with them,
    since the bug has further consequences.
    """

    targets: tuple[str, ...]
    laws: tuple[str, ...]
    besides: tuple[str, ...] = ()


def alone(row: str, *laws: str) -> tuple[str, Row]:
    """A bug by itself, as `make` builds it, with the laws that it breaks."""
    return row, Row((f"make?rows={row}",), laws)


def chosen(rows: str, bugs: tuple[str, ...]) -> frozenset[str]:
    """The bugs to be made: "all", "none", or some of these, separated by commas."""
    if rows in (ALL, NONE):
        return frozenset(bugs if rows == ALL else ())
    asked = frozenset(row.strip() for row in rows.split(","))
    if not asked <= set(bugs):
        raise ValueError(
            f"rows was given as {rows!r}; expected {ALL}, {NONE}, or some of {', '.join(bugs)}"
        )
    return asked


def built(parts: Mapping[str, Any], rows: str, part: str) -> Any:
    """The part of this name, or the first that has all the bugs asked for, with these bugs."""
    if not part:
        asked = {row.strip() for row in rows.split(",")}
        part = next((name for name, kind in parts.items() if asked <= set(kind.BUGS)), "")
    if part not in parts:
        bugs = ", ".join(row for kind in parts.values() for row in kind.BUGS)
        raise ValueError(
            f"rows was given as {rows!r}; expected some of {bugs}, of one part ({', '.join(parts)})"
        )
    return parts[part](rows)


def refuse_other(x: Any, features: int) -> None:
    """Raise for what is no batch of so many features."""
    if x.dim() != 2 or x.shape[1] != features:
        raise ValueError(f"expected (batch, {features}), got {tuple(x.shape)}")
