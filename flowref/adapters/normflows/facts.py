"""The facts that the classes of normflows tell: event shapes, supports and promises."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from flowref.adapters.common import couplings, multi_scales
from flowref.adapters.common.bases import base_promises
from flowref.adapters.common.batch_norms import of_library
from flowref.adapters.common.described import lineage
from flowref.model import REAL, Facts, Normalizer, Preprocessing, Shape, Support, TargetError

UNIT = Support.parse("unit")

# The fixed-point iteration stops at steps of sqrt(1e-5 (1 + |y|)); contractions up to 0.9 then
# leave nine times that.
FIXED_POINT = 3e-2

ELEMENTWISE = frozenset({"elementwise", "monotone"})
CONSTANT = frozenset({"constant-jacobian"})
SCALAR = frozenset({"scalar-ladj", "constant-jacobian"})
VOLUME = frozenset({"volume-preserving", "constant-jacobian"})
JOINT = ("volume-preserving", "constant-jacobian", "elementwise", "monotone")

TRAITS: dict[str, frozenset[str]] = {
    "AffineConstFlow": SCALAR | ELEMENTWISE,
    "CCAffineConst": ELEMENTWISE,
    "Invertible1x1Conv": SCALAR,
    "InvertibleAffine": SCALAR,
    "LULinearPermute": CONSTANT,
    "Permute": VOLUME,
    "Squeeze": VOLUME | {"scalar-ladj"},
    "Shift": VOLUME | ELEMENTWISE,
    "PeriodicWrap": VOLUME | {"elementwise"},
    "PeriodicShift": VOLUME | {"elementwise"},
    "Autoregressive": frozenset({"autoregressive"}),
    # The statistics of the batch count as constants in its log-det, which its documentation says.
    "BatchNorm": frozenset({"estimator", "batch-statistics"}),
}

# It has neither parameters nor running statistics.
BATCH_NORM = Normalizer(roles={"eps": "eps"})


@dataclass(frozen=True)
class _Map:
    """What one flow's class tells of its forward map."""

    domain: Support = REAL
    codomain: Support | None = REAL
    knots: tuple[float, ...] = ()
    promises: frozenset[str] = frozenset()
    tolerance: float = 0.0
    declared: bool = True


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a flow or a model, its event shape inferred where the class tells it."""
    shape = event_shape or _event(obj)
    if shape is None:
        raise TargetError(
            f"{type(obj).__name__} does not tell the shape of its events; give it, as in ?event=4 "
            "or ?event=4,4,4"
        )
    seen = _seen(obj, shape)
    promises: dict[str, Any] = dict.fromkeys(sorted(seen.promises), True)
    if seen.tolerance:
        promises["inverse_tolerance"] = seen.tolerance
    if "NormalizingFlow" in lineage(obj):
        promises |= {**base_promises(obj.q0), "samples-from-base": True}
    logit = Preprocessing(float(obj.alpha)) if "Logit" in lineage(obj) else None
    return Facts(
        event_shape=shape,
        latent_shape=_after(obj, shape),
        domain=seen.domain,
        codomain=seen.codomain,
        declared=seen.declared,
        context_shape=_context(obj),
        knots=seen.knots,
        promises=promises,
        normalizer=of_library(obj, "normflows", BATCH_NORM),
        preprocessing=logit,
        coupling=couplings.of_library(obj, shape, "normflows"),
        squeezing=multi_scales.squeezing(obj),
        multi_scale=multi_scales.multi_scale(obj),
    )


def describe_levels(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a multi-scale model, whose latents are those of all levels flattened, as listed:
    the last level first.
    """
    shapes = multi_scales.level_shapes(obj)
    data = shapes[0]
    estimators: set[str] = set()
    for index, flows in enumerate(obj.flows):
        data = data if index == 0 else (data[0] + shapes[index][0], *data[1:])
        for flow in flows:
            estimators |= _seen(flow, data).promises & {"estimator"}
            data = _after(flow, data)
    return Facts(
        event_shape=(sum(math.prod(shape) for shape in shapes),),
        latent_shape=data,
        codomain=REAL if obj.transform is None else None,
        promises=dict.fromkeys(sorted(estimators), True),
        multi_scale=multi_scales.multi_scale(obj),
    )


def takes_context(obj: Any) -> bool:
    """Whether any layer of a model needs a context."""
    return _context(obj) is not None


def _layers(obj: Any) -> Any:
    """The flows that a composite or a model applies, in the order of forward, or None for a single
    flow.
    """
    names = lineage(obj)
    if "Composite" in names:
        return obj._flows
    if names & {"NormalizingFlow", "GlowBlock"}:
        return obj.flows
    return None


