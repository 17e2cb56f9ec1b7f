"""timm: normalization layers without their activations. Layers in models of users are recognized by
their behavior.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowref.adapters.common.normalizers.constructions import components_by_calls
from flowref.adapters.timm import constructions
from flowref.model import Adapter, Component, Dialect, Facts, Shape


def components() -> Mapping[str, Component]:
    """The layers of `constructions.NORMS`, with the activation replaced by the identity."""
    return components_by_calls(constructions.norms(), activations=constructions.ACTIVATIONS)


def recognizes(obj: Any) -> Dialect | None:
    """None: layers are recognized by their behavior."""
    return None


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The declared event shape, or an unknown one, ``()``."""
    return Facts(event_shape=event_shape or ())


ADAPTER = Adapter(
    name="timm",
    package="timm",
    title="timm",
    components=components,
    recognizes=recognizes,
    describe=describe,
    # LayerNormFp32 and its like by their names; EvoNorm and filter response norms cast where they take statistics, for
    # the sake of half precision.
    single_precision=("timm.layers",),
    extra="apps",
    healthy=lambda: ("BatchNormAct2d", "GroupNormAct", "LayerNorm2d"),
)
