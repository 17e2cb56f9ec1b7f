"""Sets of promises of maps, and those that compositions inherit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

ELEMENTWISE = frozenset({"elementwise", "monotone"})
CONSTANT = frozenset({"constant-jacobian"})
VOLUME = frozenset({"volume-preserving"})
# Promises of a composition if all of its maps have them, or if any has.
JOINT = VOLUME | CONSTANT | ELEMENTWISE | {"batch-dims"}
EITHER = frozenset({"estimator", "batch-statistics", "straight-through"})


def class_promises(table: Mapping[str, frozenset[str]], names: set[str]) -> frozenset[str]:
    """The promises of an object by the names of its classes."""
    return frozenset().union(*(table[name] for name in names & table.keys()))


def __getattr__(name: str) -> NoReturn:
    # The name of this release's first pages.
    if name == "promised":
        raise ImportError(f"{__name__}.promised is named class_promises now")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
