"""Laws, mutants, specimens and adapters, collected from their packages and from entry points."""

from __future__ import annotations

import copyreg
import fnmatch
import functools
import importlib
import importlib.metadata
import importlib.util
import itertools
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType

from flowref import backends
from flowref.backends.process import unwarned
from flowref.model import (
    PROMISES,
    PUBLISHED,
    Adapter,
    Component,
    Law,
    Mutant,
    Problem,
    Promise,
    SpecError,
    Target,
    TargetError,
    named_by,
    nearest,
    spelled,
    statement_of,
)
from flowref.model.extras import installation
from flowref.model.promises import FLAG, canonical
from flowref.registry.offers import Named, offered, values_by_id

LAWS, ADAPTERS, SPECIMENS = "flowref.laws", "flowref.adapters", "flowref.specimens"
# Mutants and specimens of flowref itself, one package of specimens per framework. A checkout has
# them next to the properties that use them; an installation has none. Other distributions provide
# theirs through the entry-point groups `LAWS` and `SPECIMENS`.
CHECKOUT = str(Path(__file__).parents[2] / "properties")
if CHECKOUT not in sys.path and Path(CHECKOUT, "flowref_zoo").is_dir():
    sys.path.append(CHECKOUT)
OUR_MUTANTS = "flowref_zoo.mutants"
OUR_SPECIMENS = ("flowref_zoo.specimens", "flowref_zoo.jax_specimens")


def in_checkout() -> bool:
    """Whether flowref's own mutants and specimens are present."""
    return importlib.util.find_spec("flowref_zoo") is not None


def _walk(package: str, wanted: Callable[[str], bool] = bool) -> list[ModuleType]:
    """The modules of a package that ``wanted`` selects by dotted name, sorted."""
    root = importlib.import_module(package)
    infos = pkgutil.walk_packages(root.__path__, f"{package}.")
    names = sorted(info.name for info in infos if not info.ispkg and wanted(info.name))
    return [importlib.import_module(name) for name in names]


@functools.cache
def _law_catalogue() -> Named:
    found = values_by_id((*_walk(LAWS), *offered(LAWS).modules), Law, "law")
    entries: dict[str, Law] = {}
    for law in found.entries.values():
        entries[law.id] = law
        entries |= {one.id: one for one in map(law.in_case, law.cases)}
    return Named({name: entries[name] for name in sorted(entries)}, found.problems)


def laws() -> tuple[Law, ...]:
    """All laws with their cases, sorted by id."""
    return tuple(_law_catalogue().entries.values())


@functools.cache
def statements() -> Mapping[str, str]:
    """Statement -> sentence for statements whose laws are cases: the merged tables ``STATEMENTS`` of law
    modules.
    """
    return _merged_law_table("STATEMENTS")


def _merged_law_table(name: str) -> dict[str, str]:
    """The merged tables of one name in the law modules."""
    tables = (vars(module).get(name, {}) for module in (*_walk(LAWS), *offered(LAWS).modules))
    return {key: value for table in tables for key, value in table.items()}


def statement(name: str) -> str:
    """The sentence that all cases of a statement share: its own, or that of its law without a case."""
    law = _law_catalogue().entries.get(name)
    return statements().get(name) or (law.statement if law is not None else "")


@functools.cache
def former() -> Mapping[str, str]:
    """Former id -> id of the law today: the merged tables ``FORMER`` of law modules, and first ids."""
    entries: Mapping[str, Law] = _law_catalogue().entries
    older = _merged_law_table("FORMER") | {law.key: law.id for law in entries.values()}
    return {old: new for old, new in older.items() if old not in entries}


def older(law_id: str) -> list[str]:
    """Former ids of a law, sorted."""
    return sorted(old for old, new in former().items() if new == law_id)


def find_law(law_id: str) -> Law:
    """The law of an id or a former id. Raises `SpecError` with the nearest ids."""
    entries: Mapping[str, Law] = _law_catalogue().entries
    name = spelled(law_id)
    name = former().get(name, name)
    if name in entries:
        return entries[name]
    if cases := [one for one in entries if statement_of(one) == name]:
        raise SpecError(
            f"{name} is a statement with several cases; name one of: {', '.join(cases)}"
        )
    raise SpecError(
        f"there is no law {law_id!r}{nearest(law_id, entries)}; `flowref laws` lists them"
    )


