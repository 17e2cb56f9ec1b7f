"""Laws, mutants, specimens and adapters, gathered by walking their packages and by entry points."""

from __future__ import annotations

import copyreg
import fnmatch
import functools
import importlib
import importlib.metadata
import importlib.util
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from flowref.model import (
    Adapter,
    Component,
    FlowrefError,
    Law,
    Mutant,
    SpecError,
    Target,
    TargetError,
    nearest,
)

LAWS, ADAPTERS, SPECIMENS = "flowref.laws", "flowref.adapters", "flowref.specimens"
# Where our own specimens live; those of other distributions come through the entry-point group
# `SPECIMENS`.
OUR_SPECIMENS = "flowref.zoo.specimens"


def _walk(package: str, wanted: Callable[[str], bool]) -> list[ModuleType]:
    """The modules below one of our packages whose dotted names are wanted, in sorted order."""
    root = importlib.import_module(package)
    infos = pkgutil.walk_packages(root.__path__, f"{package}.")
    names = sorted(info.name for info in infos if not info.ispkg and wanted(info.name))
    return [importlib.import_module(name) for name in names]


@functools.cache
def offered(group: str) -> tuple[ModuleType, ...]:
    """The modules that other distributions offer under an entry-point group, sorted by the entries'
    names.

    Raises `FlowrefError` in one sentence where one does not import.
    """
    modules = []
    for entry in sorted(importlib.metadata.entry_points(group=group), key=lambda entry: entry.name):
        try:
            modules.append(entry.load())
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise FlowrefError(
                f"the entry point {entry.name!r} of the group {group!r} names {entry.value}, "
                "whose import raised "
                f"{type(error).__name__}: {reason}; mend or uninstall the distribution that "
                "offers it"
            ) from error
    return tuple(modules)


def _values(modules: Iterable[ModuleType], kind: type) -> list[Any]:
    return [
        value for module in modules for value in vars(module).values() if isinstance(value, kind)
    ]


def _named(values: Iterable[Any], what: str) -> dict[str, Any]:
    """Values by id, sorted; two different ones of one id are a `FlowrefError`."""
    named: dict[str, Any] = {}
    for value in values:
        other = named.setdefault(value.id, value)
        if other is not value:
            homes = " and ".join(sorted({_home(other), _home(value)}))
            raise FlowrefError(f"there are two {what} {value.id!r}, in {homes}; rename one of them")
    return dict(sorted(named.items()))


def _home(value: Any) -> str:
    function = value.measure if isinstance(value, Law) else value.apply
    return str(getattr(function, "__module__", "an unknown module"))


@functools.cache
def _laws() -> Mapping[str, Law]:
    ours = _walk(LAWS, lambda name: not name.endswith("mutants"))
    return _named(_values((*ours, *offered(LAWS)), Law), "laws")


def laws() -> tuple[Law, ...]:
    """The whole catalogue, sorted by id."""
    return tuple(_laws().values())


def find_law(law_id: str) -> Law:
    """The law of an id, or of the id that it had before; `SpecError` names the nearest ones."""
    known = _laws()
    if law_id in known:
        return known[law_id]
    for law in known.values():
        if law_id == law.former:
            return law
    raise SpecError(
        f"there is no law {law_id!r}{nearest(law_id, known)}; `flowref laws` lists them"
    )


copyreg.pickle(Law, lambda law: (find_law, (law.id,)))


def select_laws(globs: tuple[str, ...] = ()) -> tuple[Law, ...]:
    """The laws that match any glob; all of them for no glob. A glob that matches nothing is a
    `SpecError`.
    """
    chosen: dict[str, Law] = {}
    for glob in globs:
        matched = [law for law in laws() if fnmatch.fnmatchcase(law.id, glob)]
        if not matched:
            renamed = sorted({law.id for law in laws() if fnmatch.fnmatchcase(law.former, glob)})
            if renamed:
                others = f" and {len(renamed) - 1} more" if len(renamed) > 1 else ""
                raise SpecError(
                    f"no law matches {glob!r} any more: renamed to {renamed[0]}{others}"
                )
            raise SpecError(
                f"no law matches {glob!r}{nearest(glob, [law.id for law in laws()])}; `flowref "
                "laws` lists them"
            )
        chosen |= {law.id: law for law in matched}
    return tuple(chosen[key] for key in sorted(chosen)) if globs else laws()


@functools.cache
def mutants() -> tuple[Mutant, ...]:
    """Every mutant, sorted by id."""
    ours = _walk(LAWS, lambda name: name.endswith("mutants"))
    return tuple(_named(_values((*ours, *offered(LAWS)), Mutant), "mutants").values())


def find_mutant(mutant_id: str) -> Mutant:
    """The mutant of an id ``law#name``."""
    known = {mutant.id: mutant for mutant in mutants()}
    if mutant_id in known:
        return known[mutant_id]
    law, _, name = mutant_id.partition("#")
    renamed = next((f"{other.id}#{name}" for other in laws() if law == other.former), "")
    if renamed in known:
        return known[renamed]
    raise SpecError(f"there is no mutant {mutant_id!r}{nearest(mutant_id, known)}")


@functools.cache
def specimens() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Healthy twins of the zoo, as specs, each with its defects: spec -> ids of the laws of which
    one must be violated.
    """
    modules = (*_walk(OUR_SPECIMENS, lambda name: True), *offered(SPECIMENS))
    return {
        f"{module.__name__}:{specimen.factory}": specimen.specs(module.__name__)
        for module in modules
        for specimen in getattr(module, "SPECIMENS", ())
    }


@functools.cache
def adapters() -> Mapping[str, Adapter]:
    """The libraries known by name; no library is imported."""
    ours = _walk(ADAPTERS, lambda name: name.endswith(".adapter"))
    known: dict[str, Adapter] = {}
    for adapter in sorted(
        _values((*ours, *offered(ADAPTERS)), Adapter), key=lambda adapter: adapter.name.casefold()
    ):
        if known.setdefault(adapter.name, adapter) is not adapter:
            raise FlowrefError(f"there are two adapters named {adapter.name!r}; rename one of them")
    return known


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


@functools.cache
def components(name: str) -> Mapping[str, Component]:
    """The constructions of a library by name; imports it. `TargetError` if it is not installed."""
    adapter = adapters()[name]
    if not installed(name):
        raise TargetError(
            f"{adapter.title} is not installed; `pip install 'flowref[libraries]'` installs what "
            "flowref knows"
        )
    return adapter.components()


def find_component(target: Target) -> Component:
    """The construction that a target names."""
    known = components(target.adapter)
    if target.component not in known:
        raise SpecError(
            f"{adapters()[target.adapter].title} has no construction {target.component!r} here"
            f"{nearest(target.component, known)}; `flowref audit '{target.adapter}:*'` audits all "
            f"{len(known)}"
        )
    return known[target.component]
