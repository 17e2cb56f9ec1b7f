"""Whether the method ``train`` of a module is the switch of its modes."""

from __future__ import annotations

import functools
import inspect
from typing import Any

# What the parameter of a switch is called by those who override it without a default.
SWITCHED = ("mode", "training", "train", "is_training", "is_train")


def switches(module: Any) -> bool:
    """Whether ``module.train(mode)`` switches modes: not where a flag stands under that name, nor where
    a class calls a training so, ``train(self, data, epochs)`` or ``train(self, epochs=10)``, which
    ``eval()`` would start.
    """
    own = getattr(module, "__dict__", {})
    kind: Any = type(module)
    return _switch(own["train"], 0) if "train" in own else _class_has_train_switch(kind)


@functools.lru_cache(maxsize=256)
def _class_has_train_switch(kind: type) -> bool:
    return _switch(getattr(kind, "train", None), 1)


def _switch(method: Any, held: int) -> bool:
    """Whether a method is the switch; ``held``: how many of its parameters are the module itself."""
    if not callable(method):
        return False
    if getattr(method, "__module__", "").partition(".")[0] == "torch":
        return True
    try:
        taken = list(inspect.signature(method).parameters.values())[held:]
    except (TypeError, ValueError):  # compiled code tells nothing
        return True
    taken = [one for one in taken if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    asked = [one for one in taken if one.default is one.empty and one.name not in SWITCHED]
    if asked or not taken:
        return not asked
    return taken[0].name in SWITCHED or isinstance(taken[0].default, bool)
