"""Whose code calls an operator."""

from __future__ import annotations

import sys
from types import FrameType

# Packages between an operator and the code that calls it.
BETWEEN = ("torch", "flowref")


def called_within(modules: tuple[str, ...]) -> bool:
    """Whether the innermost code on the stack that is neither torch's nor flowref's belongs to one of
    ``modules`` or to a submodule of one.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not _within(module, BETWEEN):
            return _within(module, modules)
        frame = frame.f_back
    return False


def _within(module: str, modules: tuple[str, ...]) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in modules)
