"""Zuko: lazy transforms and flows, whose forward call maps data to latents, and their transforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common import torch_dialects
from flowref.adapters.common.object_components import components_of, lineage, numbered
from flowref.adapters.common.published_models import components_of_models
from flowref.adapters.common.torch_transforms import rebuilt
from flowref.adapters.zuko import bases, constructions, published_models
from flowref.adapters.zuko.facts import describe, reaches_everywhere
from flowref.model import Adapter, Component, Dialect, Facts, Shape


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.call_and_ladj(x)


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    return obj.inv.call_and_ladj(y)


def parts(obj: Any) -> Any:
    return numbered(getattr(obj, "transforms", ()))


def chain(parts: Sequence[Any]) -> Any:
    from zuko.transforms import ComposedTransform

    return ComposedTransform(*parts)


def lazy_forward(obj: Any, x: Any, context: Any = None) -> Any:
    return obj(context).call_and_ladj(x)


def lazy_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    return obj(context).inv.call_and_ladj(y)


def lazy_chain(parts: Sequence[Any]) -> Any:
    from zuko.lazy import LazyComposedTransform

    return LazyComposedTransform(*parts)


def flow_forward(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.transform(context).call_and_ladj(x)


def flow_inverse(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.transform(context).inv.call_and_ladj(z)


def flow_log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj(context).log_prob(x)


def flow_sample(obj: Any, n: int, context: Any = None) -> Any:
    # One sample per context.
    return obj().sample((n,)) if context is None else obj(context).sample()


def flow_sample_log_prob(obj: Any, n: int, context: Any = None) -> Any:
    if context is None:
        return obj().rsample_and_log_prob((n,))
    # Equally many per context, whose axis is last.
    draws, density = obj(context).rsample_and_log_prob((n // len(context),))
    return draws.transpose(0, 1).reshape(n, *draws.shape[2:]), density.transpose(0, 1).reshape(n)


def flow_base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.base(context).log_prob(z)


def flow_base_sample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.base().sample((n,))


def flow_rsample(obj: Any, n: int, context: Any = None) -> Any:
    return obj().rsample((n,)) if context is None else obj(context).rsample()


def flow_rescale(obj: Any, factor: float) -> Any:
    import torch
    from torch.distributions import AffineTransform
    from zuko.lazy import Flow, UnconditionalTransform

    # One scale per coordinate: a single one with event_dim=1 would be counted once in the log-det.
    scale = torch.full(tuple(obj.base().event_shape), 1 / factor)
    scaling = UnconditionalTransform(
        AffineTransform, torch.zeros_like(scale), scale, buffer=True, event_dim=1
    )
    return Flow([scaling, obj.transform], obj.base)


def flow_parts(obj: Any) -> Any:
    transforms = getattr(obj.transform, "transforms", ())
    return numbered(transforms)


def flow_chain(parts: Sequence[Any]) -> Any:
    from zuko.lazy import LazyComposedTransform

    return LazyComposedTransform(
        *(part.transform if hasattr(part, "base") else part for part in parts)
    )


def flow_invert(obj: Any) -> Any:
    return (obj.transform if hasattr(obj, "base") else obj).inv


TRANSFORM = Dialect(
    forward=forward, inverse=inverse, parts=parts, chain=chain, invert=torch_dialects.invert
)
LAZY = Dialect(
    forward=lazy_forward,
    inverse=lazy_inverse,
    parts=parts,
    chain=lazy_chain,
    invert=torch_dialects.invert,
)
FLOW = Dialect(
    forward=flow_forward,
    inverse=flow_inverse,
    log_prob=flow_log_prob,
    sample=flow_sample,
    sample_log_prob=flow_sample_log_prob,
    base_log_prob=flow_base_log_prob,
    base_sample=flow_base_sample,
    rsample=flow_rsample,
    rescale=flow_rescale,
    parts=flow_parts,
    chain=flow_chain,
    invert=flow_invert,
)
# Its inverse is limited to a documented bound, so that samples outside would be clipped.
BOUNDED_FLOW = replace(FLOW, sample=None, sample_log_prob=None, base_sample=None, rsample=None)
DENSITY = replace(
    torch_dialects.DENSITY,
    expanded=torch_dialects.expanded,
    stated=torch_dialects.distribution_moments,
)
LAZY_DENSITY = Dialect(log_prob=flow_log_prob, sample=flow_sample)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a transform, a density or a lazy one of either, or None."""
    from torch.distributions import Distribution, Transform

    names = lineage(obj)  # the module of lazy classes varies with the version
    if "Flow" in names:
        return FLOW if reaches_everywhere(obj) else BOUNDED_FLOW
    if "LazyTransform" in names:
        return LAZY
    if "LazyDistribution" in names:
        return LAZY_DENSITY
    if isinstance(obj, Transform):
        return TRANSFORM if obj.bijective else None
    return DENSITY if isinstance(obj, Distribution) else None


def describe_users(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a user's transform or density."""
    return rebuilt(describe(obj, event_shape))


def components() -> Mapping[str, Component]:
    """The transforms, the lazy transforms and the flows of the library."""
    return {
        **components_of(constructions.transforms(), TRANSFORM, describe),
        **components_of(constructions.lazy_transforms(), LAZY, describe),
        **components_of(constructions.flows(), _flow_dialect, describe, constructions.promised),
        **components_of(bases.constructions(), DENSITY, describe),
    }


def models() -> Mapping[str, Component]:
    """Flows of published size."""
    return components_of_models(published_models.models(), FLOW, describe)


def _flow_dialect(name: str) -> Dialect:
    bounded = name.partition("[")[0] in ("NAF", "UNAF", "GF", "SOSPF")
    return LAZY_DENSITY if name.startswith("GMM") else BOUNDED_FLOW if bounded else FLOW


ADAPTER = Adapter(
    name="zuko",
    package="zuko",
    title="Zuko",
    components=components,
    published=models,
    recognizes=recognizes,
    describe=describe_users,
)
