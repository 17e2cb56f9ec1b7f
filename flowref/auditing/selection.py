"""From specs and globs to targets and laws; what cannot be understood is collected as a sentence."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flowref import backends, registry
from flowref.model import OBJECT, USER, FlowrefError, Law, Problem, SpecError, Target, one_line
from flowref.registry import Listing


@dataclass(frozen=True)
class Selection:
    """The distinct targets, and problems with specs. ``listings``: of files named as a whole, whose
    flows are optional targets.
    """

    targets: tuple[Target, ...]
    problems: tuple[Problem, ...]
    listings: tuple[Listing, ...] = ()

    @property
    def optional(self) -> frozenset[Target]:
        """The targets that were found in a file rather than named."""
        return frozenset(target for one in self.listings for target in one.targets)


def installed_libraries() -> list[str]:
    """The supported libraries that can be imported here."""
    return [
        name
        for name, adapter in registry.adapters().items()
        if adapter.package and registry.installed(name)
    ]


def select(wanted: Iterable[Any] | None, defaults: Mapping[str, str] | None = None) -> Selection:
    """Return the targets of specs, `Target` values and live objects; by default every installed
    library. ``defaults``: options such as ``event`` for targets without them; they concern user
    code, unless only library targets are named.

    Raises: `SpecError` if no target is named and no library is installed.
    """
    items = installed_libraries() if wanted is None else list(wanted)
    if wanted is None and not items:
        raise SpecError(
            "no supported library is installed here; install one, or name a target such as "
            "path/to/file.py:make"
        )
    targets: list[Target] = []
    problems: list[Problem] = []
    listings: list[Listing] = []
    for item in items:
        try:
            if isinstance(item, str) and registry.is_whole(item):
                found = registry.listing(item)
                every = (*found.targets, *found.variants)
                chosen = tuple(with_defaults(every, defaults or {}))
                listings.append(replace(found, targets=chosen))
                targets += chosen
            else:
                targets += _selected_targets(item)
        except FlowrefError as error:
            spec = str(item) if isinstance(item, str | Target) else type(item).__name__
            problems.append(Problem(spec, str(error)))
        except Exception as error:  # the import of a library fails
            problems.append(Problem(str(item), f"{item} cannot be listed: {one_line(error)}"))
    chosen = tuple(dict.fromkeys(with_defaults(targets, defaults or {})))
    return Selection(chosen, tuple(problems), tuple(listings))


def _selected_targets(item: Any) -> list[Target]:
    if isinstance(item, Target | str):
        targets = [item] if isinstance(item, Target) else registry.expand(item)
        for target in targets:
            registry.vet_target(target)
        return targets
    from flowref import loading

    return [loading.snapshot(item)]


def with_defaults(targets: Sequence[Target], defaults: Mapping[str, str]) -> list[Target]:
    """The targets with options that they do not give, one for one."""
    own = any(target.adapter in (USER, OBJECT) for target in targets)
    chosen = []
    for target in targets:
        own_options = dict(target.options)
        more = {
            key: value
            for key, value in defaults.items()
            if key not in own_options
            and (key == "dtype" or not own or target.adapter in (USER, OBJECT))
        }
        chosen.append(_with_options(target, more) if more else target)
    return chosen


def _with_options(target: Target, more: Mapping[str, str]) -> Target:
    other = target.with_options(**more)
    if target.adapter != OBJECT:
        return other
    from flowref import loading

    return loading.alias_live_target(target, other)


def select_laws(
    globs: str | Law | Iterable[str | Law], ignore: Iterable[str] = ()
) -> tuple[Law, ...]:
    """Return the laws that match any of the globs and none of ``ignore``, sorted by id.

    Raises: `SpecError` for a glob that matches nothing, and if no law is left.
    """
    wanted = [globs] if isinstance(globs, str | Law) else list(globs)
    texts = _split_globs(item for item in wanted if isinstance(item, str))
    laws = {law.id: law for law in wanted if isinstance(law, Law)}
    if texts or not laws:
        laws |= {law.id: law for law in registry.select_laws(texts)}
    if without := _split_globs(ignore):
        for law in registry.select_laws(without):
            laws.pop(law.id, None)
        if not laws:
            raise SpecError(f"no law is left: all that are wanted match {', '.join(without)}")
    return tuple(laws[key] for key in sorted(laws))


def _split_globs(globs: Iterable[str]) -> tuple[str, ...]:
    return tuple(glob for text in globs for glob in registry.globs_of(text))


def frameworks(targets: Sequence[Target]) -> tuple[str, ...]:
    """The names of the backends that targets need; for user code, all usable ones."""
    adapters = registry.adapters()
    named = {adapters[name].backend if name in adapters else "" for name in _adapters(targets)}
    return tuple(name for name in backends.backend_names() if name in named or "" in named)


def _adapters(targets: Sequence[Target]) -> list[str]:
    return sorted({target.adapter for target in targets}, key=str.casefold)


def library_versions(targets: Sequence[Target]) -> tuple[tuple[str, str], ...]:
    """(name, version) of the frameworks and libraries of the targets."""
    names = [name for name in _adapters(targets) if name not in (USER, OBJECT)]
    versions: dict[str, str] = {}
    for framework in frameworks(targets):
        versions.update(backends.find(framework).versions())
    versions["numpy"] = importlib.metadata.version("numpy")
    for name in names:
        with contextlib.suppress(FlowrefError, KeyError):
            versions.setdefault(
                registry.adapters()[name].package or name, registry.library_version(name)
            )
    return tuple(versions.items())
