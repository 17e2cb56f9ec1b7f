"""The tables of conventions as the guide shows them."""

from __future__ import annotations

from collections.abc import Iterable

from flowref.adapters.user.conventions.call_forms import ARGUMENTS
from flowref.adapters.user.conventions.forms import FORMS
from flowref.adapters.user.conventions.returns import RETURNS
from flowref.adapters.user.conventions.roles import ROLES


def markdown() -> str:
    """Names, arguments, results and forms of log-dets that are recognized, as tables of docs/guides/recognised.md."""
    named = [(f"`{one.example}`", one.words) for one in ROLES]
    given = [(f"`{one.example}`", one.words) for one in ARGUMENTS.values() if one.example]
    returned = [
        (
            f"`{one.example.removeprefix('return ')}`",
            one.words + f" (`?{one.option}`)" * bool(one.option),
        )
        for one in RETURNS
    ]
    forms = [(f"`?ladj_form={name}`", words) for name, words in FORMS.items()]
    parts = [
        _table(("map and way back", "is"), named),
        _table(("a call takes", "which is"), given),
        _table(("a call returns", "which is"), returned),
        _table(("a log-det that needs an option", "is"), forms),
    ]
    return "\n\n".join(parts)


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [" | ".join(row) for row in (head, ("---", "---"), *rows)]
    return "\n".join(f"| {line} |" for line in lines)
