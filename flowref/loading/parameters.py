"""What moved parameters ask for: a method that computes again what is kept of them, or that they are named at all."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from flowref.adapters.user.conventions.derived_state import owners, synced, syncing
from flowref.adapters.user.conventions.names import SYNCS
from flowref.loading.draft import Draft, Finding


def may_follow(draft: Draft) -> bool:
    """Whether it repairs nothing else, and has a method that is called so."""
    obj = draft.instance.obj
    modules = draft.dialect.repair is None and callable(getattr(obj, "modules", None))
    return modules and any(owners(obj, method) for method in SYNCS)


def sync_method_finding(draft: Draft) -> Finding | None:
    """The method by which an object that repairs nothing else follows its parameters."""
    instance = draft.instance
    with instance.backend.sandbox(0, instance.dtype):
        method = syncing(instance.copy())
    if not method:
        return None
    return Finding((method,), dialect=replace(draft.dialect, repair=partial(synced, method=method)))


def unmoved(draft: Draft) -> Finding | None:
    """What to do about arrays that may be parameters, which nothing tells, where none is moved."""
    told = draft.instance.backend.resting(draft.instance.obj)
    return Finding((told,), facts={"unmoved": told}) if told else None
