"""Notebooks as modules: chosen cells, or the definitions of every cell."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from flowref import registry
from flowref.model import SpecError, TargetError, one_line, seed_of, user_code_location

# Statements that only define.
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Syntax nodes that make an expression more than a constant.
WORK = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.ListComp, ast.GeneratorExp, ast.DictComp)
# Calls that are constants nevertheless.
CONSTRUCTORS = ("device", "tensor", "float", "int", "Path")
# Prefixes of notebook commands.
MAGIC = ("%", "!", "?")


def import_notebook(path: Path, cells: str | None) -> ModuleType:
    """The cells of a notebook as a module.

    ``cells``: numbers such as 2,5-7 among the code cells, or "all"; by default the imports, definitions and
    constants of every cell.
    """
    sources = _code_cells(path)
    chosen = (
        range(1, len(sources) + 1)
        if cells in (None, "all")
        else _cell_numbers(cells or "", len(sources))
    )
    name = f"flowref_user_{seed_of(str(path.resolve()), cells or '') % 2**32:x}_{path.stem}"
    home = str(path.resolve().parent)
    if home not in sys.path:
        sys.path.insert(0, home)
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    for number in chosen:
        try:
            tree = ast.parse(sources[number - 1])
        except SyntaxError as error:
            if cells is None:
                continue
            sys.modules.pop(name)
            raise TargetError(f"cell {number} of {path} is no Python: {one_line(error)}") from error
        if cells is None:
            tree.body = [statement for statement in tree.body if _only_defines(statement)]
        try:
            exec(compile(tree, f"{path.name}[{number}]", "exec"), vars(module))
        except Exception as error:
            if cells is None and not isinstance(error, ImportError):
                continue  # it depends on cells that were not run
            sys.modules.pop(name)
            raise TargetError(
                f"cell {number} of {path} raised {one_line(error, 300)}{user_code_location(error)}"
                f"{registry.remedy(error) or '; say which cells to run, as in ?cells=2,5-7'}"
            ) from error
    return module


def import_definitions(path: Path, name: str) -> ModuleType:
    """The imports, definitions and constants of a script that fails when it is imported."""
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if not _only_defines(statement):
            continue
        try:
            tree = ast.Module([statement], [])
            exec(compile(tree, str(path), "exec"), vars(module))
        except Exception as error:
            if isinstance(error, ImportError):
                sys.modules.pop(name)
                raise
    return module


def fails_at_work(path: Path, error: BaseException) -> bool:
    """Whether an error arose in a top-level statement that defines nothing."""
    trace, lines = error.__traceback__, []
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "<module>" and Path(code.co_filename).resolve() == path.resolve():
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    if not isinstance(error, Exception) or isinstance(error, ImportError) or len(lines) != 1:
        return False
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return any(
        not _only_defines(one) and one.lineno <= lines[0] <= (one.end_lineno or one.lineno)
        for one in body
    )


def _code_cells(path: Path) -> list[str]:
    """The source of each code cell, without notebook commands."""
    try:
        book = json.loads(path.read_text(encoding="utf-8"))
        cells = [cell for cell in book["cells"] if cell.get("cell_type") == "code"]
        texts = ["".join(cell["source"]) for cell in cells]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TargetError(f"{path} is no notebook: {one_line(error)}") from error
    return ["\n".join(_without_magic(text)) for text in texts]


def _without_magic(text: str) -> Iterator[str]:
    if text.lstrip().startswith("%%"):
        return
    for line in text.splitlines():
        bare = line.lstrip()
        indent = line[: len(line) - len(bare)]
        yield f"{indent}pass" if bare.startswith(MAGIC) else line


def _only_defines(statement: ast.stmt) -> bool:
    if isinstance(statement, DEFINITIONS):
        return True
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    return not any(_works(part) for part in ast.walk(statement.value))


def _works(part: ast.AST) -> bool:
    if not isinstance(part, WORK):
        return False
    if isinstance(part, ast.Call):
        called = part.func
        named = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return named not in CONSTRUCTORS
    return True


def _cell_numbers(text: str, count: int) -> list[int]:
    numbers: list[int] = []
    for item in text.split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise SpecError(f"cells was given as {text!r}; expected numbers such as 2,5-7, or all")
        numbers += range(int(first), int(last or first) + 1)
    if beyond := [number for number in numbers if not 1 <= number <= count]:
        raise SpecError(f"there is no cell {beyond[0]}: {count} cells have code")
    return numbers
