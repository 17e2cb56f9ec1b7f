"""Objects whose derived state must be recomputed after parameters move, and objects that do not list their
parameters.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from flowref.adapters.user.conventions.derived_state import owners, synced, syncing
from flowref.adapters.user.conventions.names import SYNCS
from flowref.loading.draft import Draft, Finding


def may_follow(draft: Draft) -> bool:
    """Whether the object has a method named like a synchronization, and no repair is known."""
    obj = draft.instance.obj
    modules = draft.dialect.repair is None and callable(getattr(obj, "modules", None))
    return modules and any(owners(obj, method) for method in SYNCS)


def sync_method_finding(draft: Draft) -> Finding | None:
    """The finding of the method that updates derived state after parameters move."""
    instance = draft.instance
    with instance.backend.sandbox(0, instance.dtype):
        method = syncing(instance.copy())
    if not method:
        return None
    return Finding((method,), dialect=replace(draft.dialect, repair=partial(synced, method=method)))


def unmoved(draft: Draft) -> Finding | None:
    """A hint for arrays that may be parameters, if none is listed."""
    hint = draft.instance.backend.resting(draft.instance.obj)
    return Finding((hint,), facts={"unmoved": hint}) if hint else None
