"""The tables of conventions for the guide."""

from __future__ import annotations

from collections.abc import Iterable

from flowref.adapters.common.normalizers.kinds import KINDS
from flowref.adapters.common.normalizers.relatives import RELATIVES
from flowref.adapters.user.conventions.call_forms import ARGUMENTS
from flowref.adapters.user.conventions.forms import FORMS
from flowref.adapters.user.conventions.returns import RETURNS
from flowref.adapters.user.conventions.roles import ROLES
from flowref.adapters.user.extras import EXTRAS, PADDING


def convention_tables() -> str:
    """Tables of names, arguments, results, forms of log-dets and normalizers, for
    docs/guides/recognised.md.
    """
    named = [(f"`{one.example}`", one.words) for one in ROLES]
    given = [(f"`{one.example}`", one.words) for one in ARGUMENTS.values() if one.example]
    extras = [(f"`{one.example}`", one.words) for one in (*EXTRAS, PADDING)]
    returned = [
        (
            f"`{one.example.removeprefix('return ')}`",
            one.words + f" (`?{one.option}`)" * bool(one.option),
        )
        for one in RETURNS
    ]
    forms = [(f"`?ladj_form={name}`", words) for name, words in FORMS.items()]
    kinds = [(one.said.format("i, j, ..."), one.name) for one in KINDS]
    relatives = [one.said.format("...").rpartition(": ")[::2] for one in RELATIVES if one.said]
    parts = [
        _markdown_table(("map and inverse", "is"), named),
        _markdown_table(("a call takes", "which is"), given),
        _markdown_table(("an argument besides points", "is given"), extras),
        _markdown_table(("a call returns", "which is"), returned),
        _markdown_table(("a log-det that needs an option", "is"), forms),
        _markdown_table(("a layer that normalizes", "is"), kinds),
        _markdown_table(("a layer named batch norm, or acting as one when new", "is"), relatives),
    ]
    return "\n\n".join(parts)


def _markdown_table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [" | ".join(row) for row in (head, ("---", "---"), *rows)]
    return "\n".join(f"| {line} |" for line in lines)