copyreg.pickle(Law, lambda law: (find_law, (law.id,)))


def select_laws(globs: tuple[str, ...] = ()) -> tuple[Law, ...]:
    """The laws that match any glob; all laws for no glob.

    An id selects one law, the name of a statement without a law of its own selects all of its cases. Former
    ids are accepted (see `renamings`). Raises `SpecError` if a glob matches nothing.
    """
    chosen: dict[str, Law] = {}
    for glob in globs:
        matched = _matching(glob) or _formerly_matching(glob)
        if not matched:
            raise SpecError(
                f"no law matches {glob!r}{nearest(glob, [law.id for law in laws()])}; `flowref "
                "laws` lists them"
            )
        chosen |= {law.id: law for law in matched}
    return tuple(chosen[key] for key in sorted(chosen)) if globs else laws()


def literal_brackets(glob: str) -> str:
    """A glob with literal brackets, since names of cases and constructions contain them."""
    return glob.replace("[", "[[]")


def _matching(glob: str) -> list[Law]:
    law = _law_catalogue().entries.get(spelled(glob))
    return [law] if law else [law for law in laws() if named_by(glob, law.id)]


def _formerly(glob: str) -> dict[str, str]:
    """The laws that a former id matches, each with that id; a former id without wildcards selects one law."""
    older = fnmatch.filter(former(), literal_brackets(glob))
    return {former()[old]: old for old in sorted(older, reverse=True)}


def _formerly_matching(glob: str) -> list[Law]:
    return [law for law in laws() if law.id in _formerly(glob)]


def globs_of(text: str) -> list[str]:
    """The globs of a comma-separated text; commas inside brackets do not separate."""
    return [one for part in re.split(r",(?![^\[]*\])", text) if (one := part.strip())]


def renamings(globs: Iterable[str]) -> list[str]:
    """A sentence for each glob that matches laws by former ids only."""
    hints = []
    for glob in globs:
        if not _matching(glob) and (renamed := _formerly_matching(glob)):
            more = f" (and {len(renamed) - 1} more)" if len(renamed) > 1 else ""
            hint = f"{_formerly(glob)[renamed[0].id]} is {renamed[0].id} now{more}"
            hints.append(f"{hint}; {glob!r} is understood until the next release")
    return hints


@functools.cache
def _mutants() -> Named:
    ours = _walk(OUR_MUTANTS) if in_checkout() else []
    return values_by_id((*ours, *offered(LAWS).modules), Mutant, "mutant")


def mutants() -> tuple[Mutant, ...]:
    """All mutants, sorted by id."""
    return tuple(_mutants().entries.values())


def find_mutant(mutant_id: str) -> Mutant:
    """The mutant ``law#name``. Raises `SpecError` with the nearest ids."""
    entries: Mapping[str, Mutant] = _mutants().entries
    law, _, name = mutant_id.partition("#")
    known = f"{former().get(spelled(law), spelled(law))}#{name}"
    if known in entries:
        return entries[known]
    raise SpecError(f"there is no mutant {mutant_id!r}{nearest(mutant_id, entries)}")


