"""A report as a badge: JSON for the endpoint of shields.io."""

from __future__ import annotations

import json

from flowref.model import Standing, Status
from flowref.reporting.report import Report


def to_badge(report: Report) -> str:
    """Return a message and a color: the gravest outcome first, never green if nothing held."""
    message, color = _message_and_color(report)
    badge = {"schemaVersion": 1, "label": "flowref", "message": message, "color": color}
    return json.dumps(badge) + "\n"


def _message_and_color(report: Report) -> tuple[str, str]:
    violated = sum(one.status is Status.VIOLATED for one in report.new_failures)
    broken = len(report.new_failures) - violated
    known = sum(one.standing is Standing.KNOWN for one in report.known)
    held = report.counts[Status.HOLDS]
    if violated:
        return f"{violated} violated", "red"
    if broken:
        return f"{broken} broken", "orange"
    if report.problems:
        return f"{len(report.problems)} could not be audited", "orange"
    if not report.complete:
        return "interrupted", "lightgrey"
    if not held:
        return f"{known} known" if known else "nothing checked", "lightgrey"
    return f"{held} hold, {known} known" if known else f"{held} hold", "brightgreen"
