"""Objects passed to the Python API, registered once as targets of this process."""

from __future__ import annotations

import weakref
from typing import Any

from flowref.loading.ownership import embedded, framework
from flowref.model import OBJECT, Target

# Copies of live objects, by target; they never leave the process.
LIVE: dict[Target, Any] = {}
ORIGINALS: weakref.WeakValueDictionary[Target, Any] = weakref.WeakValueDictionary()
# Objects without weak references (a namespace, a tuple of functions), kept alive.
HELD: dict[Target, Any] = {}


def register(obj: Any, given: str = "") -> Target:
    """Register a copy of a live object; its target is named after its state, or ``given``."""
    obj = embedded(obj)
    backend = framework(obj)
    if given:
        target = Target(OBJECT, given)
        LIVE[target] = backend.duplicate(obj)
        return target
    name = f"{type(obj).__name__}#{backend.fingerprint(obj)[:8]}"
    target, others = Target(OBJECT, name), 0
    # Objects with equal arrays may differ elsewhere.
    while HELD.get(target, ORIGINALS.get(target, obj)) is not obj:
        others += 1
        target = Target(OBJECT, f"{name}.{others}")
    LIVE[target] = backend.duplicate(obj)
    try:
        ORIGINALS[target] = obj
    except TypeError:
        HELD[target] = obj
    return target


def alias_live_target(target: Target, other: Target) -> Target:
    """The target of a live object under other options."""
    if target in LIVE:
        LIVE[other] = LIVE[target]
    return other
