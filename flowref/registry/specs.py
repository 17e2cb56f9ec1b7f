"""Specs: targets, globs over a library's constructions, folders of runs, and options after the question
mark.
"""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Container
from pathlib import Path
from typing import Any

from flowref.model import CONVENTIONS, PUBLISHED, USER, SpecError, Target, nearest
from flowref.registry.catalogue import (
    adapters,
    components,
    find_component,
    installed,
    literal_brackets,
    published,
)
from flowref.registry.definitions import SUFFIXES, nearest_file
from flowref.registry.file_flows import is_whole, listing
from flowref.registry.reserved_options import PART, RESERVED, WEIGHTS

# One of several weights in a file; a user's factory may have a parameter of this name.
KEY = "key"
RUN_LOADER = "flowref.training.runs:load"


def parse_target(spec: str) -> Target:
    """Parse one spec. Raises `SpecError` if it cannot be read."""
    return Target.parse(spec, set(adapters()))


def expand(spec: str) -> list[Target]:
    """The targets of a spec: all constructions for a library's name, the matching ones for a glob, all
    models of published size for `published`, the possible flows of a file.
    """
    names = {name.casefold(): name for name in adapters()}
    if spec.casefold() == PUBLISHED.rstrip("."):
        return _published()
    if spec.casefold() in names:
        spec = f"{names[spec.casefold()]}:*"
    if is_run(spec.partition("?")[0]):
        spec = run_spec(spec)
    if is_whole(spec):
        return list(listing(spec).targets)
    if ":" not in spec and "/" in spec and not spec.endswith(".py"):
        raise SpecError(
            f"{spec!r} is not the folder of a run; expected one that flowref fit has written, "
            "with its config.json"
        )
    if ":" not in spec and not spec.endswith(".py"):
        libraries = [name for name, adapter in adapters().items() if adapter.package]
        raise SpecError(
            f"{spec!r} names no library{nearest_file(Path(spec), SUFFIXES) or nearest(spec, libraries)}; expected one of "
            f"{', '.join(libraries)}, "
            "library:Component, package.module:factory, path/to/file.py:factory or the folder of "
            "a run"
        )
    target = parse_target(spec)
    if target.adapter == USER:
        return [target]
    models = target.component.startswith(PUBLISHED)
    known = (published if models else components)(target.adapter)
    if target.component in known:
        return [target]
    matched = [
        name for name in known if fnmatch.fnmatchcase(name, literal_brackets(target.component))
    ]
    if not matched:
        matched = [name for name in known if name.startswith(f"{target.component}[")]
    elif not any(c in target.component for c in "*?"):
        matched = []
    if not matched:
        find_component(target)
    return [Target(target.adapter, name, target.options) for name in matched]


def _published() -> list[Target]:
    return [
        Target(name, model) for name in adapters() if installed(name) for model in published(name)
    ]


def is_run(spec: str) -> bool:
    """Whether a spec is the folder of a training run."""
    return (Path(spec) / "config.json").is_file()


def run_spec(spec: str) -> str:
    """The spec that loads the folder of a run, with its options."""
    folder, _, query = spec.partition("?")
    path = Path(folder).as_posix()
    if any(sign in path for sign in "&?"):
        raise SpecError(f"the folder {path!r} has a sign that options are written with; rename it")
    path = path if "/" in path else f"./{path}"  # not a number, whatever its name
    return f"{RUN_LOADER}?path={path}{'&' if query else ''}{query}"


def run_of(target: Target) -> Path | None:
    """The folder of the run that a target loads; None for other targets."""
    path = target.option("path")
    return None if path is None or target.component != RUN_LOADER else Path(path)


def builder_options(target: Target, takes: Container[str] = ()) -> dict[str, Any]:
    """The options of a target that go to its builder, parsed as Python literals if possible. ``takes``:
    parameter names of a user's factory.
    """
    ours = [*(CONVENTIONS if target.adapter == USER else ()), WEIGHTS, PART]
    if target.option(WEIGHTS) is not None and WEIGHTS not in takes:
        ours.append(KEY)
    reserved = {*RESERVED, *(name for name in ours if name not in takes)}
    return {key: literal(value) for key, value in target.options if key not in reserved}


def literal(text: str) -> Any:
    """A Python literal, else the text; true and false are accepted in lower case."""
    if text.casefold() in ("true", "false"):
        return text.casefold() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
