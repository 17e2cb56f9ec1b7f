"""Texts of a program: its docstring, and values, calls and strings as source of a bounded width."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import textwrap
from typing import Any

import numpy as np

from flowref import registry
from flowref.model import USER, Status
from flowref.reporting.text import plain
from flowref.reporting.words import circumstances
from flowref.scripting.cases import Case

WIDTH = 116


def docstring(case: Case) -> list[str]:
    """What the program shows, and what was seen when it was written."""
    verdict, evidence = case.verdict, case.verdict.evidence
    verb = "raises an error" if verdict.status is Status.ERROR else "does not hold"
    text = [f"The law {verdict.law} {verb} in {shown(verdict.target)}.", ""]
    text += textwrap.wrap(f"The law: {plain(case.law.statement)}", WIDTH, break_long_words=False)
    if case.law.source:
        text += textwrap.wrap(f"Source: {case.law.source}", WIDTH, break_long_words=False)
    text += ["", f"Recorded with {circumstances(case.found)}.", ""]
    if verdict.reason:
        text += textwrap.wrap(f"Seen: {verdict.reason}", WIDTH)
    for name, value in case.found.observed.items():
        text += textwrap.wrap(f"  {name}: {_brief(value)}", WIDTH, subsequent_indent="    ")
    if evidence is not None:
        text.append(f"  off by {evidence.residual:.6g}, allowed {evidence.allowed:.6g}")
    if verdict.part:
        text.append(f"  first in {verdict.part}")
    text += ["", f"With {_versions(case)}.", ""]
    place = case.target.component.rpartition(":")[0]
    where = f" in the folder from which {place} is found" if case.target.adapter == USER else ""
    text += textwrap.wrap(
        f"Run it with Python{where}: it exits with 1 as long as the law is violated, with 0 once "
        "it holds, and with 2 where "
        "nothing can be said. It needs the audited code, torch and numpy, and was written by "
        "flowref.",
        WIDTH,
    )
    body = "\n".join(text).replace('"""', "'''")
    return [f'{"r" if chr(92) in body else ""}"""{body}', '"""']


def _versions(case: Case) -> str:
    """The versions that the case was loaded with."""
    names = [f"Python {platform.python_version()}"]
    if case.target.adapter != USER:
        title = registry.adapters()[case.target.adapter].title
        names.append(f"{title} {registry.library_version(case.target.adapter)}".strip())
    names += [f"{name} {importlib.metadata.version(name)}" for name in ("torch", "numpy")]
    return ", ".join(dict.fromkeys(names))


def shown(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:400]}..."


def array(value: Any) -> str:
    """Nested lists as an array, each number with all its digits."""
    numbers = np.asarray(value, dtype=np.float64)
    if numbers.size > 1 and not numbers.any() and not np.signbit(numbers).any():
        return f"np.zeros({numbers.shape})"
    text = repr(numbers.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    if len(text) + 14 > WIDTH:
        text = (
            "\n    " + "\n    ".join(textwrap.wrap(text, WIDTH - 6, break_long_words=False)) + "\n"
        )
    shaped = f".reshape({numbers.shape})" if 0 in numbers.shape else ""
    return f"np.array({text}){shaped}"


def wrapped(head: str, items: list[str], tail: str, comma: str = ",") -> list[str]:
    """A call in the body of a function, on one line if it fits."""
    line = f"    {head}{f'{comma} '.join(items)}{tail}"
    if len(line) <= WIDTH:
        return [line]
    return [f"    {head}", *(f"        {item}{comma}" for item in items), f"    {tail}"]


def quoted(text: str) -> list[str]:
    """A text as string literals of a bounded length, one after the other."""
    pieces = textwrap.wrap(text, WIDTH - 24, drop_whitespace=False, break_long_words=False)
    return [json.dumps(piece, ensure_ascii=False) for piece in pieces]
