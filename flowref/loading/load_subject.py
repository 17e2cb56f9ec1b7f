"""From a target to a subject: find the builder, settle how the object speaks and what is known of
it, present it.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flowref import backends
from flowref.loading.options import coupled, event_option, override
from flowref.loading.probing import OTHER_SEED, SAME_SEED, Plan, settle_user, settled
from flowref.loading.user_code import attempt, factory
from flowref.model import (
    OBJECT,
    USER,
    Adapter,
    Condition,
    Dialect,
    SpecError,
    Subject,
    Target,
    TargetError,
)

# Live objects handed to the Python API, by target; they never leave the process.
LIVE: dict[Target, Any] = {}
ORIGINALS: weakref.WeakValueDictionary[Target, Any] = weakref.WeakValueDictionary()


def load(target: Target, condition: Condition | None = None) -> Subject:
    """The subject of a target in a condition; judged in float32 where the component cannot run in
    float64.

    The mutation of a target, if it names one, comes last. Recent subjects are kept: each copies
    what it is made of at each call, so that no use of one shows in the next.
    """
    return _mutated(target, condition or Condition())


@functools.lru_cache(maxsize=24)
def _mutated(target: Target, condition: Condition) -> Subject:
    from flowref import registry

    subject = _loaded(target, condition)
    mutation = target.option("mutant")
    if mutation is None:
        return subject
    name, _, size = mutation.partition("@")
    mutant = registry.find_mutant(name)
    return mutant.apply(subject, float(size)) if size else mutant.apply(subject)


def _loaded(target: Target, condition: Condition) -> Subject:
    found = plan(target)
    if found.dtype != condition.dtype and condition.dtype == "float64":
        condition = replace(condition, dtype=found.dtype)
    rebuild_seed = OTHER_SEED if target.adapter == USER else SAME_SEED
    subject = found.backend.subject(
        str(target), found.build, found.dialect, found.facts, condition, found.resolve, rebuild_seed
    )
    return replace(subject, operations=found.operations)


def forget() -> None:
    """Drop what was loaded (files may have changed)."""
    _mutated.cache_clear()
    plan.cache_clear()


@functools.lru_cache(maxsize=64)
def plan(target: Target) -> Plan:
    """How to build a target and speak to it. Raises `TargetError` or `SpecError` in one sentence."""
    from flowref import registry

    overrides = dict(target.options)
    if target.adapter not in (USER, OBJECT):
        component = registry.find_component(target)
        options = registry.builder_options(target)
        try:
            facts = component.facts(**options) if callable(component.facts) else component.facts
        except TypeError as error:
            raise SpecError(f"{target}: {error}; check the options after ?") from error
        construct = functools.partial(component.build, **options)
        adapter = registry.adapters()[target.adapter]
        overridden = override(facts, overrides, str(target))
        backend = backends.find(adapter.backend)
        return settled(
            target, backend, construct, component.dialect, overridden, adapter.recognizes
        )
    build = live_builder(target) if target.adapter == OBJECT else factory(target)
    obj = attempt(target, build, "float32")
    adapter, dialect = speaker(obj, str(target))
    backend = backends.find(adapter.backend) if adapter.backend else backends.of(obj)
    shape = event_option(overrides)
    facts = override(adapter.describe(obj, shape), overrides, str(target), obj)
    if shape is not None:
        facts = replace(facts, event_shape=shape)
    if adapter.name == USER:
        dialect, facts = settle_user(target, backend, build, dialect, facts)
        facts = coupled(facts, overrides, str(target), obj)
    return settled(target, backend, build, dialect, facts, adapter.recognizes)


def speaker(obj: Any, name: str) -> tuple[Adapter, Dialect]:
    """The adapter and dialect of a live object: that of the library its class comes from, else the
    user protocol.
    """
    from flowref import registry

    packages = {base.__module__.partition(".")[0] for base in type(obj).__mro__}
    known = [adapter for adapter in registry.adapters().values() if adapter.package]
    # A class that derives from a library's base and from torch's belongs to the library: torch is
    # asked last.
    for adapter in sorted(known, key=lambda candidate: candidate.package == "torch"):
        if adapter.package in packages:
            dialect = adapter.recognizes(obj)
            if dialect is not None:
                return adapter, dialect
    user = registry.adapters()[USER]
    dialect = user.recognizes(obj)
    if dialect is None:
        raise TargetError(
            f"{name} gives a {type(obj).__name__}, which is no bijection (forward and inverse), "
            "no density (log_prob and "
            "sample) and no transform, flow or distribution of a supported library"
        )
    return user, dialect


def live_builder(target: Target) -> Callable[[], Any]:
    """Copies of a live object's snapshot."""
    if target not in LIVE:
        raise TargetError(f"{target} was an object in another process; audit it again from Python")
    return functools.partial(backends.of(LIVE[target]).duplicate, LIVE[target])


def snapshot(obj: Any) -> Target:
    """Register a live object: copied once, now, before anything calls it. Returns its target, named
    after its state.
    """
    backend = backends.of(obj)
    name = f"{type(obj).__name__}#{backend.fingerprint(obj)[:8]}"
    target, others = Target(OBJECT, name), 0
    while (
        ORIGINALS.get(target, obj) is not obj
    ):  # another object in the same state, which may differ in what is no tensor
        others += 1
        target = Target(OBJECT, f"{name}.{others}")
    forget()
    LIVE[target], ORIGINALS[target] = backend.duplicate(obj), obj
    return target
