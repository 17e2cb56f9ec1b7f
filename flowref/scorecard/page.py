"""The page: one file that loads nothing and sends nothing.

The content security policy allows only the page's own script, by hash, and inline styles: neither
requests nor scripts smuggled in by a target would run. The template escapes everything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound
from markupsafe import Markup

from flowref.model import Status
from flowref.reporting.report import Report
from flowref.reporting.text import clean
from flowref.reporting.words import evidence_text
from flowref.scorecard.cards import anchors, cards, cards_by_target
from flowref.scorecard.letters import OUTCOMES, OutcomeLetter, letters
from flowref.scorecard.matrix import group_of, packed
from flowref.scorecard.panel import panel
from flowref.scorecard.summary import summary

# With at most this many failures, cards are shown open.
OPENED = 3


class Templates(BaseLoader):
    """The templates of this package, wherever it is installed."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Any]:
        """The text of a template."""
        try:
            return resource(template), template, lambda: True
        except FileNotFoundError:
            raise TemplateNotFound(template) from None


@cache
def resource(name: str) -> str:
    """The text of a file in the templates folder."""
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """Templates with escaping, and errors for undefined variables."""
    return Environment(
        loader=Templates(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page(report: Report, law_pages: Mapping[str, str] | None = None) -> str:
    """Return a report as HTML. ``law_pages``: law -> address of the page about it."""
    names = anchors(report)
    found = list(cards(report, names))
    script = resource("page.js")
    advice = [
        (clean(v.law), clean(v.target), evidence_text(v, 90) or clean(v.reason))
        for v in report.with_status(Status.ADVICE)
    ]
    return (
        environment()
        .get_template("page.html")
        .render(
            summary=summary(report),
            panel=panel(report, law_pages or {}),
            outcomes=OUTCOMES,
            columns=_occurring_outcomes(report),
            groups=cards_by_target(found),
            failures=len(found),
            opened=len(found) <= OPENED,
            known=report.known,
            present={name for one in report.known for name, value in vars(one).items() if value},
            advice=sorted(advice),
            counted=_outcome_counts(report),
            data=Markup(data(packed(report, names))),
            style=Markup(resource("page.css")),
            script=Markup(script),
            hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )


def data(value: Any) -> str:
    r"""JSON that cannot end the surrounding script element.

    >>> data(["</script>"])
    '["\\u003c/script>"]'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _occurring_outcomes(report: Report) -> list[OutcomeLetter]:
    found = {letter for _, letter in letters(report)}
    return [one for one in OUTCOMES if one.letter in found]


def _outcome_counts(report: Report) -> list[tuple[str, int, dict[str, int]]]:
    """(library, targets, letter -> pairs) without scripts and for paper."""
    targets: dict[str, set[str]] = {}
    counts: dict[str, dict[str, int]] = {}
    for verdict, letter in letters(report):
        group = clean(group_of(verdict.target))
        targets.setdefault(group, set()).add(verdict.target)
        row = counts.setdefault(group, {})
        row[letter] = row.get(letter, 0) + 1
    return [
        (group, len(targets[group]), counts[group]) for group in sorted(counts, key=str.casefold)
    ]
