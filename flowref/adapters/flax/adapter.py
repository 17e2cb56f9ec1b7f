"""Flax: layers with running statistics. Modules written with it are users' code."""

from __future__ import annotations

from collections.abc import Mapping

from flowref.adapters.common.normalizers.jax import components_of, describe, recognizes
from flowref.adapters.flax import constructions
from flowref.model import Adapter, Component


def components() -> Mapping[str, Component]:
    """The batch norms of the library."""
    return components_of(constructions.batch_norms())


ADAPTER = Adapter(
    name="flax",
    package="flax",
    title="Flax",
    components=components,
    recognizes=recognizes,
    describe=describe,
    backend="jax",
    healthy=lambda: ("BatchNorm", "BatchNorm[slow]", "BatchNorm[image]", "nnx.BatchNorm"),
)
