"""All that judges: one law measured on one target, and the verdict."""

from flowref.checking.search import (
    Check,
    Settings,
    as_target,
    check,
    larger,
    not_applicable,
    remeasure,
)

__all__ = ["Check", "Settings", "as_target", "check", "larger", "not_applicable", "remeasure"]
