"""Reports: a value, its JSON, and the formats made from it.

Modules are imported at first use, since texts alone need no numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowref.model import Problem as Problem
    from flowref.reporting.contents import Environment as Environment
    from flowref.reporting.contents import LawNote as LawNote
    from flowref.reporting.contents import Omitted as Omitted
    from flowref.reporting.report import FlowrefViolation as FlowrefViolation
    from flowref.reporting.report import Report as Report

_HOMES = {
    "Problem": "flowref.model",
    **dict.fromkeys(("Environment", "LawNote", "Omitted"), "flowref.reporting.contents"),
    **dict.fromkeys(("FlowrefViolation", "Report"), "flowref.reporting.report"),
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import a name at first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'flowref.reporting' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
