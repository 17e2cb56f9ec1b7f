"""User code named ``module:name`` or ``file.py:name``; every failure becomes one sentence."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from flowref import backends, registry
from flowref.loading.notebooks import fails_at_work, import_definitions, import_notebook
from flowref.model import FlowrefError, Target, TargetError, nearest, one_line, seed_of
from flowref.registry.definitions import SUFFIXES, is_file, nearest_file

# Attribute of a partially imported script that holds its exception.
RAISED = "__raised__"


def target_value(target: Target) -> Any:
    """The object that a user's target names: a factory, a class or an instance. Raises `TargetError`."""
    place, _, name = target.component.rpartition(":")
    cells = target.option("cells")
    value: Any = import_place(place) if cells is None else import_place(place, cells)
    for attribute in name.split("."):
        if not hasattr(value, attribute):
            if error := getattr(value, RAISED, None):
                raise TargetError(f"importing {place} raised {one_line(error, 300)}") from error
            public = [key for key in vars(value) if not key.startswith("_")]
            raise TargetError(f"{place} has no {attribute!r}{nearest(attribute, public)}")
        value = getattr(value, attribute)
    return value


def import_place(place: str, cells: str | None = None) -> ModuleType:
    """Import a module once, by path (relative to the working directory) or dotted name. ``cells``: those of
    a notebook. Raises `TargetError` in one sentence.
    """
    return imported_from(str(Path.cwd()), place, cells)


@functools.lru_cache(maxsize=256)
def imported_from(folder: str, place: str, cells: str | None) -> ModuleType:
    """`import_place` relative to a folder."""
    with backends.importing(text_of(place)):
        return _imported_from(place, cells)


def text_of(place: str) -> str:
    """The text of a module by path or dotted name, found without importing it; empty if not found."""
    if is_file(place):
        return _file_text(Path(place))
    name = place.replace(".", "/")
    folders = [Path(folder or ".") for folder in ("", *sys.path)]
    texts = (
        _file_text(folder / f"{name}{ending}")
        for folder in folders
        for ending in (".py", "/__init__.py")
    )
    return next(filter(None, texts), "")


def _file_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # reported by the import
        return ""


def _imported_from(place: str, cells: str | None) -> ModuleType:
    try:
        if place.endswith(".ipynb") and Path(place).is_file():
            return import_notebook(Path(place), cells)
        if is_file(place):
            return import_file(Path(place))
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(place)
    except FlowrefError:
        raise
    except (Exception, SystemExit) as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == place
        similar = nearest(place, _modules_beside(place)) if missing else ""
        hint = similar or (
            nearest(place, registry.adapters()) if missing else registry.remedy(error)
        )
        raise TargetError(f"importing {place} raised {one_line(error, 300)}{hint}") from error


def _modules_beside(place: str) -> list[str]:
    """Names of modules in the folder where a missing one was looked for."""
    package = place.rpartition(".")[0]
    folders = getattr(sys.modules.get(package), "__path__", ()) if package else ["."]
    found = [path for folder in folders for path in Path(folder).glob("[!_.]*")]
    names = [path.stem for path in found if path.suffix == ".py" or (path / "__init__.py").exists()]
    return [f"{package}.{name}" if package else name for name in names]


def import_file(path: Path) -> ModuleType:
    """Import a Python file under a unique name with its folder importable, as when it is run."""
    if not path.is_file():
        raise TargetError(f"no such file: {path}{nearest_file(path, SUFFIXES)}")
    home = str(path.resolve().parent)
    if home not in sys.path:
        sys.path.insert(0, home)
    name = f"flowref_user_{seed_of(str(path.resolve())) % 2**32:x}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} cannot be imported as Python")
    tried: set[str] = set()
    while True:
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            # Within its own context: backends inspect the exception even if definitions are
            # imported without it.
            with backends.importing(_file_text(path)):
                spec.loader.exec_module(module)
            return module
        except ImportError as error:
            sys.modules.pop(name, None)
            if "attempted relative import" in str(error) and _root(path) is not None:
                return _in_its_package(path)
            above = _above(path, error)
            if above is None or above in tried:
                raise
            tried.add(above)
            sys.path.append(above)
        except BaseException as error:
            sys.modules.pop(name, None)
            if fails_at_work(path, error):
                module = import_definitions(path, name)
                setattr(module, RAISED, error)
                return module
            raise


def _root(path: Path) -> Path | None:
    """The parent folder of the outermost package of a file, or None."""
    folder = path.resolve().parent
    if not (folder / "__init__.py").is_file():
        return None
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _in_its_package(path: Path) -> ModuleType:
    """Import a file with relative imports by its dotted name.

    Folders above its outermost package may be namespace packages: then the name starts at the working
    directory, or at the folder above that package, as for a repository that is a package itself.
    """
    root = _root(path)
    assert root is not None
    here = Path.cwd().resolve()
    above = [here] if here in root.parents else [root.parent]
    for start in (root, *above):
        try:
            return _named_from(start, path)
        except ImportError as error:
            if "beyond top-level package" not in str(error) or start == above[-1]:
                raise
    raise AssertionError("the last folder raises")


def _named_from(root: Path, path: Path) -> ModuleType:
    """Import a file by its dotted name from a folder that comes first in the path. A package of that name
    from elsewhere, such as another audited repository, is unloaded.
    """
    parts = path.resolve().relative_to(root).with_suffix("").parts
    if str(root) in sys.path:
        sys.path.remove(str(root))
    sys.path.insert(0, str(root))
    known = sys.modules.get(parts[0])
    if known is not None and str(root / parts[0]) not in getattr(known, "__path__", ()):
        for name in [name for name in sys.modules if name.split(".")[0] == parts[0]]:
            del sys.modules[name]
    return importlib.import_module(".".join(parts))


def _above(path: Path, error: ImportError) -> str | None:
    """The folder above a file that holds a missing module, as in a repository whose files are run from its
    root; None if there is none.
    """
    first = (error.name or "").partition(".")[0]
    for folder in path.resolve().parents[1:5]:
        if first and ((folder / first).is_dir() or (folder / f"{first}.py").is_file()):
            return str(folder)
    return None
