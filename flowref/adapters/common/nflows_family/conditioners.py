"""The networks that condition the layers of nflows, which normflows has copied too."""

from __future__ import annotations

from typing import Any

from flowref.model import Shape


def conditioner_context(module: Any) -> Shape | None:
    """The shape of the context that a module of a conditioner takes, or None."""
    if isinstance(getattr(module, "context_features", None), int):
        return (int(module.context_features),)
    if hasattr(getattr(module, "context_layer", None), "in_features"):
        return (int(module.context_layer.in_features),)
    return None
