"""Sets of promises of maps, and those that compositions inherit."""

from __future__ import annotations

from collections.abc import Mapping

ELEMENTWISE = frozenset({"elementwise", "monotone"})
CONSTANT = frozenset({"constant-jacobian"})
VOLUME = frozenset({"volume-preserving"})
# Promises of a composition if all of its maps have them, or if any has.
JOINT = VOLUME | CONSTANT | ELEMENTWISE | {"batch-dims"}
EITHER = frozenset({"estimator", "batch-statistics", "straight-through"})


def class_promises(table: Mapping[str, frozenset[str]], names: set[str]) -> frozenset[str]:
    """The promises of an object by the names of its classes."""
    return frozenset().union(*(table[name] for name in names & table.keys()))
