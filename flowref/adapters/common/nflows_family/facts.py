"""Facts from the classes of nflows and its copies: event shapes, supports and promises."""

from __future__ import annotations

import math
from typing import Any

from flowref.adapters.common.bases import base_promises
from flowref.adapters.common.nflows_family import structure
from flowref.adapters.common.nflows_family.conditioners import conditioner_context
from flowref.adapters.common.normalizers.spellings import of_library
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE, VOLUME, class_promises
from flowref.adapters.common.shapes import as_shape, unknown_shape
from flowref.adapters.common.traits import Traits, compose, facts_of
from flowref.model import REAL, Facts, Shape, Support

UNIT = Support.parse("unit")

# The spline between two clamped sigmoids may lose three digits.
CLAMPED_SPLINE = 1e3

PROMISES: dict[str, frozenset[str]] = {
    "IdentityTransform": ELEMENTWISE | CONSTANT | VOLUME,
    "PointwiseAffineTransform": ELEMENTWISE | CONSTANT,
    "BatchNorm": ELEMENTWISE | CONSTANT,
    "ActNorm": ELEMENTWISE | CONSTANT,
    "GatedLinearUnit": ELEMENTWISE,
    "Permutation": CONSTANT | VOLUME,
    "SqueezeTransform": CONSTANT | VOLUME,
    "HouseholderSequence": CONSTANT | VOLUME,
    "Linear": CONSTANT,
    "AdditiveCouplingTransform": VOLUME,
    "AutoregressiveTransform": frozenset({"autoregressive"}),
}


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a transform or flow, with the event shape from its class if that states one."""
    transform = obj._transform if hasattr(obj, "_distribution") else obj
    shape = event_shape or _base_shape(obj) or _transform_event_shape(transform)
    if shape is None:
        raise unknown_shape(obj)
    return facts_of(
        traits(transform),
        shape,
        _latent_shape(transform, shape),
        _density_promises(obj),
        context_shape=context_shape(obj),
        preprocessing=structure.preprocessing(obj),
        normalizer=of_library(obj, "nflows", structure.BATCH_NORM),
        coupling=structure.coupling(obj, shape),
        squeezing=structure.squeezing(obj),
        multi_scale=structure.multi_scale(obj),
    )


def _density_promises(obj: Any) -> dict[str, Any]:
    """The promises about a flow's base and samples; empty for a transform."""
    if not hasattr(obj, "_distribution"):
        return {}
    return {**base_promises(obj._distribution), "samples-from-base": True}


def traits(obj: Any) -> Traits:
    """The traits of a transform by its class."""
    names = lineage(obj)
    if "CompositeCDFTransform" in names:
        squash = obj._transforms[0]
        ends = _sigmoid(squash, CLAMPED_SPLINE).domain if "Sigmoid" in lineage(squash) else REAL
        return Traits(ends, promises=ELEMENTWISE)
    if "CompositeTransform" in names:
        return compose([traits(part) for part in obj._transforms])
    if "MultiscaleCompositeTransform" in names:
        return _in_levels([traits(part) for part in obj._transforms])
    if "InverseTransform" in names:
        return traits(obj._transform).inverted()
    if "Sigmoid" in names:
        return _sigmoid(obj)
    if "Tanh" in names:
        return Traits(codomain=Support.parse("(-1,1)"), promises=ELEMENTWISE)
    if "LogTanh" in names:
        # Its range is the reals, but its inverse is an exponential that overflows on moderate
        # numbers.
        cut = float(obj.cut_point)
        return Traits(knots=(-cut, cut), promises=ELEMENTWISE)
    if "LeakyReLU" in names:
        return Traits(codomain=REAL, knots=(0.0,), promises=ELEMENTWISE)
    if "CauchyCDF" in names:
        return Traits(codomain=UNIT, promises=ELEMENTWISE)
    promises = class_promises(PROMISES, names)
    if getattr(obj, "unconditional_transform", None) is not None:
        promises -= VOLUME
    if any(name.startswith(("Piecewise", "MaskedPiecewise")) for name in names):
        if any(name.endswith("CDF") for name in names):
            promises |= ELEMENTWISE
        return _spline(obj, promises)
    return Traits(codomain=REAL, promises=promises)


def _in_levels(levels: list[Traits]) -> Traits:
    """Half of the dimensions are factored out after each level, so supports agree only if all levels have
    the same one.
    """
    alike = len({level.domain for level in levels}) == 1
    return Traits(
        levels[0].domain,
        levels[0].codomain if alike else None,
        promises=frozenset.intersection(*(level.promises for level in levels))
        & (VOLUME | CONSTANT),
        declared=alike,
    )


