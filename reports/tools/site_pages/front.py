"""The first page: what flowref is, and what the last audits of the libraries say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from flowref import registry
from flowref.model import Status
from flowref.reporting.outcomes import LABELS
from flowref.scorecard.phrases import grouped_digits
from site_pages.numbers import Published
from site_pages.pieces import tiles

# Where the first page names findings.
FOUND = re.compile(r"<!-- found: (.*?) -->", re.DOTALL)


def page(words: str, published: Published) -> str:
    """A text of docs/ with the numbers of the audits in the places of its comments."""
    numbers = [
        (str(sum(not law.is_case for law in registry.laws())), "laws", False),
        (str(len(registry.mutants())), "planted bugs that they must catch", False),
        (grouped_digits(published.constructions), "constructions audited", False),
        (grouped_digits(published.count(LABELS[Status.HOLDS])), "times a law held", False),
        (grouped_digits(published.count(LABELS[Status.VIOLATED])), "violations", True),
        (str(len(published.confirmed)), "confirmed bugs", True),
    ]
    words = words.replace("<!-- numbers -->", "\n".join(tiles(numbers)))
    words = words.replace("<!-- libraries -->", "\n".join(published.libraries()))
    words = words.replace("<!-- measured -->", published.note().format(files="files/reports"))
    return FOUND.sub(lambda mark: "\n".join(_found(mark[1].split(), published)), words)


def _found(names: Sequence[str], published: Published) -> list[str]:
    """How many bugs are confirmed, and those of these names."""
    by_name = {finding.id: finding for finding in published.confirmed}
    libraries = {one.home for one in by_name.values()}
    lines = [
        f"[{len(by_name)} confirmed bugs](findings/index.md) in {len(libraries)} libraries, each with the smallest "
        "input that shows it and a program that needs the library alone. Among them:",
        "",
    ]
    found = [by_name[name] for name in names]
    return lines + [f"- {one.library}: [{one.title}](findings/{one.id}.md)" for one in found]