def _seen(obj: Any, shape: Shape) -> _Map:
    names = lineage(obj)
    layers = _layers(obj)
    if layers is not None:
        maps = []
        for layer in layers:
            maps.append(_seen(layer, shape))
            shape = _after(layer, shape)
        return _composed(maps)
    if "Reverse" in names:
        inner = _seen(obj.flow, _before(obj.flow, shape))
        return _Map(
            inner.codomain or REAL,
            inner.domain,
            (),
            inner.promises,
            inner.tolerance,
            inner.codomain is not None,
        )
    if "Logit" in names:
        alpha, width = float(obj.alpha), 1 - 2 * float(obj.alpha)
        return _Map(
            codomain=Support.parse((-alpha / width, (1 - alpha) / width)), promises=ELEMENTWISE
        )
    if names & {"PeriodicWrap", "PeriodicShift"}:
        return _periodic(obj)
    if "Residual" in names:
        exact = obj.iresblock.brute_force and shape == (2,) and not obj.reverse
        promises = frozenset() if exact else frozenset({"estimator"})
        return _Map(promises=promises, tolerance=FIXED_POINT)
    spline = getattr(obj, "prqct", None) or getattr(obj, "mprqat", None)
    if spline is not None:
        return _spline(spline)
    if hasattr(obj, "tails") and hasattr(obj, "tail_bound"):
        return _spline(obj)
    promises = frozenset().union(*(traits for name, traits in TRAITS.items() if name in names))
    if "AffineConstFlow" in names and "s" in dict(obj.named_buffers(recurse=False)):
        promises |= VOLUME
    if ("AffineCouplingBlock" in names and not obj.flows[1].scale) or (
        "MaskedAffineFlow" in names and not hasattr(obj.s, "parameters")
    ):
        promises |= {"volume-preserving"}
    if "Planar" in names and obj.act != "tanh":
        return _Map(promises=promises)
    return _Map(codomain=None if "BatchNorm" in names else REAL, promises=promises)


def _spline(obj: Any) -> _Map:
    """A spline of tails None on the unit box, "linear" on the reals, "circular" on (-bound, bound).

    A product set has one interval for all coordinates: with some circular, all are kept within the
    bound.
    """
    every: list[Any] = []
    bounds: list[float] = []
    for part in (obj, getattr(obj, "unconditional_transform", None)):
        if part is not None:
            every += list(part.tails) if isinstance(part.tails, (list, tuple)) else [part.tails]
            bounds += _numbers(part.tail_bound)
    promises = set()
    net = getattr(obj, "autoregressive_net", None)
    if net is not None and _triangular(net):
        promises.add("autoregressive")
    if None in every:
        return _Map(UNIT, UNIT, promises=frozenset(promises))
    knots = tuple(sorted({sign * bound for bound in bounds for sign in (-1.0, 1.0)}))
    if "circular" not in every:
        return _Map(knots=knots, promises=frozenset(promises))
    box = Support.parse((-min(bounds), min(bounds)))
    return _Map(box, box if len(set(bounds)) == 1 else None, knots, frozenset(promises))


def _triangular(net: Any) -> bool:
    """Whether a masked network conditions each coordinate on those before it, in their own order.

    The path from inputs to outputs through the masks tells the order that the constructor chose.
    """
    import torch

    masks = [module.mask for module in net.modules() if hasattr(module, "mask")]
    path = masks[0].double()
    for mask in masks[1:]:
        path = mask.double() @ path if mask.shape[1] == path.shape[0] else path
    features = path.shape[1]
    outputs = path.reshape(features, -1, features).sum(1)
    return bool((torch.triu(outputs) == 0).all())


def _periodic(obj: Any) -> _Map:
    """A rotation of circles, each of them the interval (-bound, bound); other coordinates stay."""
    bounds, shifts = _numbers(obj.bound), _numbers(getattr(obj, "shift", 0.0))
    bound = min(bounds)
    box = Support.parse((-bound, bound))
    seams = {
        math.remainder(bound + sign * shift, 2 * bound) for shift in shifts for sign in (-1.0, 1.0)
    }
    promises = frozenset().union(*(TRAITS[name] for name in lineage(obj) & set(TRAITS)))
    return _Map(box, box if len(set(bounds)) == 1 else None, tuple(sorted(seams)), promises)


def _numbers(value: Any) -> list[float]:
    flat = value.detach().reshape(-1).tolist() if hasattr(value, "detach") else value
    return [float(number) for number in (flat if isinstance(flat, Iterable) else [flat])]


