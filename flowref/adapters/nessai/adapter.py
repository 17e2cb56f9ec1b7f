"""nessai: flows from data to latents, on transforms of glasflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowref.adapters.common.nflows_family.calls import repair
from flowref.adapters.common.object_components import components_of, lineage
from flowref.adapters.common.shapes import unknown_shape
from flowref.adapters.nessai import constructions
from flowref.model import REAL, Adapter, Component, Dialect, Facts, Shape


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.forward(x, context=context)


def inverse(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.inverse(z, context=context)


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.log_prob(x, context=context)


def sample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.sample(n, context=context)


def sample_log_prob(obj: Any, n: int, context: Any = None) -> Any:
    return obj.sample_and_log_prob(n, context=context)


def base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.base_distribution_log_prob(z)


def base_sample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.sample_latent_distribution(n)


FLOW = Dialect(
    forward=forward,
    inverse=inverse,
    log_prob=log_prob,
    sample=sample,
    sample_log_prob=sample_log_prob,
    base_log_prob=base_log_prob,
    base_sample=base_sample,
    repair=repair,
)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a flow, or None."""
    return FLOW if "BaseFlow" in lineage(obj) else None


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a flow, whose base has the event shape."""
    own = getattr(getattr(obj, "_distribution", None), "_shape", None)
    shape = event_shape or (None if own is None else tuple(int(size) for size in own))
    if not shape:
        raise unknown_shape(obj)
    return Facts(shape, latent_shape=shape, codomain=REAL)


def components() -> Mapping[str, Component]:
    """The flows trained by its samplers."""
    return components_of(constructions.flows(), FLOW, describe)


ADAPTER = Adapter(
    name="nessai",
    package="nessai",
    title="nessai",
    components=components,
    recognizes=recognizes,
    describe=describe,
    extra="apps",
    healthy=lambda: ("RealNVP", "NSF"),
)
