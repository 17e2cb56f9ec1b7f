r"""A law's statement for a browser: words, with the mathematics between dollars as MathML.

The TeX of statements is small: letters, numbers, macros of `SYMBOLS`, ``\frac``, ``\sqrt``,
``\hat``, ``\overline``, ``\mathrm``, functions by their names, and one ``^`` and ``_`` after an atom.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup, escape

from flowref.reporting.text import LETTERS, clean

TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|[A-Za-z]{4,}|\s+|.", re.DOTALL)
SYMBOLS = LETTERS | {"partial": "∂", "infty": "∞", "in": "∈", "to": "→", "cdot": "·", "times": "×"}
SPACES = {"\\,": "0.17em", "\\ ": "0.3em", "\\quad": "1em"}
FENCES = "()[]|‖"


def formula(statement: str) -> Markup:
    """Return a statement as HTML; its text is escaped.

    >>> str(formula("$x^2 < 1$ for <b>"))
    '<math><msup><mi>x</mi><mn>2</mn></msup><mo>&lt;</mo><mn>1</mn></math> for &lt;b&gt;'
    """
    pieces = clean(statement).split("$")
    if len(pieces) % 2 == 0:  # an unpaired dollar is literal
        return _words(clean(statement))
    whole = [Markup(mathml(piece)) if n % 2 else _words(piece) for n, piece in enumerate(pieces)]
    return Markup("").join(whole)


def _words(text: str) -> Markup:
    """Prose, with names in double backticks as code."""
    pieces = [str(escape(piece)) for piece in text.split("``")]
    if len(pieces) % 2 == 0:
        return escape(text)
    return Markup(
        "".join(f"<code>{piece}</code>" if n % 2 else piece for n, piece in enumerate(pieces))
    )


def mathml(tex: str) -> str:
    """Return a TeX formula as MathML."""
    reader = _Reader([token for token in TOKEN.findall(tex) if not token.isspace()])
    return f"<math>{''.join(reader.atoms())}</math>"


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at = tokens, 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def atoms(self, end: str = "") -> Iterator[str]:
        """Every atom with its scripts, up to a closing brace or the end."""
        while self.at < len(self.tokens) and self.peek() != end:
            yield self.scripted()

    def scripted(self) -> str:
        base, scripts = self.atom(), {}
        while self.peek() in ("^", "_") and self.peek() not in scripts:
            mark = self.take()
            scripts[mark] = self.atom()
        if len(scripts) == 2:
            return f"<msubsup>{base}{scripts['_']}{scripts['^']}</msubsup>"
        for mark, tag in (("^", "msup"), ("_", "msub")):
            if mark in scripts:
                return f"<{tag}>{base}{scripts[mark]}</{tag}>"
        return base

    def atom(self) -> str:
        token = self.take()
        if token == "{":
            inner = "".join(self.atoms("}"))
            self.take()
            return f"<mrow>{inner}</mrow>"
        if token in SPACES:
            return f'<mspace width="{SPACES[token]}"></mspace>'
        if token.startswith("\\"):
            return self.macro(token[1:])
        if token[:1].isdigit():
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return f"<mtext>{token}</mtext>" if len(token) > 1 else f"<mi>{token}</mi>"
        fence = ' stretchy="false"' if token in FENCES else ""
        minus = "\N{MINUS SIGN}" if token == "-" else token
        return f"<mo{fence}>{escape(minus)}</mo>"

    def macro(self, name: str) -> str:
        if name == "frac":
            return f"<mfrac>{self.argument()}{self.argument()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self.argument()}</msqrt>"
        if name == "hat":
            return f'<mover accent="true">{self.argument()}<mo stretchy="false">^</mo></mover>'
        if name == "overline":
            return f'<mover accent="true">{self.argument()}<mo>\N{OVERLINE}</mo></mover>'
        if name == "mathrm":
            text = re.sub("<[^>]*>", "", self.argument())
            return f'<mi mathvariant="normal">{text}</mi>'
        symbol = SYMBOLS.get(name)
        if symbol is None:  # a function by its name: log, det, tanh
            apart = (
                "" if self.peek() in ("", *"(|^_", "\\|") else '<mspace width="0.17em"></mspace>'
            )
            return f"<mi>{escape(name)}</mi>{apart}"
        tag = "mi" if symbol.isalpha() and name not in ("sum", "int") else "mo"
        fence = ' stretchy="false"' if symbol in FENCES else ""
        return f"<{tag}{fence}>{escape(symbol)}</{tag}>"

    def argument(self) -> str:
        r"""The argument of a macro; ``\frac12`` has one digit each."""
        token = self.peek()
        if token.isdigit() and len(token) > 1:
            self.tokens[self.at] = token[1:]
            return f"<mn>{token[0]}</mn>"
        return self.atom()
