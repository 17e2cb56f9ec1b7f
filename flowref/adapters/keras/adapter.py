"""Keras 3: its layers, and those that users write with it, in the form in which torch takes them."""

from __future__ import annotations

from typing import Any

from flowref.adapters.keras.constructions import components
from flowref.adapters.keras.modules import embeds
from flowref.model import Adapter, Dialect, Facts, Shape


def recognizes(obj: Any) -> Dialect | None:
    """Nothing: layers are recognized by calls, as modules are that users write."""
    return None


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The shape of its events, if it was told."""
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
