"""A stand-in for `flowref.checking.pair_verdict` of a target that takes long to load; its verdicts tell which process
they were made in, and how often that one loaded the target when a law had come.
"""

from __future__ import annotations

import os
import time
from typing import Any

from flowref.model import Counts, FlowrefError, Status, Target, Verdict

SECONDS = 2.0
LOADED: list[Target] = []


def check(target: Target, law: str | None, settings: Any) -> Verdict | None:
    """Load, or be quick; a target whose component says so cannot be loaded."""
    if law is None:
        time.sleep(SECONDS)
        if target.component.endswith("never"):
            raise FlowrefError("it cannot be loaded")
        LOADED.append(target)
        return None
    time.sleep(SECONDS / 20)
    return Verdict(str(target), law, Status.HOLDS, f"{os.getpid()} {len(LOADED)}", Counts(held=1))


def __getattr__(name: str) -> Any:
    """Targets are named that are not here: the stand-in goes by the name."""
    raise AttributeError(name)
