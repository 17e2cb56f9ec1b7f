"""Keras 3: its layers, and users' layers, wrapped as torch modules."""

from __future__ import annotations

from typing import Any

from flowref.adapters.keras.constructions import components
from flowref.adapters.keras.modules import embeds
from flowref.model import Adapter, Dialect, Facts, Shape


def recognizes(obj: Any) -> Dialect | None:
    """None: layers are recognized by calls, as users' modules are."""
    return None


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The stated event shape only."""
    return Facts(event_shape=event_shape or ())


ADAPTER = Adapter(
    name="keras",
    package="keras",
    title="Keras",
    components=components,
    recognizes=recognizes,
    describe=describe,
    extra="keras",
    embeds=embeds,
)
