"""Which models were judged by other laws than there are now, and by which."""

from __future__ import annotations

from flowref import registry
from flowref.reporting import Report


def changed(report: Report) -> dict[str, frozenset[str]]:
    """The laws that are new to a target of a report, have changed since, or are no more; targets
    without any are left out.
    """
    now = {one.id: one.version for one in registry.laws()}
    found = {}
    for name, verdicts in report.by_target().items():
        then = {one.law: one.law_version for one in verdicts}
        # What does not apply has no version.
        other = {law for law in then if law not in now or then[law] not in (0, now[law])}
        if laws := frozenset(other | (now.keys() - then.keys())):
            found[name] = laws
    return found
