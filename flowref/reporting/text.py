"""Text on one line: sanitized text of targets, mathematics as Unicode, commands."""

from __future__ import annotations

import re
import shlex
import shutil
import textwrap
from collections.abc import Iterable


def clean(text: str) -> str:
    r"""Return text on one line with control characters escaped, so that it cannot control a
    terminal.

    >>> clean("a\x1b[31mb\nc")
    'a\\x1b[31mb c'
    """
    flat = " ".join(text.split())
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in flat)


# TeX of the laws' statements -> plain text.
TEX = (
    (r"\\mathrm\{(\w+)\}", r"\1"),
    (r"\\hat ?(\w)", r"\1" + "\u0302"),
    (r"\\overline\{([^{}]*)\}", r"mean(\1)"),
    (r"\\log ?\\det ?(?=\w)", "log det "),
    (r"\\frac12 ?", "1/2 "),
    (r"\\frac ?(\w)(\d)", r"\1/\2"),
    (r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)"),
    (r"\^\{-1\}", "⁻¹"),
    (r"\\partial_\\theta ?", "∂θ "),
    (r"\\partial ?", "∂"),
    (r"\\(log|det|min|max|exp|tanh)(?![A-Za-z])", r"\1"),
    (r"\\sqrt\{([^{}]*)\}", r"√(\1)"),
    (r"\^\{([^{}]*)\}", r"^(\1)"),
    (r"_\{([^{}]*)\}", r"_\1"),
    (r"\\[, ]", " "),
    (r"\$", ""),
)
LETTERS = {
    "mu": "μ", "epsilon": "ε", "eta": "η", "sum": "Σ", "int": "∫", "ne": "≠", "beta": "β",
    "gamma": "γ", "sigma": "σ", "alpha": "α", "lambda": "λ", "rho": "ρ",  # noqa: RUF001  Greek letters
    "theta": "θ", "circ": "∘", "pi": "π", "Phi": "Φ", "le": "≤", "ge": "≥", "sim": "~", "pm": "±", "|": "‖",
    "nabla": "∇", "Rightarrow": "⇒", "leftarrow": "←", "langle": "<", "rangle": ">", "dots": "...",
    "Lambda": "Λ", "infty": "∞", "prod": "Π", "mid": "|", "lfloor": "⌊", "rfloor": "⌋",
}  # fmt: skip


def plain_statement(statement: str) -> str:
    r"""Return a statement with its TeX as Unicode.

    >>> plain_statement(r"The log-det is $\log|\det \partial f^{-1} / \partial z|$.")
    'The log-det is log|det ∂f⁻¹ / ∂z|.'
    """
    statement = re.sub(
        r"\\([A-Za-z]+|\|)", lambda macro: LETTERS.get(macro[1], macro[0]), statement
    )
    for pattern, letters in TEX:
        statement = re.sub(pattern, letters, statement)
    return clean(statement)


def opening(statement: str, most: int = 240) -> str:
    """Return as many first sentences of a statement as fit into ``most`` characters, at least one;
    three dots replace the others.

    >>> opening("One holds. Two, too.", 12)
    'One holds. ...'
    """
    first, *others = re.split(r"(?<=\.)\s+(?=[A-Z$])", plain_statement(statement))
    while others and len(first) + len(others[0]) < most:
        first += f" {others.pop(0)}"
    return f"{first} ..." if others else first


def shortened(text: str, most: int) -> str:
    """Return the words of a text that fit into ``most`` characters; an ellipsis replaces the
    others.

    >>> shortened("one two three", 9), shortened("one", 9)
    ('one two …', 'one')
    """
    if len(text) <= most:
        return text
    return f"{text[: most - 1].rpartition(' ')[0] or text[: most - 2]} …"


# Limits of the terminal's width, and the width in a file.
NARROWEST, WIDEST, OF_A_FILE = 40, 160, 100


def line_width() -> int:
    """The width of lines, from COLUMNS or the terminal, within limits."""
    wide = shutil.get_terminal_size((OF_A_FILE, 24)).columns
    return min(max(wide, NARROWEST), WIDEST)


def wrapped_lines(lines: Iterable[str], width: int | None = None) -> list[str]:
    """Wrap lines to a width, continuations indented by two more. Commands stay on one line, for
    pasting.

    >>> wrapped_lines(["  one two three", "  flowref script A > b.py"], 10)
    ['  one two', '    three', '  flowref script A > b.py']
    """
    wide = line_width() if width is None else width
    found: list[str] = []
    for line in lines:
        bare = line.lstrip()
        if len(line) <= wide or bare.startswith("flowref "):
            found.append(line)
            continue
        room = " " * (len(line) - len(bare))
        found += textwrap.wrap(
            bare,
            wide,
            initial_indent=room,
            subsequent_indent=f"{room}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return found


def listing(names: Iterable[str], most: int) -> str:
    """Join names by commas; above ``most``, count the rest.

    >>> listing(["a", "b", "c"], 2), listing(["a"], 2)
    ('a, b and 1 more', 'a')
    """
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def command(*words: str) -> str:
    """A flowref command line, quoted for a shell."""
    return shlex.join(("flowref", *words))


def number_of(count: int, noun: str) -> str:
    """A count with its noun.

    >>> number_of(1, "check"), number_of(1200, "check")
    ('1 check', '1,200 checks')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
