"""What mkdocs calls while it builds: mathematics becomes MathML, which browsers draw by themselves."""

from __future__ import annotations

import html
import re
from typing import Any

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """The content of a page with its formulas as MathML."""
    from latex2mathml.converter import convert

    def drawn(match: re.Match[str]) -> str:
        display = "block" if match[1] == "div" else "inline"
        return str(convert(html.unescape(match[2]), display=display))

    return FORMULA.sub(drawn, content)
