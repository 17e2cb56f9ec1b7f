"""Docstrings as Markdown."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from typing import Any

from site_pages.pieces import fenced

# Where a paragraph goes on with another name: "``rows``: how many; ``seed``: of what is drawn".
NAMED = re.compile(r"(?:^|(?<=[;.] ))(?=``[^`]+``(?:(?:, | and )``[^`]+``)*(?: -> [^:]+)?: )")
ARGUMENT = re.compile(r"(?:^|(?<=; ))(?=``\w+`` )")
# A paragraph that begins with one of these gets a line of its own.
PART = re.compile(
    r"^(Arguments|Shapes?|Units?|Raises|Returns|Options|Source|ladj|Inverse):", re.MULTILINE
)
PLAIN = str.maketrans({"<": "&lt;", "|": "&#124;", "*": r"\*", "_": r"\_"})
WIDTH = 88
TEXT = re.compile(r"(``?[^`]+``?|\$[^$]+\$)")


def entry(name: str, value: Any, level: int = 2) -> list[str]:
    """The section of a function or class, with its signature and members."""
    heading = f"{'#' * level} {name}"
    lines = [
        heading,
        "",
        *fenced(signature(name, value), "python"),
        *prose(inspect.getdoc(value) or ""),
    ]
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return [*lines, *(f"- `{one.name}`" for one in value), ""]
    if inspect.isclass(value):
        lines += [f"- {line}" for line in members(value)] + [""]
    return lines


def prose(doc: str) -> list[str]:
    """A docstring: its paragraphs, items, formulas and examples."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", doc):
        if block.startswith(">>>"):
            lines += fenced(block, "pycon")
        elif block.startswith("    "):
            lines += fenced(inspect.cleandoc(block))
        else:
            for part in re.split(r"\n\n", PART.sub(r"\n\n\1:", block).strip()):
                lines += _paragraph(" ".join(part.split()))
    return lines


def _paragraph(text: str) -> list[str]:
    """A paragraph; what it says of one name after the other as a list."""
    word, _, rest = text.partition(":") if PART.match(text) else ("", "", text)
    head, *items = (ARGUMENT if word == "Arguments" else NAMED).split(rest.strip())
    lines = (
        [" ".join(filter(None, [word and f"**{word}.**", _marked(head)])), ""]
        if word or head
        else []
    )
    if items:
        lines += [*(f"- {_marked(item.rstrip(' ;'))}" for item in items), ""]
    return lines


def _marked(text: str) -> str:
    """A paragraph with its names as code and everything else but formulas escaped."""
    return "".join(
        (f"`{part.strip('`')}`" if part.startswith("`") else part)
        if n % 2
        else part.translate(PLAIN)
        for n, part in enumerate(TEXT.split(" ".join(text.split())))
    )


def signature(name: str, value: Any) -> str:
    """How a thing is called, an argument a line where all do not fit into one."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return f"{name}(...)"
    shown: list[str] = []
    for one in found.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not any(text.startswith("*") for text in shown):
            shown.append("*")
        shown.append(_parameter(one))
    returned = found.return_annotation
    back = (
        "" if inspect.isclass(value) or returned is found.empty else f" -> {_annotation(returned)}"
    )
    line = f"{name}({', '.join(shown)}){back}"
    return line if len(line) <= WIDTH else f"{name}(\n    " + ",\n    ".join(shown) + f",\n){back}"


def _parameter(one: inspect.Parameter) -> str:
    stars = "**" if one.kind is one.VAR_KEYWORD else "*" if one.kind is one.VAR_POSITIONAL else ""
    kind = "" if one.annotation is one.empty else f": {_annotation(one.annotation)}"
    default = one.default
    if default is one.empty:
        return f"{stars}{one.name}{kind}"
    words = getattr(default, "__name__", "") or repr(default)
    return f"{one.name}{kind} = {words if len(words) <= 30 and '<' not in words else '...'}"


def _annotation(value: Any) -> str:
    return value if isinstance(value, str) else getattr(value, "__name__", str(value))


def members(value: type) -> Iterator[str]:
    """The public methods and properties of a class, each with the first paragraph of its docstring."""
    for name, member in vars(value).items():
        own = isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(
            member
        )
        if name.startswith("_") or name == "extra_repr" or not own:
            continue
        call = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        shown = f"`{name}`" if isinstance(member, property) else f"`{_arguments(name, call)}`"
        doc = (inspect.getdoc(member) or "").split("\n\n")[0]
        yield f"{shown}: {_marked(doc)}" if doc else shown


def _arguments(name: str, call: Any) -> str:
    names = [one for one in inspect.signature(call).parameters if one not in ("self", "cls")]
    return f"{name}({', '.join(names)})"
