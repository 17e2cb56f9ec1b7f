"""Which models were judged by other laws than there are now."""

from __future__ import annotations

from flowref import registry
from flowref.reporting import Report


def outdated(report: Report) -> frozenset[str]:
    """The targets of a report to which a law is new, or has changed since."""
    now = {one.id: one.version for one in registry.laws()}
    found = set()
    for name, verdicts in report.by_target().items():
        then = {one.law: one.law_version for one in verdicts}
        if then.keys() != now.keys() or any(
            version and version != now[law] for law, version in then.items()
        ):
            found.add(name)
    return frozenset(found)