@functools.cache
def specimens() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Correct specimens of the zoo with their defective twins: spec -> defect -> ids of laws, one of which
    must be violated. Those of flowref are present if their framework is installed.
    """
    ours = [
        module
        for package in OUR_SPECIMENS
        if in_checkout() and backends.installed(importlib.import_module(package).FRAMEWORK)
        for module in _walk(package)
    ]
    modules = (*ours, *offered(SPECIMENS).modules)
    return {
        f"{module.__name__}:{specimen.factory}": specimen.specs(module.__name__)
        for module in modules
        for specimen in getattr(module, "SPECIMENS", ())
    }


@functools.cache
def _adapters() -> Named:
    ours = _walk(ADAPTERS, lambda name: name.endswith(".adapter"))
    return values_by_id((*ours, *offered(ADAPTERS).modules), Adapter, "adapter", "name")


def adapters() -> Mapping[str, Adapter]:
    """The adapters by name; imports no library."""
    return _adapters().entries


@functools.cache
def _promises() -> Named:
    return values_by_id(offered(LAWS).modules, Promise, "promise", "name")


@functools.cache
def promises() -> Mapping[str, Promise]:
    """All promises by name: of flowref, of law modules, and flags that a law requires without declaring
    them.
    """
    asked = {name for law in laws() for name in (law.promise, law.rebuild) if name is not None}
    flags = {
        canonical(name): Promise(canonical(name), FLAG, "what a law of that promise states")
        for name in sorted(asked)
    }
    return {**flags, **_promises().entries, **PROMISES}


def problems() -> tuple[Problem, ...]:
    """Offers of other distributions that were left out: modules that do not import, and second values of
    one name.
    """
    offers = [offered(group).problems for group in (ADAPTERS, LAWS, SPECIMENS)]
    catalogues = (_adapters(), _law_catalogue(), _mutants(), _promises())
    doubles = [catalogue.problems for catalogue in catalogues]
    return tuple(itertools.chain(*offers, *doubles))


def installed(name: str) -> bool:
    """Whether an adapter's library and its framework can be imported."""
    adapter = adapters()[name]
    return (not adapter.package or backends.importable(adapter.package)) and (
        not adapter.backend or backends.installed(adapter.backend)
    )


def importable(target: Target) -> bool:
    """Whether the framework of one of flowref's specimens is installed; True for other targets."""
    for package in OUR_SPECIMENS:
        if target.component.startswith(f"{package}."):
            return backends.installed(importlib.import_module(package).FRAMEWORK)
    return True


def library_version(name: str) -> str:
    """The version of an adapter's library; empty if not installed."""
    package = adapters()[name].package
    for distribution in importlib.metadata.packages_distributions().get(package, [package]):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


@functools.cache
def components(name: str) -> Mapping[str, Component]:
    """The constructions of a library by name; imports it. Raises `TargetError` if it or its framework is
    not installed.
    """
    with unwarned():
        return _usable(name).components()


@functools.cache
def published(name: str) -> Mapping[str, Component]:
    """The models of published size of a library by name; as `components`."""
    with unwarned():
        return _usable(name).published()


def _usable(name: str) -> Adapter:
    """The adapter of a library that can be imported with its framework. Raises `TargetError` otherwise."""
    adapter = adapters()[name]
    if adapter.package and not backends.importable(adapter.package):
        raise TargetError(
            f"{adapter.title} is not installed; `{_installation(adapter)}` installs it"
        )
    if adapter.backend:
        try:
            backends.find(adapter.backend)
        except TargetError as error:
            raise TargetError(f"{adapter.title} cannot be audited here: {error}") from error
    return adapter


def _installation(adapter: Adapter) -> str:
    """The command that installs a library; extras exist for flowref's own adapters only."""
    if not getattr(adapter.components, "__module__", "").startswith(f"{ADAPTERS}."):
        return f"pip install {adapter.package}"
    beside_torch = adapter.backend == "torch" != adapter.package
    return installation(adapter.extra or ("libraries" if beside_torch else adapter.backend))


def remedy(error: BaseException) -> str:
    """How to install the framework or library that an ImportError misses; empty for any other error."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    package = error.name.partition(".")[0]
    adapter = next((one for one in adapters().values() if one.package == package), None)
    if package in backends.OURS:
        return f"; `{installation(package)}` installs it"
    return f"; `{_installation(adapter)}` installs it" if adapter else ""


def find_component(target: Target) -> Component:
    """The construction or model of published size that a target names. Raises `TargetError` with the
    nearest names.
    """
    model = target.component.startswith(PUBLISHED)
    entries = (published if model else components)(target.adapter)
    if target.component not in entries:
        title = adapters()[target.adapter].title
        noun, glob = ("model", f"{PUBLISHED}*") if model else ("construction", "*")
        raise SpecError(
            f"{title} has no {noun} {target.component!r} here"
            f"{nearest(target.component, entries)}; `flowref audit '{target.adapter}:{glob}'` "
            f"audits all {len(entries)}"
        )
    return entries[target.component]
