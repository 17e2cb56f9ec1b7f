"""flowref: laws that normalizing flows must satisfy, checked on any library's components and on
your own.

Nothing is imported here until it is used: ``import flowref`` loads no framework.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from flowref import pytest as pytest
    from flowref import scorecard as scorecard
    from flowref import watching as watching
    from flowref.auditing.front import audit as audit
    from flowref.auditing.front import check_flow as check_flow
    from flowref.checking import Settings as Settings
    from flowref.diagnosing import check as check
    from flowref.model import Adapter as Adapter
    from flowref.model import Component as Component
    from flowref.model import Dialect as Dialect
    from flowref.model import Facts as Facts
    from flowref.model import FlowrefError as FlowrefError
    from flowref.model import Law as Law
    from flowref.model import Mutant as Mutant
    from flowref.model import Residual as Residual
    from flowref.model import Status as Status
    from flowref.model import Subject as Subject
    from flowref.model import Target as Target
    from flowref.model import Verdict as Verdict
    from flowref.model import law as law
    from flowref.model import mutant as mutant
    from flowref.reporting.report import Report as Report
    from flowref.reporting.violation_errors import FlowrefViolation as FlowrefViolation
    from flowref.reporting.violation_errors import FlowrefViolations as FlowrefViolations
    from flowref.watching import watch as watch

# Public name -> the module that defines it. No module bears the name of a public function, which it
# would shadow.
_HOMES = {
    "audit": "flowref.auditing.front",
    "check_flow": "flowref.auditing.front",
    "Settings": "flowref.checking",
    "check": "flowref.diagnosing",
    **dict.fromkeys(
        (
            "Adapter",
            "Component",
            "Dialect",
            "Facts",
            "FlowrefError",
            "Law",
            "Mutant",
            "Residual",
            "Status",
            "Subject",
        ),
        "flowref.model",
    ),
    **dict.fromkeys(("Target", "Verdict", "law", "mutant"), "flowref.model"),
    "FlowrefViolation": "flowref.reporting.violation_errors",
    "FlowrefViolations": "flowref.reporting.violation_errors",
    "Report": "flowref.reporting.report",
    "watch": "flowref.watching",
}
__all__ = [*_HOMES, "__version__"]

# Modules that a page of this release showed under another name -> the name that they have now.
_FORMER_MODULES = {
    "flowref.adapters.common.described": "flowref.adapters.common.object_components",
    "flowref.auditing.power.excuses": "flowref.auditing.power.miss_reasons",
    "flowref.diagnosing.slips": "flowref.diagnosing.known_bugs",
    "flowref.laws.bijection.excuses": "flowref.laws.bijection.round_trip_exemptions",
    "flowref.laws.common.defects": "flowref_zoo.mutants.combinators (in properties/ of a checkout)",
    "flowref.zoo": "flowref_zoo (in properties/ of a checkout)",
}


class _FormerModules:
    """The last finder of imports: one sentence with the new name of a module that was renamed."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raises: `ModuleNotFoundError` where no other finder knows a name and the table has it."""
        if new := _FORMER_MODULES.get(name):
            raise ModuleNotFoundError(f"{name} is named {new} now", name=name)
        return None


sys.meta_path.append(_FormerModules)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in ("pytest", "scorecard", "watching"):
        return importlib.import_module(f"flowref.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'flowref' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
