"""Whether the targets of known failures exist: an entry that matches nothing is most likely
misspelt.
"""

from __future__ import annotations

import ast
import importlib.machinery
import sys
from collections.abc import Sequence
from pathlib import Path

from flowref import registry
from flowref.baseline.entry import Baseline, Entry
from flowref.model import OBJECT, USER, BaselineError, Target, nearest


def vet_baseline(
    baseline: Baseline, targets: Sequence[Target], *, everywhere: bool = False
) -> None:
    """Check that each entry matches one of these targets, or one outside this audit. Libraries that
    are not audited are checked only ``everywhere``, since that imports them.

    Raises: `BaselineError` naming the nearest existing target.
    """
    names = [str(target) for target in targets]
    audited = {target.adapter for target in targets}
    for entry in baseline.entries:
        if any(map(entry.covers, names)):
            continue
        target = registry.parse_target(entry.target)
        if target.adapter == USER:
            _vet_user_code(entry, target, targets)
        elif registry.installed(target.adapter) and (everywhere or target.adapter in audited):
            known = registry.components(target.adapter)
            if not _matching(target, list(known)):
                title = registry.adapters()[target.adapter].title
                raise BaselineError(
                    f"{entry.where}: {entry.target} matches no construction of {title}"
                    f"{nearest(target.component, known)}"
                )


def exhausted(entry: Entry, targets: Sequence[Target]) -> bool:
    """Whether these are all targets that an entry matches; False if that is unknown."""
    if not entry.is_glob:
        return True
    target = registry.parse_target(entry.target)
    if target.adapter == USER:
        module, names = _defined(target.component)
        known = [f"{module}:{name}" for name in names or ()]
    elif registry.installed(target.adapter):
        known = list(registry.components(target.adapter))
    else:
        return False
    audited = {chosen.component for chosen in targets if chosen.adapter == target.adapter}
    return set(_matching(target, known)) <= audited


def _matching(target: Target, known: Sequence[str]) -> list[str]:
    pattern = Entry(target.component, "", "")
    return [name for name in known if pattern.covers(name.replace("?", "."))]


def _vet_user_code(entry: Entry, target: Target, targets: Sequence[Target]) -> None:
    module, names = _defined(target.component)
    if module == OBJECT:  # live objects exist only in their process
        return
    audited = sorted({str(chosen).partition("?")[0] for chosen in targets})
    if names is None:
        known = [*registry.adapters(), *audited]
        hint = nearest(module, known) or nearest(entry.target, known)
        raise BaselineError(
            f"{entry.where}: {entry.target} matches nothing: there is no library, file or package "
            f"{module}{hint}"
        )
    if "*" not in names and not _matching(target, [f"{module}:{name}" for name in names]):
        wanted = target.component.rpartition(":")[2]
        raise BaselineError(
            f"{entry.where}: {entry.target} matches nothing: {module} defines no {wanted}"
            f"{nearest(wanted, names)}"
        )


def _defined(component: str) -> tuple[str, list[str] | None]:
    """The module of a user's target and its top-level names, read without running it; None if there
    is no such module, ``["*"]`` if it cannot be parsed.
    """
    module = component.rpartition(":")[0]
    path = Path(module)
    if not module.endswith(".py"):
        found = _module_file(module)
        if found is None:
            return module, None
        path = found
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return module, None
    except SyntaxError:
        return module, ["*"]
    return module, [name for statement in ast.walk(tree) for name in _names(statement)]


def _module_file(module: str) -> Path | None:
    places: list[str] | None = ["", *sys.path]
    spec = None
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:end]), places)
        if spec is None:
            return None
        places = list(spec.submodule_search_locations or ())
    return Path(spec.origin) if spec is not None and spec.origin else None


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    return []
