"""flowref's own reference layers, held to the laws like those of any library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters import _normalisers
from flowref.adapters._described import described
from flowref.model import Adapter, Component, Dialect, Facts, Shape

VECTOR, SEQUENCE, IMAGE, VOLUME = (3,), (3, 4), (3, 2, 2), (2, 2, 1, 2)
# Construction -> class, options of its constructor besides the number of channels, shape of an event.
CONSTRUCTIONS: dict[str, tuple[str, dict[str, Any], Shape]] = {
    "BatchNorm": ("BatchNorm", {}, VECTOR),
    "BatchNorm[image]": ("BatchNorm", {}, IMAGE),
    "BatchNorm[sequence]": ("BatchNorm", {}, SEQUENCE),
    "BatchNorm[volume]": ("BatchNorm", {}, VOLUME),
    "BatchNorm[affine=False]": ("BatchNorm", {"affine": False}, IMAGE),
    "BatchNorm[momentum=None]": ("BatchNorm", {"momentum": None}, IMAGE),
    "BatchNorm[track_running_stats=False]": ("BatchNorm", {"track_running_stats": False}, IMAGE),
    "InvertibleBatchNorm": ("InvertibleBatchNorm", {"affine": True}, VECTOR),
    "InvertibleBatchNorm[img]": ("InvertibleBatchNorm", {"affine": True}, IMAGE),
    "InvertibleBatchNorm[running]": ("InvertibleBatchNorm", {"stats": "running"}, IMAGE),
    "ActNorm": ("ActNorm", {}, VECTOR),
    "ActNorm[img]": ("ActNorm", {}, IMAGE),
}
# Of the flow layers, whose eval mode is an affine map of each channel.
PROMISES = {"elementwise": True, "constant-jacobian": True}


def forward(obj: Any, x: Any, context: Any) -> Any:
    y, ladj = obj(x)
    return y, ladj


def inverse(obj: Any, y: Any, context: Any) -> Any:
    x, ladj = obj.inverse(y)
    return x, ladj


LAYER = Dialect(forward=forward, inverse=inverse)


def components() -> Mapping[str, Component]:
    """Every layer that is a map, in every rank and with every option that changes what it computes."""
    found = {}
    for name, (kind, options, event) in CONSTRUCTIONS.items():
        dialect = _normalisers.DIALECT if kind == "BatchNorm" else LAYER
        build = partial(_build, kind, event[0], options)
        found[name] = described(name, build, dialect, describe, event)
    return found


def _build(kind: str, channels: int, options: dict[str, Any]) -> Any:
    from flowref import reference

    layer: Callable[..., Any] = getattr(reference, kind)
    return layer(channels, **options)


def recognises(obj: Any) -> Dialect | None:
    """The dialect of a reference layer or of a subclass of one; None for all else, that of this package included."""
    from flowref.reference import ActNorm, BatchNorm, InvertibleBatchNorm

    if isinstance(obj, BatchNorm):
        return _normalisers.DIALECT
    return LAYER if isinstance(obj, ActNorm | InvertibleBatchNorm) else None


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a reference layer; where no shape is given, an event is an image of its channels."""
    shape = event_shape or _normalisers.infer_shape(obj) or (obj.num_features,)
    facts = _normalisers.facts(obj, shape) if _normalisers.is_normaliser(obj) else Facts(event_shape=shape)
    if not callable(getattr(obj, "inverse", None)):
        return facts
    if facts.normaliser is None:
        return replace(facts, promises={**PROMISES, "monotone": True})
    return replace(facts, promises=PROMISES, normaliser=replace(facts.normaliser, statistics=obj.stats))


ADAPTER = Adapter(
    name="reference",
    package="flowref",
    title="flowref.reference",
    components=components,
    recognises=recognises,
    describe=describe,
)
