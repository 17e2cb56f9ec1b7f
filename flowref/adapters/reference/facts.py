"""The facts that flowref's reference layers tell: event shapes, supports and promises."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from flowref.adapters.common import batch_norm_shapes, batch_norms, couplings, multi_scales
from flowref.adapters.common.bases import base_promises
from flowref.adapters.common.described import lineage
from flowref.adapters.common.torch_transforms import interval
from flowref.model import REAL, Facts, Preprocessing, Shape, Support, TargetError

ELEMENTWISE = frozenset({"elementwise"})
CONSTANT = frozenset({"constant-jacobian"})
MONOTONE = frozenset({"monotone"})
VOLUME = frozenset({"volume-preserving"})
JOINT = ELEMENTWISE | CONSTANT | MONOTONE | VOLUME

TRAITS: dict[str, frozenset[str]] = {
    "ActNorm": ELEMENTWISE | CONSTANT | MONOTONE,
    "AdditiveCoupling": VOLUME,
    "Affine": ELEMENTWISE | CONSTANT,
    "ElementwiseCDF": ELEMENTWISE | MONOTONE,
    "Exp": ELEMENTWISE | MONOTONE,
    "InvertibleBatchNorm": ELEMENTWISE | CONSTANT,
    "InvertibleConv1x1": CONSTANT,
    "Logit": ELEMENTWISE | MONOTONE,
    "Permute": VOLUME | CONSTANT,
    "Rosenblatt": frozenset({"autoregressive"}),
    "Squeeze": VOLUME | CONSTANT,
}


@dataclass(frozen=True)
class _Map:
    """What one layer's class tells of its map."""

    latent_shape: Shape
    domain: Support = REAL
    codomain: Support = REAL
    promises: frozenset[str] = frozenset()


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a reference layer, its event shape inferred where the object tells it."""
    shape = event_shape or _event(obj)
    if batch_norms.is_normalizer(obj):
        # Where no shape is given, an event is an image of its channels.
        shape = event_shape or batch_norm_shapes.infer_shape(obj) or (obj.num_features,)
        facts = batch_norm_shapes.facts(obj, shape)
        if not callable(getattr(obj, "inverse", None)):
            return facts
        assert facts.normalizer is not None
        promises = dict.fromkeys(sorted(TRAITS["InvertibleBatchNorm"]), True)
        return replace(
            facts, promises=promises, normalizer=replace(facts.normalizer, statistics=obj.stats)
        )
    if lineage(obj) & {"Exponential", "Atoms"}:
        return _univariate(obj)
    if shape is None:
        raise TargetError(
            f"{type(obj).__name__} does not tell the shape of its events; give it, as in ?event=4 "
            "or ?event=4,4,4"
        )
    if "Dequantize" in lineage(obj):
        return Facts(event_shape=shape, preprocessing=Preprocessing(0.0, float(obj.bins), obj.bins))
    if "GaussianLatentModel" in lineage(obj):
        return Facts(event_shape=shape)
    seen = _seen(obj, shape)
    return Facts(
        event_shape=shape,
        latent_shape=seen.latent_shape,
        domain=seen.domain,
        codomain=seen.codomain,
        promises={**dict.fromkeys(sorted(seen.promises), True), **_declared(obj)},
        preprocessing=_preprocessing(obj),
        squeezing=multi_scales.squeezing(obj),
        multi_scale=multi_scales.multi_scale(obj),
        coupling=couplings.of_library(obj, shape, "flowref"),
    )


def _univariate(obj: Any) -> Facts:
    """The facts of a distribution of numbers."""
    if "Atoms" in lineage(obj):
        return Facts(event_shape=(), promises={"atoms": "exact"})
    return Facts(
        event_shape=(),
        domain=Support.parse("positive"),
        promises={"exponential-rate": float(obj.rate.detach())},
    )


def _declared(obj: Any) -> dict[str, Any]:
    """What a density or a map with a closed form says of itself."""
    names = lineage(obj)
    if "Rosenblatt" in names:
        # Facts are read off a copy in float32.
        factor = obj.factor.double()
        known = {
            "mean": obj.mean.tolist(),
            "covariance": (factor @ factor.mT).tolist(),
            "precision": 1e-5,
        }
        return {"rosenblatt": known}
    if "Flow" in names:
        # Bits per dimension are by default those of levels that are one apart.
        return {**base_promises(obj.base), "samples-from-base": True, "rsample": True, "level": 1.0}
    return {}


def _preprocessing(obj: Any) -> Preprocessing | None:
    """The logit that a layer is, or that a flow begins with."""
    names = lineage(obj)
    if "Logit" in names:
        return Preprocessing(obj.alpha, obj.bound)
    inner = obj.bijection if "Flow" in names else obj.preprocessing if "RealNVP" in names else None
    if "Chain" in names:
        inner = next(iter(obj), None)
    known = None if inner is None else _preprocessing(inner)
    return None if known is None else replace(known, alone=False)


def _seen(obj: Any, shape: Shape) -> _Map:
    names = lineage(obj)
    promises = frozenset().union(*(traits for name, traits in TRAITS.items() if name in names))
    if "Flow" in names:
        return _seen(obj.bijection, shape)
    if "Chain" in names:
        return _composed([*obj], shape)
    if "RealNVP" in names:
        return _composed([obj.preprocessing, obj.scales], shape)
    if "MultiScale" in names:
        return _Map((math.prod(shape),))
    if "Inverse" in names:
        inner = _seen(
            obj.bijection, shape
        )  # every layer that changes the shape of an event is seen before it is reversed
        return _Map(shape, inner.codomain, inner.domain, inner.promises)
    if "Logit" in names:
        return _Map(shape, domain=Support.parse(obj.domain), promises=promises)
    if "ElementwiseCDF" in names:
        return _Map(shape, interval(*obj.domain), Support.parse("unit"), promises)
    if "Rosenblatt" in names:
        return _Map(shape, codomain=Support.parse("unit"), promises=promises)
    if "Exp" in names:
        return _Map(shape, codomain=Support.parse("positive"), promises=promises)
    if "Squeeze" in names:
        channels, height, width = shape
        return _Map((4 * channels, height // 2, width // 2), promises=promises)
    return _Map(shape, promises=promises)


def _unsqueezed(shape: Shape) -> Shape:
    channels, height, width = shape
    return channels // 4, 2 * height, 2 * width


def _composed(layers: list[Any], shape: Shape) -> _Map:
    seen = _Map(shape, promises=JOINT)
    for index, layer in enumerate(layers):
        step = _seen(layer, seen.latent_shape)
        domain = step.domain if index == 0 else seen.domain
        seen = _Map(step.latent_shape, domain, step.codomain, seen.promises & step.promises)
    return seen


def _event(obj: Any) -> Shape | None:
    """The shape of an event where the layers tell it, in the order in which they are met."""
    names = lineage(obj)
    if "Flow" in names:
        return _event(obj.bijection) or tuple(obj.base.event_shape)
    if "RealNVP" in names:
        return tuple(obj.event_shape)
    if "Inverse" in names:
        return _event(obj.bijection)
    if "Chain" in names:
        return next((shape for layer in obj if (shape := _event(layer)) is not None), None)
    if "Permute" in names:
        return (len(obj.order),)
    if "Rosenblatt" in names:
        return (len(obj.mean),)
    if "GaussianLatentModel" in names:
        return (len(obj.bias),)
    if "ActNorm" in names:
        return (obj.num_features,)
    if "partition" in vars(obj).get("_modules", {}):
        mask = obj.partition.mask
        return (len(mask),) if mask.dim() == 1 else None
    if "InvertibleConv1x1" in names:
        return (obj.channels,)
    return (obj.num_features,) if hasattr(obj, "num_features") else None