def _composed(maps: Sequence[_Map]) -> _Map:
    """The composition, first map first; its supports are known only where each codomain is the next
    domain.
    """
    if not maps:
        return _Map(promises=VOLUME | ELEMENTWISE)
    fits = all(first.codomain == second.domain for first, second in pairwise(maps))
    promises = {name for name in JOINT if all(name in one.promises for one in maps)}
    promises |= {
        name
        for name in ("estimator", "batch-statistics")
        if any(name in one.promises for one in maps)
    }
    ordered = [one.promises & {"autoregressive", "elementwise"} for one in maps]
    if all(ordered) and any("autoregressive" in one for one in ordered):
        promises.add("autoregressive")
    return _Map(
        domain=maps[0].domain,
        codomain=maps[-1].codomain if fits else None,
        knots=maps[0].knots,
        promises=frozenset(promises),
        tolerance=10 * max(one.tolerance for one in maps) if len(maps) > 1 else maps[0].tolerance,
        declared=all(one.declared for one in maps)
        and all(_inside(first.codomain, second.domain) for first, second in pairwise(maps)),
    )


def _inside(codomain: Support | None, domain: Support) -> bool:
    """Whether what one map returns is surely where the next one is defined."""
    return domain == REAL or (
        codomain is not None and domain.low <= codomain.low and codomain.high <= domain.high
    )


def _event(obj: Any) -> Shape | None:
    """The event shape that a flow's own attributes tell, or None."""
    names = lineage(obj)
    layers = _layers(obj)
    if "NormalizingFlow" in names and hasattr(obj.q0, "shape"):
        shape = obj.q0.shape
        return (int(shape),) if isinstance(shape, int) else tuple(int(size) for size in shape)
    if layers is not None:
        for layer in layers:
            if "Squeeze" in lineage(layer):
                return None
            if found := _event(layer):
                return found
        return None
    if "Reverse" in names:
        return _event(obj.flow)
    if names & {"AffineConstFlow", "CCAffineConst"}:
        shape = tuple(int(size) for size in obj.s.shape[1:])
        return shape if len(shape) == 1 or 1 not in shape else None
    for name in ("b", "w", "z_0"):
        if (
            names & {"MaskedAffineFlow", "Planar", "Radial"}
            and hasattr(obj, name)
            and getattr(obj, name).dim() > 1
        ):
            return tuple(int(size) for size in getattr(obj, name).shape[1:])
    if "AffineCouplingBlock" in names:
        linear = [
            module for module in obj.flows[1].param_map.modules() if hasattr(module, "in_features")
        ]
        if not linear or "channel" not in obj.flows[0].mode:
            return None
        return (
            int(
                linear[0].in_features + linear[-1].out_features // (2 if obj.flows[1].scale else 1)
            ),
        )
    if "Residual" in names:
        channels = getattr(obj.iresblock.nnet, "channels", None)
        return (
            (int(channels[0]),)
            if "LipschitzMLP" in lineage(obj.iresblock.nnet) and channels
            else None
        )
    if names & {"Permute", "InvertibleAffine"}:
        return (int(obj.num_channels),)
    if "LULinearPermute" in names:
        return (int(obj.linear.features),)
    if hasattr(obj, "prqct"):
        return (int(obj.prqct.features),)
    for name in ("mprqat", "autoregressive_net"):
        if hasattr(obj, name):
            inner = getattr(obj, name)
            net = getattr(inner, "autoregressive_net", inner)
            return (int(net.initial_layer.in_features),)
    return (int(obj.features),) if hasattr(obj, "features") else None


def _after(obj: Any, shape: Shape) -> Shape:
    """The shape of forward's outputs for inputs of a shape."""
    for layer in _layers(obj) or ():
        shape = _after(layer, shape)
    if "Squeeze" in lineage(obj):
        return (shape[0] // 4, 2 * shape[1], 2 * shape[2])
    if "Reverse" in lineage(obj):
        return _before(obj.flow, shape)
    return shape


def _before(obj: Any, shape: Shape) -> Shape:
    """The shape of inverse's outputs for inputs of a shape."""
    for layer in reversed(_layers(obj) or ()):
        shape = _before(layer, shape)
    if "Squeeze" in lineage(obj):
        return (4 * shape[0], shape[1] // 2, shape[2] // 2)
    if "Reverse" in lineage(obj):
        return _after(obj.flow, shape)
    return shape


def _context(obj: Any) -> Shape | None:
    """The shape of one context, where a conditioner tells that it takes one."""
    for module in obj.modules():
        if "CCAffineConst" in lineage(module):
            return (int(module.s_cc.shape[0]),)
        if isinstance(getattr(module, "context_features", None), int):
            return (int(module.context_features),)
        if hasattr(getattr(module, "context_layer", None), "in_features"):
            return (int(module.context_layer.in_features),)
    return None
