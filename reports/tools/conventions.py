"""Write the tables of conventions into docs/guides/recognised.md.

Usage: `python reports/tools/conventions.py`, after a row of `flowref/adapters/user/conventions` was changed.
"""

from __future__ import annotations

import re
from pathlib import Path

from flowref.adapters.user.conventions.tables import convention_tables

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "recognised.md"
PLACE = re.compile(r"(<!-- conventions: .*? -->\n).*?(<!-- conventions end -->)", re.DOTALL)


def main() -> None:
    """See the docstring of the module."""
    text = GUIDE.read_text(encoding="utf-8")
    written = PLACE.sub(lambda found: f"{found[1]}\n{convention_tables()}\n\n{found[2]}", text)
    GUIDE.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
