"""Programs for torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flowref.loading import Recipe
from flowref.model import Law, Target, Verdict
from flowref.scripting.torch.program import program
from flowref.scripting.torch.templates import TEMPLATES
from flowref.scripting.torch.torch_case import rebuilt_case
from flowref.scripting.variants import variants

__all__ = ["TEMPLATES", "programs"]


def programs(
    verdict: Verdict, law: Law, target: Target, recipe: Recipe
) -> Iterator[tuple[Callable[[], list[str]], float]]:
    """Yield writers of the programs that may show a case, the simplest first, with the largest
    ratio of their number to the recorded one. A writer raises `Unwritable` if a part has no short
    form.
    """
    case = rebuilt_case(verdict, law, target, recipe)
    for variant in variants(case, TEMPLATES[law.base]):
        yield lambda variant=variant: program(case, variant), variant.within  # type: ignore[misc]  # the default binds it
