"""What there is: laws, adapters and mutants, found by walking their packages and by entry points; and how targets are loaded."""

from __future__ import annotations

import ast
import copyreg
import fnmatch
import functools
import importlib
import importlib.metadata
import importlib.util
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from flowref.model import (
    OBJECT,
    USER,
    Adapter,
    Component,
    Condition,
    Law,
    Mutant,
    SpecError,
    Subject,
    Target,
    TargetError,
    nearest,
)

# Options of a spec that speak to flowref; all others go to the builder or factory.
RESERVED = (
    "event",
    "latent",
    "domain",
    "codomain",
    "support",
    "squeeze",
    "context",
    "promises",
    "ladj",
    "kept",
    "perturb",
    "kind",
    "preprocessing",
    "dtype",
    "mutant",
)


@functools.cache
def _modules(package: str) -> tuple[ModuleType, ...]:
    """Every module of one of our packages, plus what other distributions offer under the entry-point group of that name."""
    root = importlib.import_module(package)
    names = sorted(info.name for info in pkgutil.iter_modules(root.__path__) if not info.name.startswith("_"))
    found = [importlib.import_module(f"{package}.{name}") for name in names]
    found += [entry.load() for entry in sorted(importlib.metadata.entry_points(group=package), key=lambda e: e.name)]
    return tuple(found)


def _collect(package: str, kind: type) -> list[Any]:
    return [value for module in _modules(package) for value in vars(module).values() if isinstance(value, kind)]


@functools.cache
def laws() -> tuple[Law, ...]:
    """The whole catalogue, sorted by id."""
    return tuple(sorted({law.id: law for law in _collect("flowref.laws", Law)}.values(), key=lambda law: law.id))


def find_law(law_id: str) -> Law:
    """The law of an id; `SpecError` names the nearest ones."""
    known = {law.id: law for law in laws()}
    if law_id not in known:
        raise SpecError(f"there is no law {law_id!r}{nearest(law_id, known)}; `flowref laws` lists them")
    return known[law_id]


copyreg.pickle(Law, lambda law: (find_law, (law.id,)))


def select_laws(globs: tuple[str, ...] = ()) -> tuple[Law, ...]:
    """The laws that match any glob; all of them for no glob. A glob that matches nothing is a `SpecError`."""
    chosen: dict[str, Law] = {}
    for glob in globs:
        matched = [law for law in laws() if fnmatch.fnmatchcase(law.id, glob)]
        if not matched:
            raise SpecError(
                f"no law matches {glob!r}{nearest(glob, [law.id for law in laws()])}; `flowref laws` lists them"
            )
        chosen |= {law.id: law for law in matched}
    return tuple(chosen[key] for key in sorted(chosen)) if globs else laws()


@functools.cache
def adapters() -> Mapping[str, Adapter]:
    """The libraries known by name; no library is imported."""
    found = _collect("flowref.adapters", Adapter)
    return {adapter.name: adapter for adapter in sorted(found, key=lambda adapter: adapter.name.casefold())}


@functools.cache
def mutants() -> tuple[Mutant, ...]:
    """Every mutant of the zoo, sorted by id."""
    return tuple(sorted(_collect("flowref.zoo", Mutant), key=lambda mutant: mutant.id))


def find_mutant(mutant_id: str) -> Mutant:
    """The mutant of an id ``law#name``."""
    known = {mutant.id: mutant for mutant in mutants()}
    if mutant_id not in known:
        raise SpecError(f"there is no mutant {mutant_id!r}{nearest(mutant_id, known)}")
    return known[mutant_id]


def installed(name: str) -> bool:
    """Whether the library of an adapter can be imported."""
    package = adapters()[name].package
    return not package or importlib.util.find_spec(package) is not None


def library_version(name: str) -> str:
    """The version of an adapter's library, or an empty string."""
    package = adapters()[name].package
    for distribution in importlib.metadata.packages_distributions().get(package, [package]):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def parse_target(spec: str) -> Target:
    """Read one spec; `SpecError` if it cannot be read."""
    return Target.parse(spec, set(adapters()))


@functools.cache
def components(name: str) -> Mapping[str, Component]:
    """The constructions of a library by name; imports it. `TargetError` if it is not installed."""
    adapter = adapters()[name]
    if not installed(name):
        raise TargetError(
            f"{adapter.title} is not installed; `pip install 'flowref[libraries]'` installs what flowref knows"
        )
    return adapter.components()


