"""Equinox: stateful layers. Modules written with it are users' code."""

from __future__ import annotations

from collections.abc import Mapping

from flowref.adapters.common.normalizers.jax import components_of, describe, recognizes
from flowref.adapters.equinox import constructions
from flowref.model import Adapter, Component


def components() -> Mapping[str, Component]:
    """The batch norms of the library."""
    rows = constructions.batch_norms()
    return components_of(
        {name: (*row[:2], constructions.WAY, row[2]) for name, row in rows.items()}
    )


ADAPTER = Adapter(
    name="equinox",
    package="equinox",
    title="Equinox",
    components=components,
    recognizes=recognizes,
    describe=describe,
    backend="jax",
    healthy=lambda: ("BatchNorm[ema]",),
)
