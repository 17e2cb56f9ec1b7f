"""Batch norms of Keras."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from flowref.adapters.common.normalizers.spellings import DIALECT
from flowref.adapters.keras.modules import CONVENTIONS, embeds
from flowref.model import Component, Facts, Normalizer, Shape

CONSTANTS = {"eps": "epsilon", "momentum": "momentum"}
STATISTICS = {"running_mean": "moving_mean", "running_var": "moving_variance"}
AFFINE = {"weight": "gamma", "bias": "beta"}


def built(shape: Shape, **options: Any) -> Any:
    """A batch norm for an event shape, as module."""
    import keras

    layer = keras.layers.BatchNormalization(**options)
    layer.build((None, *shape))
    return embeds(layer)


def component(name: str, shape: Shape, **options: Any) -> Component:
    """A component; channels are on the last axis, or on the named axis of a batch."""
    affine = AFFINE if options.get("scale", True) else {}
    roles = {**CONSTANTS, **STATISTICS, **affine}
    axis = options.get("axis", len(shape)) - 1
    normalizer = Normalizer(roles=roles, declared=CONVENTIONS, channel=(axis,))
    facts = Facts(event_shape=shape, normalizer=normalizer)
    return Component(name, partial(built, shape, **options), DIALECT, facts)


def components() -> Mapping[str, Component]:
    """Batch norms of vectors, of images, with channels first, and without parameters."""
    rows = (
        component("BatchNormalization", (4,)),
        component("BatchNormalization[image]", (3, 3, 4), momentum=0.9),
        component("BatchNormalization[first]", (4, 5), axis=1),
        component("BatchNormalization[bare]", (4,), scale=False, center=False, epsilon=1e-5),
    )
    return {row.name: row for row in rows}
