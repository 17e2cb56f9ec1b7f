"""The couplings of the libraries: which entries they keep, and what the others go through. Classes
are known by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from flowref.adapters.common.described import lineage
from flowref.model import Coupling, Shape

# Univariate maps by the name of their class; all others are elementwise.
UNIVARIATE = {
    "Affine": "affine",
    "InverseAffine": "affine",
    "Shift": "additive",
    "MonotonicAffineTransform": "affine",
    "AdditiveTransform": "additive",
}


def of_library(obj: Any, shape: Shape, *packages: str) -> Coupling | None:
    """The facts of a coupling whose class is a library's own, or None.

    Subclasses of users may do anything to their two parts; they can declare what they keep by an
    attribute ``kept``.
    """
    name, module = type(obj).__name__, type(obj).__module__
    if module.partition(".")[0] not in packages:
        return None
    bases = [base for base in ("CouplingTransform", "CouplingBijection") if base in lineage(obj)]
    read = next((READERS[known] for known in (name, *bases) if known in READERS), None)
    # Zuko has a transform of that name which is made anew in each call.
    return (
        None
        if read is None or (read is _nflows and not hasattr(obj, "transform_net"))
        else read(obj, shape)
    )


def on_axis(shape: Shape, kept: Iterable[int], axis: int = 0) -> tuple[float, ...]:
    """The mask of a flattened event of which some places along one axis are kept."""
    places, inner = set(kept), math.prod(shape[axis:][1:])
    return tuple(float(index // inner % shape[axis] in places) for index in range(math.prod(shape)))


def spread(mask: Any, shape: Shape) -> tuple[float, ...]:
    """The mask of a flattened event of which a mask covers the last axes."""
    values = [float(value) for value in mask.detach().double().reshape(-1).tolist()]
    return tuple(values * (math.prod(shape) // len(values)))


def _reference(obj: Any, shape: Shape) -> Coupling:
    mask = obj.partition.mask
    by_index = obj.partition.by_index
    kept = on_axis(shape, mask.nonzero()[:, 0].tolist()) if by_index else spread(mask, shape)
    affine = type(obj).__name__ == "AffineCoupling"
    return Coupling(
        kept,
        "affine" if affine else "additive",
        conditioner="conditioner",
        masked=not by_index,
        log_scale="scale" if affine else None,
    )


def _nflows(obj: Any, shape: Shape) -> Coupling:
    name = type(obj).__name__
    kinds = {"AffineCouplingTransform": "affine", "AdditiveCouplingTransform": "additive"}
    kind = kinds.get(name, "elementwise" if name.startswith("Piecewise") else "joint")
    copied = obj.unconditional_transform is None
    return Coupling(on_axis(shape, obj.identity_features.tolist()), kind, copied, "transform_net")


def _block(obj: Any, shape: Shape) -> Coupling:
    """The block of normflows: its first half, or the entries of one color, are kept."""
    mode, half = obj.flows[0].mode, (shape[0] + 1) // 2
    if "channel" in mode:
        kept = on_axis(shape, range(half, shape[0]) if "inv" in mode else range(half))
    else:
        whole = [sum(_places(index, shape)) % 2 for index in range(math.prod(shape))]
        kept = tuple(float(color != ("inv" in mode)) for color in whole)
    affine = obj.flows[1].scale
    return Coupling(kept, "affine" if affine else "additive", conditioner="flows.1.param_map")


def _places(index: int, shape: Shape) -> list[int]:
    found = []
    for size in reversed(shape):
        found.append(index % size)
        index //= size
    return found


def _masked_affine(obj: Any, shape: Shape) -> Coupling:
    """Two networks, of which one may be missing."""
    scaled = hasattr(obj.s, "parameters")
    shifted = hasattr(obj.t, "parameters")
    kind = "affine" if scaled else "additive"
    return Coupling(
        spread(obj.b, shape),
        kind,
        conditioner="s" if scaled else "t" if shifted else "",
        masked=True,
    )


def _wrapped_spline(obj: Any, shape: Shape) -> Coupling:
    inner = obj.prqct
    copied = inner.unconditional_transform is None
    return Coupling(
        on_axis(shape, inner.identity_features.tolist()),
        "elementwise",
        copied,
        "prqct.transform_net",
    )


def _zuko(obj: Any, shape: Shape) -> Coupling:
    name = getattr(obj.univariate, "__name__", "")
    return Coupling(
        spread(obj.mask, shape), UNIVARIATE.get(name, "elementwise"), conditioner="hyper"
    )


def _torchflows(obj: Any, shape: Shape) -> Coupling:
    kinds = lineage(obj.transformer)
    own = UNIVARIATE.get(type(obj.transformer).__name__, "elementwise")
    kept = spread((~obj.coupling.target_mask), shape)
    return Coupling(
        kept, own if "ScalarTransformer" in kinds else "joint", conditioner="conditioner_transform"
    )


def _pyro_affine(obj: Any, shape: Shape) -> Coupling:
    kept = on_axis(shape, range(obj.split_dim), len(shape) + obj.dim)
    ends = float(obj.log_scale_min_clip), float(obj.log_scale_max_clip)
    return Coupling(kept, "affine", conditioner="nn", log_scale=ends)


def _pyro_spline(obj: Any, shape: Shape) -> Coupling:
    kept = on_axis(shape, range(obj.split_dim), len(shape) - 1)
    return Coupling(kept, "elementwise", bool(obj.identity), "upper_spline.nn")


def _one_sided(obj: Any, shape: Shape) -> Coupling:
    """The coupling of FrEIA that transforms one part only; its other blocks transform both."""
    end = float(obj.clamp)
    return Coupling(
        on_axis(shape, range(obj.split_len1)), "affine", conditioner="subnet", log_scale=(-end, end)
    )


def _affine(obj: Any, shape: Shape) -> Coupling:
    """Three libraries have a class of this name."""
    if hasattr(obj, "partition"):
        return _reference(obj, shape)
    return (
        _pyro_affine(obj, shape) if hasattr(obj, "log_scale_min_clip") else _torchflows(obj, shape)
    )


READERS: dict[str, Callable[[Any, Shape], Coupling]] = {
    "AdditiveCoupling": _reference,
    "AffineCoupling": _affine,
    "AffineCouplingBlock": _block,
    "AffineCouplingOneSided": _one_sided,
    "CircularCoupledRationalQuadraticSpline": _wrapped_spline,
    "CoupledRationalQuadraticSpline": _wrapped_spline,
    "CouplingBijection": _torchflows,
    "CouplingTransform": _nflows,
    "GeneralCouplingTransform": _zuko,
    "MaskedAffineFlow": _masked_affine,
    "SplineCoupling": _pyro_spline,
}
