"""Equinox: layers that keep state beside them. Modules that are written with it are users' code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowref.adapters.common.normalizers.jax import components_of
from flowref.adapters.equinox import constructions
from flowref.model import Adapter, Component, Dialect, Facts, Shape


def recognizes(obj: Any) -> Dialect | None:
    """Nothing: what users write with equinox is recognized by calls."""
    return None


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """What is known of an object that was not built here: the shape of its events, if it was told."""
    return Facts(event_shape=event_shape or ())


def components() -> Mapping[str, Component]:
    """Its batch norms."""
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
