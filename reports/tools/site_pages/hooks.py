"""What mkdocs calls while it builds: mathematics becomes MathML, which browsers draw by themselves, and pictures
become part of their page, so that they have its colors.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

PICTURE = re.compile(r'<img alt="([^"]*)" src="([^":]+\.svg)"\s*/?>')
STYLE = re.compile(r"<style>[^<]*prefers-color-scheme.*?</style>", re.DOTALL)
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, page: Any = None, config: Any = None, **_: Any) -> str:
    """The content of a page with its formulas as MathML, and its SVG as elements."""
    from latex2mathml.converter import convert

    def inlined(match: re.Match[str]) -> str:
        here = Path(config["docs_dir"]) / Path(page.file.src_uri).parent
        text, themed = STYLE.subn("", (here / match[2]).read_text(encoding="utf-8"))
        if not themed:
            return match[0]
        text = text.replace("<svg ", f'<svg role="img" aria-label="{match[1]}" ', 1)
        return f'<span class="picture">{text}</span>'

    def drawn(match: re.Match[str]) -> str:
        display = "block" if match[1] == "div" else "inline"
        return str(convert(html.unescape(match[2]), display=display))

    content = FORMULA.sub(drawn, content)
    return content if page is None else PICTURE.sub(inlined, content)
