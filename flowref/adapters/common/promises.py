"""What maps promise: the usual sets, and what a composition keeps of them."""

from __future__ import annotations

from collections.abc import Mapping

ELEMENTWISE = frozenset({"elementwise", "monotone"})
CONSTANT = frozenset({"constant-jacobian"})
VOLUME = frozenset({"volume-preserving"})
# What a composition promises where all of its maps do, and where any of them does.
JOINT = VOLUME | CONSTANT | ELEMENTWISE | {"batch-dims"}
EITHER = frozenset({"estimator", "batch-statistics", "straight-through"})


def class_promises(table: Mapping[str, frozenset[str]], names: set[str]) -> frozenset[str]:
    """What a table of promises by the names of classes says of an object of these classes."""
    return frozenset().union(*(table[name] for name in names & table.keys()))
