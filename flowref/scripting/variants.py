"""The programs that are tried for a case, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flowref.scripting.case import ReproductionCase
from flowref.scripting.template import Template

CALLS = ("forward", "inverse", "log_prob")
# The most numbers that are listed before random ones are tried instead.
LISTED = 24


@dataclass(frozen=True)
class Variant:
    """How close a program is to the record; the simplest that shows the bug is used. ``digits``: of
    the recorded points, 0 for random ones; ``row``: the point, None for the batch; ``warm``: after
    two train-mode batches; ``repaired``: after the library's repair of perturbed parameters;
    ``which``: the call of a template about one.
    """

    template: Template
    digits: int = 17
    row: int | None = 0
    warm: bool = False
    repaired: bool = False
    which: str = "forward"

    @property
    def within(self) -> float:
        """Largest ratio to the recorded number; larger after train-mode batches, which are drawn
        anew.
        """
        return self.template.within * (100 if self.warm else 1)


def variants(case: ReproductionCase, templates: Sequence[Template]) -> Iterator[Variant]:
    """Yield the variants, the simplest first: rounded points before exact ones, a new object before
    a used one.
    """
    rows, size = len(case.x), case.x[:1].size
    lived = case.condition.history != "fresh" and case.modular and not case.facts.given
    repaired = bool(case.condition.scale and case.dialect.repair)
    for warm, repaired_first in sorted(
        {(warm, repaired_first) for repaired_first in (False, repaired) for warm in (False, lived)}
    ):
        for template in templates:
            if not re.search(template.when, case.verdict.reason) or template.size not in (0, size):
                continue
            taken = [None] if template.whole else list(range(min(rows, 3)))
            for row in taken:
                count = size * (rows if row is None else 1)
                for which in _template_calls(case, template):
                    for digits in (3, 17) if count <= LISTED else (0, 3, 17):
                        yield Variant(template, digits, row, warm, repaired_first, which)


def _template_calls(case: ReproductionCase, template: Template) -> list[str]:
    """The calls that a template may be about: the one in the verdict's reason, else each; an empty name
    for a noise process, which has none of them.
    """
    offered = [name for name in CALLS if getattr(case.dialect, name) is not None]
    if case.dialect.is_process:
        return [""]
    if case.condition.direction == "inverse":
        return ["inverse"]
    if template.which == "normalizing":
        return [case.dialect.normalizing] if case.dialect.normalizing in offered else offered[:1]
    if template.which:
        return [template.which]
    if "$which" not in template.text and "$results" not in template.text:
        return offered[:1]
    named = [name for name in offered if re.search(rf"\b{name}\b", case.verdict.reason)]
    return named[:1] or offered