def find_component(target: Target) -> Component:
    """The construction that a target names."""
    known = components(target.adapter)
    if target.component not in known:
        raise SpecError(
            f"{adapters()[target.adapter].title} has no construction {target.component!r} here"
            f"{nearest(target.component, known)}; `flowref audit '{target.adapter}:*'` audits all {len(known)}"
        )
    return known[target.component]


def expand(spec: str) -> list[Target]:
    """The targets a user means: a library's name is all its constructions, a glob the matching ones."""
    names = {name.casefold(): name for name in adapters()}
    if spec.casefold() in names:
        spec = f"{names[spec.casefold()]}:*"
    if is_run(spec.partition("?")[0]):
        spec = run_spec(spec)
    if ":" not in spec and "/" in spec and not spec.endswith(".py"):
        raise SpecError(
            f"{spec!r} is not the folder of a run; expected one that flowref fit has written, with its config.json"
        )
    if ":" not in spec and not spec.endswith(".py"):
        libraries = [name for name, adapter in adapters().items() if adapter.package]
        raise SpecError(
            f"{spec!r} names no library{nearest(spec, libraries)}; expected one of {', '.join(libraries)}, "
            "library:Component, package.module:factory, path/to/file.py:factory or the folder of a run"
        )
    target = parse_target(spec)
    if target.adapter == USER:
        return [target]
    known = components(target.adapter)
    if target.component in known:
        return [target]
    matched = [name for name in known if fnmatch.fnmatchcase(name, _literal_brackets(target.component))]
    if not matched or not any(c in target.component for c in "*?"):
        find_component(target)
    return [Target(target.adapter, name, target.options) for name in matched]


def is_run(spec: str) -> bool:
    """Whether a spec is the folder of a training run."""
    return (Path(spec) / "config.json").is_file()


def run_spec(spec: str) -> str:
    """A folder of a run, with options, as the call that loads it."""
    folder, _, query = spec.partition("?")
    path = Path(folder).as_posix()
    if any(sign in path for sign in "&?"):
        raise SpecError(f"the folder {path!r} has a sign that options are written with; rename it")
    path = path if "/" in path else f"./{path}"  # no number, whatever its name
    return f"flowref.training.runs:load?path={path}{'&' if query else ''}{query}"


def _literal_brackets(glob: str) -> str:
    """A glob in which [ stands for itself, since construction names hold brackets."""
    return glob.replace("[", "[[]")


def builder_options(target: Target) -> dict[str, Any]:
    """The options of a target that go to its builder, read as Python literals where they are."""
    return {key: literal(value) for key, value in target.options if key not in RESERVED}


def literal(text: str) -> Any:
    """A Python literal, or the text itself; true and false in lower case are accepted."""
    if text.casefold() in ("true", "false"):
        return text.casefold() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def load(target: Target, condition: Condition | None = None) -> Subject:
    """The subject of a target, in the given condition; its mutation, if it names one, comes last.

    Recent ones are kept: a subject copies what it is made of at each call, so that no use of one shows in the next.
    """
    return _loaded(target, condition or Condition())


@functools.lru_cache(maxsize=24)
def _loaded(target: Target, condition: Condition) -> Subject:
    from flowref import loading

    subject = loading.load(target, condition)
    mutation = target.option("mutant")
    if mutation is None:
        return subject
    name, _, size = mutation.partition("@")
    found = find_mutant(name)
    return found.apply(subject, float(size)) if size else found.apply(subject)


def forget() -> None:
    """Drop what was loaded (after files changed)."""
    from flowref import loading

    _loaded.cache_clear()
    loading.forget()


# Constructions of torch.distributions that are confirmed findings (reports/findings.toml).
UNHEALTHY = ("AffineTransform[0-d tensor,event_dim=1]", "StackTransform[dim=-1]")


def healthy() -> tuple[str, ...]:
    """Specs of subjects for which every law must hold: torch's own, the reference, and the healthy twins of the zoo."""
    twins = [
        f"{module.__name__}:{specimen.factory}"
        for module in _modules("flowref.zoo")
        for specimen in getattr(module, "SPECIMENS", ())
    ]
    sound = [f"torch:{name}" for name in components("torch") if name not in UNHEALTHY]
    ours = [f"reference:{name}" for name in components("reference")]
    return (*sound, *ours, *sorted(twins))


__all__ = [
    "OBJECT", "RESERVED", "adapters", "builder_options", "components", "expand", "find_component", "find_law",
    "find_mutant", "forget", "healthy", "installed", "laws", "library_version", "literal", "load", "mutants", "parse_target",
    "select_laws",
]  # fmt: skip
