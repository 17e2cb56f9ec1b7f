"""Conditioner networks of nflows, also copied by normflows."""

from __future__ import annotations

from typing import Any

from flowref.model import Shape


def conditioner_context(module: Any) -> Shape | None:
    """The context shape that a conditioner module takes, or None."""
    if isinstance(getattr(module, "context_features", None), int):
        return (int(module.context_features),)
    if hasattr(getattr(module, "context_layer", None), "in_features"):
        return (int(module.context_layer.in_features),)
    return None
