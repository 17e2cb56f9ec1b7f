"""The docstring of a program: law, observed error, circumstances and versions."""

from __future__ import annotations

import importlib.metadata
import platform
import textwrap
from collections.abc import Sequence

from flowref import registry
from flowref.model import ROUNDING, USER, Status
from flowref.reporting.numbers import rounded_text
from flowref.reporting.text import clean, opening
from flowref.reporting.words import circumstances, remark
from flowref.scripting.case import ReproductionCase
from flowref.scripting.layout import WIDTH


def heading(case: ReproductionCase, packages: Sequence[str] = ("torch", "numpy")) -> list[str]:
    """The lines of the docstring. ``packages``: those whose versions are listed."""
    verdict, evidence = case.verdict, case.verdict.evidence
    target, title = clean(verdict.target), ""
    if case.target.adapter != USER:
        adapter = registry.adapters()[case.target.adapter]
        title = f"{adapter.title} {registry.library_version(adapter.name)}: "
        target = target.partition(":")[2]
    verb = "cannot be measured in" if verdict.status is Status.ERROR else "does not hold for"
    first = f"{title}{verdict.law} {verb} {target}."
    seen = remark(verdict)
    if evidence is not None and verdict.status is not Status.ERROR and evidence.residual != 1:
        seen = f"off by {rounded_text(evidence.residual, 6)}"
        if case.law.tolerance == ROUNDING:
            promised = evidence.allowed > 4 * evidence.explained > 0
            why = "is allowed" if promised else "is explained by rounding"
            seen += f", where {rounded_text(evidence.allowed, 2)} {why}"
    seen = f"Seen: {textwrap.shorten(seen, 200, placeholder=' ...')}"
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    made = f"{', '.join(versions)}, Python {platform.python_version()}"
    seen += f" ({circumstances(case.recorded, verdict.part)}; {made})."
    paragraphs = [f"The law: {opening(case.law.statement)}", seen]
    text = [*_filled(f'"""{first}'), ""]
    for paragraph in paragraphs:
        text += _filled(paragraph)
    body = '"""' + "\n".join(text).removeprefix('"""').replace('"""', "'''")
    return [*f"{'r' if chr(92) in body else ''}{body}".splitlines(), '"""']


def _filled(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH - 1, break_long_words=False, break_on_hyphens=False)
