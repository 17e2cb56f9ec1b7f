"""timm: norms, each before its activation. Norms that users hold, and models that hold them, are recognized by calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowref.adapters.common.normalizers.constructions import components_by_calls
from flowref.adapters.timm import constructions
from flowref.model import Adapter, Component, Dialect, Facts, Shape


def components() -> Mapping[str, Component]:
    """Norms of one kind, whose activations are identities."""
    return components_by_calls(constructions.norms(), activations=constructions.ACTIVATIONS)


def recognizes(obj: Any) -> Dialect | None:
    """Nothing: objects are recognized by calls."""
    return None


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The shape of an event, if it was given."""
    return Facts(event_shape=event_shape or ())


ADAPTER = Adapter(
    name="timm",
    package="timm",
    title="timm",
    components=components,
    recognizes=recognizes,
    describe=describe,
    extra="apps",
    healthy=lambda: ("BatchNormAct2d", "GroupNormAct", "LayerNorm2d"),
)
