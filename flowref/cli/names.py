"""Names for completion and listings, read from sources: laws, libraries, their constructions, files
and the names in them. Neither frameworks nor user files are imported.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import flowref

ROOT = Path(flowref.__file__).parent
# Entry-point groups of laws and libraries of other distributions.
OFFERS = ("flowref.laws", "flowref.adapters", "flowref.specimens")
ADVICE = "advice"
DECLARED = re.compile(rf"^@\w*(?:law|{ADVICE})\(", re.MULTILINE)
QUOTES = '"""'
# The most files that are completed.
FILES = 60


@dataclass(frozen=True)
class LawName:
    """A law as it is listed."""

    id: str
    force: str
    statement: str


@functools.cache
def declared_law_names() -> tuple[LawName, ...]:
    """Our laws, sorted by id, from their declarations and docstrings."""
    found: list[LawName] = []
    for path in (ROOT / "laws").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for declared in DECLARED.finditer(text):
            begin = text.index(QUOTES, declared.start()) + len(QUOTES)
            head = text[declared.start() : text.index(QUOTES, begin) + len(QUOTES)]
            found += _law(ast.parse(head).body[0])
    return tuple(sorted(found, key=lambda one: one.id))


def _law(node: ast.stmt) -> Iterator[LawName]:
    assert isinstance(node, ast.FunctionDef) and isinstance(node.decorator_list[0], ast.Call)
    call, statement = node.decorator_list[0], ast.get_docstring(node, clean=False) or ""
    said = [ast.unparse(one.value).lower() for one in call.keywords if one.arg == "force"]
    force = ADVICE if ast.unparse(call.func).endswith(ADVICE) else next(iter(said), "claim")
    law_id, statement = ast.literal_eval(call.args[0]), " ".join(statement.split())
    yield LawName(law_id, force, statement)
    named = [one.value for one in call.keywords if one.arg == "cases"]
    for case in (
        one.id for listed in named for one in ast.walk(listed) if isinstance(one, ast.Name)
    ):
        name, words = _cases()[case]
        inside = f"{law_id[:-1]}, " if law_id.endswith("]") else f"{law_id}["
        yield LawName(f"{inside}{name}]", force, f"{words}: {statement}")


@functools.cache
def _cases() -> dict[str, tuple[str, str]]:
    """Constant -> name and words of a case."""
    tree = ast.parse((ROOT / "laws" / "common" / "cases.py").read_text(encoding="utf-8"))
    return {
        node.targets[0].id: (
            ast.literal_eval(node.value.args[0]),
            ast.literal_eval(node.value.args[1]),
        )
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "Case"
    }


def others() -> bool:
    """Whether other distributions have entry points, which our sources do not contain."""
    return any(importlib.metadata.entry_points(group=group) for group in OFFERS)


@functools.cache
def libraries() -> dict[str, str]:
    """Supported library -> package that is imported."""
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "adapters").glob("*/adapter.py"))
    found = (re.findall(r'^    (?:name|package)="(\w+)",$', text, re.MULTILINE) for text in texts)
    return dict(sorted((names[0], names[1]) for names in found if len(names) == 2))


def constructions(library: str) -> list[str]:
    """The constructions of an installed library. They are listed once per version, which imports
    it, and cached.
    """
    package = libraries()[library]
    try:
        version = importlib.metadata.version(package.replace("pyro", "pyro-ppl"))
    except importlib.metadata.PackageNotFoundError:
        version = ""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    kept = Path(home) / "flowref" / f"{library}-{version}-{flowref.__version__}.json"
    try:
        return list(json.loads(kept.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        names = _constructions(library)
    if names:
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(names), encoding="utf-8")
        except OSError:
            pass
    return names


def _constructions(library: str) -> list[str]:
    from flowref import registry
    from flowref.model import FlowrefError

    try:
        return list(registry.components(library))
    except (FlowrefError, ImportError):
        return []


def files(begin: str) -> Iterator[str]:
    """The Python files whose paths begin with ``begin``, in the folder and its subfolders."""
    folder, name = Path(begin).parent if begin[-1:] != "/" else Path(begin), Path(begin).name
    name = "" if begin[-1:] == "/" else name
    head = begin[: len(begin) - len(name)]
    shown = 0
    for path in sorted(folder.glob("*.py")) + sorted(folder.glob("*/*.py")):
        relative = path.relative_to(folder).as_posix()
        if relative.startswith(name) and not relative.startswith((".", "_")):
            yield head + relative
            shown += 1
        if shown == FILES:
            return


def defined(path: Path) -> list[str]:
    """The public names at the top level of a file, in order."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return []
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.startswith("_")]
