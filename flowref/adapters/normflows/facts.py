"""Facts of normflows classes: supports and promises."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flowref.adapters.common.bases import base_promises
from flowref.adapters.common.normalizers.spellings import of_library
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE, VOLUME, class_promises
from flowref.adapters.common.shapes import unknown_shape
from flowref.adapters.common.traits import Traits, compose, facts_of
from flowref.adapters.normflows import structure
from flowref.adapters.normflows.shapes import after, before, context_of, flow_event_shape, layers_of
from flowref.model import REAL, Facts, Preprocessing, Shape, Support

UNIT = Support.parse("unit")

# The fixed-point iteration stops at steps of sqrt(1e-5 (1 + |y|)); contractions up to 0.9 leave
# nine times that.
FIXED_POINT = 3e-2
# Amplification of one layer's error by others.
SPREAD = 10

SCALAR = CONSTANT | {"scalar-ladj"}
PROMISES: dict[str, frozenset[str]] = {
    "AffineConstFlow": SCALAR | ELEMENTWISE,
    "CCAffineConst": ELEMENTWISE,
    "Invertible1x1Conv": SCALAR,
    "InvertibleAffine": SCALAR,
    "LULinearPermute": CONSTANT,
    "Permute": VOLUME | CONSTANT,
    "Squeeze": VOLUME | SCALAR,
    "Shift": VOLUME | CONSTANT | ELEMENTWISE,
    "PeriodicWrap": VOLUME | CONSTANT | {"elementwise"},
    "PeriodicShift": VOLUME | CONSTANT | {"elementwise"},
    "Autoregressive": frozenset({"autoregressive"}),
    # The log-det treats batch statistics as constants, as documented.
    "BatchNorm": frozenset({"estimator", "batch-statistics"}),
}


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a flow or model, with the event shape from its class if that states one."""
    shape = event_shape or flow_event_shape(obj)
    if shape is None:
        raise unknown_shape(obj)
    based = "NormalizingFlow" in lineage(obj)
    return facts_of(
        traits(obj, shape),
        shape,
        after(obj, shape),
        {**base_promises(obj.q0), "samples-from-base": True} if based else {},
        context_shape=context_of(obj),
        normalizer=of_library(obj, "normflows", structure.BATCH_NORM),
        preprocessing=Preprocessing(float(obj.alpha)) if "Logit" in lineage(obj) else None,
        coupling=structure.coupling(obj, shape),
        squeezing=structure.squeezing(obj),
        multi_scale=structure.multi_scale(obj),
    )


def describe_levels(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a multi-scale model, whose latents are those of all levels, flattened in the listed
    order: last level first.
    """
    shapes = structure.level_shapes(obj)
    data = shapes[0]
    estimators: set[str] = set()
    for index, flows in enumerate(obj.flows):
        data = data if index == 0 else (data[0] + shapes[index][0], *data[1:])
        for flow in flows:
            estimators |= traits(flow, data).promises & {"estimator"}
            data = after(flow, data)
    return Facts(
        event_shape=(sum(math.prod(shape) for shape in shapes),),
        latent_shape=data,
        codomain=REAL if obj.transform is None else None,
        promises=dict.fromkeys(sorted(estimators), True),
        multi_scale=structure.multi_scale(obj),
    )


def traits(obj: Any, shape: Shape) -> Traits:
    """The traits of a flow's forward map on events of a shape, by its class."""
    names = lineage(obj)
    layers = layers_of(obj)
    if layers is not None:
        maps = []
        for layer in layers:
            maps.append(traits(layer, shape))
            shape = after(layer, shape)
        whole = compose(maps)
        return replace(whole, tolerance=SPREAD * whole.tolerance) if len(maps) > 1 else whole
    if "Reverse" in names:
        return traits(obj.flow, before(obj.flow, shape)).inverted()
    if "Logit" in names:
        alpha, width = float(obj.alpha), 1 - 2 * float(obj.alpha)
        ends = -alpha / width, (1 - alpha) / width
        return Traits(codomain=Support.parse(ends), promises=ELEMENTWISE)
    if names & {"PeriodicWrap", "PeriodicShift"}:
        return _periodic(obj)
    if "Residual" in names:
        exact = obj.iresblock.brute_force and shape == (2,) and not obj.reverse
        promises = frozenset() if exact else frozenset({"estimator"})
        return Traits(codomain=REAL, promises=promises, tolerance=FIXED_POINT)
    spline = getattr(obj, "prqct", None) or getattr(obj, "mprqat", None)
    if spline is not None:
        return _spline(spline)
    if hasattr(obj, "tails") and hasattr(obj, "tail_bound"):
        return _spline(obj)
    promises = class_promises(PROMISES, names)
    if "AffineConstFlow" in names and "s" in dict(obj.named_buffers(recurse=False)):
        promises |= VOLUME
    if ("AffineCouplingBlock" in names and not obj.flows[1].scale) or (
        "MaskedAffineFlow" in names and not hasattr(obj.s, "parameters")
    ):
        promises |= {"volume-preserving"}
    return Traits(codomain=None if "BatchNorm" in names else REAL, promises=promises)


def _spline(obj: Any) -> Traits:
    """The traits of a spline: tails None on the unit box, "linear" on the reals, "circular" on (-bound,
    bound).

    A product set has one interval for all coordinates: if some are circular, all are kept within the bound.
    """
    every: list[Any] = []
    bounds: list[float] = []
    for part in (obj, getattr(obj, "unconditional_transform", None)):
        if part is not None:
            every += list(part.tails) if isinstance(part.tails, (list, tuple)) else [part.tails]
            bounds += _float_list(part.tail_bound)
    promises = set()
    net = getattr(obj, "autoregressive_net", None)
    if net is not None and _triangular(net):
        promises.add("autoregressive")
    if None in every:
        return Traits(UNIT, UNIT, promises=frozenset(promises))
    knots = tuple(sorted({sign * bound for bound in bounds for sign in (-1.0, 1.0)}))
    if "circular" not in every:
        return Traits(codomain=REAL, knots=knots, promises=frozenset(promises))
    box = Support.parse((-min(bounds), min(bounds)))
    return Traits(box, box if len(set(bounds)) == 1 else None, knots, frozenset(promises))


def _triangular(net: Any) -> bool:
    """Whether a masked network conditions each coordinate on earlier ones, in the given order.

    The paths through the masks show the order that the constructor chose.
    """
    import torch

    masks = [module.mask for module in net.modules() if hasattr(module, "mask")]
    path = masks[0].double()
    for mask in masks[1:]:
        path = mask.double() @ path if mask.shape[1] == path.shape[0] else path
    features = path.shape[1]
    outputs = path.reshape(features, -1, features).sum(1)
    return bool((torch.triu(outputs) == 0).all())


def _periodic(obj: Any) -> Traits:
    """The traits of rotations of circles, each the interval (-bound, bound); other coordinates are
    unchanged.
    """
    bounds, shifts = _float_list(obj.bound), _float_list(getattr(obj, "shift", 0.0))
    bound = min(bounds)
    box = Support.parse((-bound, bound))
    seams = {
        math.remainder(bound + sign * shift, 2 * bound) for shift in shifts for sign in (-1.0, 1.0)
    }
    promises = class_promises(PROMISES, lineage(obj))
    return Traits(box, box if len(set(bounds)) == 1 else None, tuple(sorted(seams)), promises)


def _float_list(value: Any) -> list[float]:
    flat = value.detach().reshape(-1).tolist() if hasattr(value, "detach") else value
    return [float(number) for number in (flat if isinstance(flat, Iterable) else [flat])]
