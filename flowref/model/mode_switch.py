"""Whether the method ``train`` of a module switches its mode."""

from __future__ import annotations

import functools
import inspect
from typing import Any

# Names of the mode parameter in overrides without a default.
SWITCHED = ("mode", "training", "train", "is_training", "is_train")


def switches(module: Any) -> bool:
    """Whether ``module.train(mode)`` switches modes. Not if ``train`` is a flag, nor if it runs a training,
    as ``train(self, data, epochs)`` or ``train(self, epochs=10)`` do, which ``eval()`` would start.
    """
    own = getattr(module, "__dict__", {})
    kind: Any = type(module)
    return _switch(own["train"], 0) if "train" in own else _class_has_train_switch(kind)


@functools.lru_cache(maxsize=256)
def _class_has_train_switch(kind: type) -> bool:
    return _switch(getattr(kind, "train", None), 1)


def _switch(method: Any, held: int) -> bool:
    """Whether a method switches the mode; ``held``: how many of its first parameters are the module itself."""
    if not callable(method):
        return False
    if getattr(method, "__module__", "").partition(".")[0] == "torch":
        return True
    try:
        taken = list(inspect.signature(method).parameters.values())[held:]
    except (TypeError, ValueError):  # compiled code has no signature
        return True
    taken = [one for one in taken if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    asked = [one for one in taken if one.default is one.empty and one.name not in SWITCHED]
    if asked or not taken:
        return not asked
    return taken[0].name in SWITCHED or isinstance(taken[0].default, bool)