def _sigmoid(obj: Any, margin: float = 1.0) -> Traits:
    """The inverse clamps to [eps, 1 - eps], so that the class is a bijection between this interval and its
    preimage.
    """
    eps = float(obj.eps) * margin
    end = math.log((1 - eps) / eps) / abs(float(obj.temperature.detach()))
    return Traits(Support.parse((-end, end)), Support.parse((eps, 1 - eps)), promises=ELEMENTWISE)


def _spline(obj: Any, promises: frozenset[str]) -> Traits:
    """A spline maps the unit box, unless linear tails extend it beyond [-tail_bound, tail_bound]."""
    linear = any("PiecewiseLinear" in name for name in lineage(obj))
    if getattr(obj, "tails", None) is None:
        low, high, support = 0.0, 1.0, UNIT
    else:
        low, high, support = -float(obj.tail_bound), float(obj.tail_bound), REAL
    knots = {low, high} if support is REAL else set()
    if linear:
        bins = obj.num_bins if hasattr(obj, "num_bins") else obj.unnormalized_pdf.shape[-1]
        knots |= {low + (high - low) * index / bins for index in range(1, int(bins))}
    return Traits(support, support, tuple(sorted(knots)), promises)


def _base_shape(obj: Any) -> Shape | None:
    """The shape of a flow's base, and so of its latents, which transforms seldom change; None if unknown."""
    shape = getattr(getattr(obj, "_distribution", None), "_shape", None)
    return None if shape is None else as_shape(shape)


def _transform_event_shape(obj: Any) -> Shape | None:
    """The event shape in a transform's attributes, or None."""
    names = lineage(obj)
    if "CompositeTransform" in names:
        for part in obj._transforms:
            if shape := _transform_event_shape(part):
                return shape
            if lineage(part) & {"SqueezeTransform", "MultiscaleCompositeTransform"}:
                return None
        return None
    if "InverseTransform" in names:
        return _transform_event_shape(obj._transform)
    if "OneByOneConvolution" in names or any(
        "Conv" in type(module).__name__ for module in obj.modules()
    ):
        return None
    for name in ("unnormalized_pdf", "unnormalized_widths"):
        if hasattr(obj, name):
            return tuple(getattr(obj, name).shape[:-1])
    for name in ("running_mean", "log_scale", "_permutation"):
        if hasattr(obj, name) and getattr(obj, "_dim", 1) == 1:
            return (len(getattr(obj, name)),)
    if hasattr(obj, "_scale") and obj._scale.numel() > 1:
        return tuple(obj._scale.shape)
    if hasattr(obj, "features"):
        return (int(obj.features),)
    if hasattr(obj, "autoregressive_net"):
        return (int(obj.autoregressive_net.initial_layer.in_features),)
    return None


def _latent_shape(obj: Any, shape: Shape) -> Shape:
    names = lineage(obj)
    if "CompositeTransform" in names:
        for part in obj._transforms:
            shape = _latent_shape(part, shape)
        return shape
    if "MultiscaleCompositeTransform" in names:
        return (math.prod(shape),)
    if "SqueezeTransform" in names:
        channels, height, width = shape
        return (channels * obj.factor**2, height // obj.factor, width // obj.factor)
    if "InverseTransform" in names and "SqueezeTransform" in lineage(obj._transform):
        factor = obj._transform.factor
        channels, height, width = shape
        return (channels // factor**2, height * factor, width * factor)
    return shape


def context_shape(obj: Any) -> Shape | None:
    """The context shape of a conditioner or embedding; None if there is none."""
    embedding = getattr(obj, "_embedding_net", None)
    for module in embedding.modules() if embedding is not None else ():
        if hasattr(module, "in_features"):
            return (int(module.in_features),)
    for module in obj.modules():
        if type(module).__name__ == "GatedLinearUnit":
            return (1,)
        if features := conditioner_context(module):
            return features
        if type(module).__name__ == "ConditionalDiagonalNormal":
            encoder = module._context_encoder
            layers = list(encoder.modules()) if hasattr(encoder, "modules") else []
            sizes = [layer.in_features for layer in layers if hasattr(layer, "in_features")]
            return (int(sizes[0]) if sizes else 2 * math.prod(module._shape),)
    return None
