"""Escaping of text as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable

from flowref.reporting.text import clean

_SPECIAL = re.compile(r"([\\`*_{}\[\]|~$#@&<>]|(?<=:)//|(?<=www)\.)")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "//": "\\/\\/"}


def escaped(text: str) -> str:
    r"""Return text as literal Markdown on one line: no markup, HTML, table cell or link.

    >>> escaped("<b>a|b</b> *c* https://d")
    '&lt;b&gt;a\\|b&lt;/b&gt; \\*c\\* https:\\/\\/d'
    """
    return _literal(clean(text))


def _literal(text: str) -> str:
    return _SPECIAL.sub(lambda mark: _HTML.get(mark[1], "\\" + mark[1]), text)


def code(text: str) -> str:
    """Return text as inline code, whatever backticks and bars it contains.

    >>> code("a`b")
    '``a`b``'
    """
    flat = clean(text).replace("|", "\\|")  # a bar would end a table cell even inside code
    longest = max((len(run) for run in re.findall("`+", flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") or not flat else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def block(lines: Iterable[str]) -> list[str]:
    """Return lines as a fenced code block that their content cannot close."""
    content = [clean(line) for line in lines]
    longest = max((len(run) for line in content for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *content, fence]


def statement_text(statement: str) -> str:
    """Return a law's statement with its prose escaped and its mathematics between dollars kept."""
    pieces = clean(statement).split("$")
    return "$".join(piece if n % 2 else _literal(piece) for n, piece in enumerate(pieces))
