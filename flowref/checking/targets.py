"""Conversion to targets."""

from __future__ import annotations

from typing import Any

from flowref import loading, registry
from flowref.model import Target


def as_target(target: Target | Any) -> Target:
    """Return the target of a target, a spec, or a live object, which is copied now."""
    if isinstance(target, Target):
        return target
    if isinstance(target, str):
        return registry.parse_target(target)
    return loading.snapshot(target)
