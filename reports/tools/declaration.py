"""Write the keys of the declaration `__flow__` into docs/guides: the tables of its page, and its JSON Schema.

Usage: `python reports/tools/declaration.py`, after a row of `flowref/model/declaration.py` was changed.
"""

from __future__ import annotations

import re
from pathlib import Path

from flowref.model.declaration import declaration_tables, schema

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
PLACES = ("keys", "others")


def written(text: str) -> str:
    """The page with its tables as they are now."""
    for place, table in zip(PLACES, declaration_tables(), strict=True):
        marks = re.compile(rf"(<!-- {place}: .*? -->\n).*?(<!-- {place} end -->)", re.DOTALL)
        text = marks.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", text)  # type: ignore[misc]  # a lambda with a default
    return text


def main() -> None:
    """See the docstring of the module."""
    page = GUIDES / "declaration.md"
    page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
    (GUIDES / "flow.schema.json").write_text(schema(), encoding="utf-8")


if __name__ == "__main__":
    main()
