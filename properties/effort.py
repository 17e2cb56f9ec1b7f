"""How much work a call does, counted: the same on every machine, however busy; and how long a program may
take that does not end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

# Seconds: only a program that hangs takes as long, on any machine.
PATIENCE = 1800


def calls(run: Callable[[], object]) -> int:
    """Functions called, of Python and of C, by this thread."""
    count = 0

    def note(_frame: FrameType, event: str, _value: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count
