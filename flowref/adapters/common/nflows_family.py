"""What nflows and its bundled copies share: how their objects are called, and the facts that their
classes tell.

Nothing here imports a library: classes are known by name, so one file serves every copy of the
package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from flowref.adapters.common import couplings, multi_scales
from flowref.adapters.common.bases import base_promises
from flowref.adapters.common.batch_norms import of_library
from flowref.adapters.common.described import lineage
from flowref.model import REAL, Facts, Normalizer, Preprocessing, Shape, Support, TargetError

UNIT = Support.parse("unit")

# A loss of three digits to the spline between the two clamped sigmoids is allowed for.
CLAMPED_SPLINE = 1e3


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    """Call a transform."""
    return obj(x, context)


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    """Call a transform backwards."""
    return obj.inverse(y, context)


def parts(obj: Any) -> Any:
    """List the transforms that a composite applies."""
    return [
        (f"{index}.{type(part).__name__}", part)
        for index, part in enumerate(getattr(obj, "_transforms", ()))
    ]


def repair(obj: Any) -> None:
    """Forget cached weights, as a return to train mode would."""
    for module in obj.modules():
        if hasattr(module, "using_cache"):
            module.cache.invalidate()


def flow_forward(obj: Any, x: Any, context: Any = None) -> Any:
    """Map data to latents."""
    return obj._transform(x, context=obj._embedding_net(context))


def flow_inverse(obj: Any, z: Any, context: Any = None) -> Any:
    """Map latents to data."""
    return obj._transform.inverse(z, context=obj._embedding_net(context))


def flow_log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    """The log-density of data."""
    return obj.log_prob(x, context=context)


def flow_base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    """The log-density of latents."""
    return obj._distribution.log_prob(z, context=obj._embedding_net(context))


def flow_sample(obj: Any, n: int, context: Any = None) -> Any:
    """Draw data, evenly over the contexts if there are any."""
    if context is None:
        return obj.sample(n)
    draws = obj.sample(n // len(context), context=context)
    return draws.reshape(n, *draws.shape[2:])


def flow_base_sample(obj: Any, n: int, context: Any = None) -> Any:
    """Draw the noise that samples are made of."""
    return obj._distribution.sample(n)


def flow_parts(obj: Any) -> Any:
    """List the transforms that a flow applies to data."""
    transforms = getattr(obj._transform, "_transforms", [obj._transform])
    return [(f"{index}.{type(part).__name__}", part) for index, part in enumerate(transforms)]


@dataclass(frozen=True)
class _Map:
    """What one transform's class tells of its map."""

    domain: Support = REAL
    codomain: Support | None = REAL
    knots: tuple[float, ...] = ()
    promises: frozenset[str] = frozenset()
    declared: bool = True


ELEMENTWISE = frozenset({"elementwise", "monotone"})
LINEAR = frozenset({"constant-jacobian"})
VOLUME = frozenset({"volume-preserving"})
JOINT = ("volume-preserving", "constant-jacobian", "elementwise", "monotone")

TRAITS: dict[str, frozenset[str]] = {
    "IdentityTransform": ELEMENTWISE | LINEAR | VOLUME,
    "PointwiseAffineTransform": ELEMENTWISE | LINEAR,
    "BatchNorm": ELEMENTWISE | LINEAR,
    "ActNorm": ELEMENTWISE | LINEAR,
    "GatedLinearUnit": ELEMENTWISE,
    "Permutation": LINEAR | VOLUME,
    "SqueezeTransform": LINEAR | VOLUME,
    "HouseholderSequence": LINEAR | VOLUME,
    "Linear": LINEAR,
    "AdditiveCouplingTransform": VOLUME,
    "AutoregressiveTransform": frozenset({"autoregressive"}),
}

# The weight is computed from an unconstrained one. Its documentation says nothing of conventions.
BATCH_NORM = Normalizer(
    roles={
        name: name for name in ("weight", "bias", "running_mean", "running_var", "eps", "momentum")
    },
)


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a transform or flow, its event shape inferred where the class tells it."""
    transform = obj._transform if hasattr(obj, "_distribution") else obj
    shape = event_shape or _base_shape(obj) or _event(transform)
    if shape is None:
        raise TargetError(
            f"{type(obj).__name__} does not tell the shape of its events; give it, as in ?event=4 "
            "or ?event=4,4,4"
        )
    seen = _seen(transform)
    return Facts(
        event_shape=shape,
        latent_shape=_latent(transform, shape),
        domain=seen.domain,
        codomain=seen.codomain,
        declared=seen.declared,
        context_shape=_context(obj),
        knots=seen.knots,
        promises={**dict.fromkeys(sorted(seen.promises), True), **_density_promises(obj)},
        preprocessing=_preprocessing(obj),
        normalizer=of_library(obj, "nflows", BATCH_NORM),
        coupling=couplings.of_library(obj, shape, "nflows", "glasflow"),
        squeezing=multi_scales.squeezing(obj),
        multi_scale=multi_scales.multi_scale(obj),
    )


def _density_promises(obj: Any) -> dict[str, Any]:
    """What the base of a flow is, and that samples are its noise taken through the inverse; nothing
    for a transform.
    """
    if not hasattr(obj, "_distribution"):
        return {}
    return {**base_promises(obj._distribution), "samples-from-base": True}


def _preprocessing(obj: Any) -> Preprocessing | None:
    """A logit of numbers between zero and one, at the temperature that is the default."""
    if "Logit" not in lineage(obj) or float(obj._transform.temperature.detach()) != 1:
        return None
    return Preprocessing()


def _seen(obj: Any) -> _Map:
    names = lineage(obj)
    if "CompositeCDFTransform" in names:
        squash = obj._transforms[0]
        ends = _sigmoid(squash, CLAMPED_SPLINE).domain if "Sigmoid" in lineage(squash) else REAL
        return _Map(ends, None, promises=ELEMENTWISE)
    if "CompositeTransform" in names:
        return _composed([_seen(part) for part in obj._transforms])
    if "MultiscaleCompositeTransform" in names:
        # Halves of the dimensions leave after each level, so supports agree only where every level
        # has the same one.
        levels = [_seen(part) for part in obj._transforms]
        alike = len({level.domain for level in levels}) == 1
        joint = frozenset(
            name for name in JOINT[:2] if all(name in level.promises for level in levels)
        )
        return _Map(
            levels[0].domain, levels[0].codomain if alike else None, promises=joint, declared=alike
        )
    if "InverseTransform" in names:
        inner = _seen(obj._transform)
        return _Map(
            inner.codomain or REAL, inner.domain, (), inner.promises, inner.codomain is not None
        )
    if "Sigmoid" in names:
        return _sigmoid(obj)
    if "Tanh" in names:
        return _Map(codomain=Support.parse("(-1,1)"), promises=ELEMENTWISE)
    if "LogTanh" in names:
        # Onto the reals, but its inverse is an exponential, which overflows on moderate numbers.
        cut = float(obj.cut_point)
        return _Map(codomain=None, knots=(-cut, cut), promises=ELEMENTWISE)
    if "LeakyReLU" in names:
        return _Map(knots=(0.0,), promises=ELEMENTWISE)
    if "CauchyCDF" in names:
        return _Map(codomain=UNIT, promises=ELEMENTWISE)
    promises = frozenset().union(*(traits for name, traits in TRAITS.items() if name in names))
    if getattr(obj, "unconditional_transform", None) is not None:
        promises -= VOLUME
    if any(name.startswith(("Piecewise", "MaskedPiecewise")) for name in names):
        if any(name.endswith("CDF") for name in names):
            promises |= ELEMENTWISE
        return _spline(obj, promises)
    return _Map(promises=promises)


def _sigmoid(obj: Any, margin: float = 1.0) -> _Map:
    """The inverse clamps to [eps, 1 - eps], so the class is a bijection between the preimage of
    that and that.
    """
    eps = float(obj.eps) * margin
    end = math.log((1 - eps) / eps) / abs(float(obj.temperature.detach()))
    return _Map(Support.parse((-end, end)), Support.parse((eps, 1 - eps)), promises=ELEMENTWISE)


def _spline(obj: Any, promises: frozenset[str]) -> _Map:
    """A spline lives on the unit box, unless linear tails continue it beyond [-tail_bound,
    tail_bound].
    """
    linear = any("PiecewiseLinear" in name for name in lineage(obj))
    if getattr(obj, "tails", None) is None:
        low, high, support = 0.0, 1.0, UNIT
    else:
        low, high, support = -float(obj.tail_bound), float(obj.tail_bound), REAL
    knots = {low, high} if support is REAL else set()
    if linear:
        bins = obj.num_bins if hasattr(obj, "num_bins") else obj.unnormalized_pdf.shape[-1]
        knots |= {low + (high - low) * place / bins for place in range(1, int(bins))}
    return _Map(support, support, tuple(sorted(knots)), promises)


def _composed(maps: Sequence[_Map]) -> _Map:
    """The composition, first map first; its supports are known only where each codomain is the next
    domain.
    """
    if not maps:
        return _Map(promises=ELEMENTWISE | LINEAR | VOLUME)
    fits = all(first.codomain == second.domain for first, second in pairwise(maps))
    promises = {name for name in JOINT if all(name in one.promises for one in maps)}
    ordered = [one.promises & {"autoregressive", "elementwise"} for one in maps]
    if all(ordered) and any("autoregressive" in one for one in ordered):
        promises.add("autoregressive")
    return _Map(
        domain=maps[0].domain,
        codomain=maps[-1].codomain if fits else None,
        knots=maps[0].knots,
        promises=frozenset(promises),
        declared=all(one.declared for one in maps)
        and all(_inside(first.codomain, second.domain) for first, second in pairwise(maps)),
    )


def _inside(codomain: Support | None, domain: Support) -> bool:
    """Whether what one map returns is surely where the next one is defined."""
    return domain == REAL or (
        codomain is not None and domain.low <= codomain.low and codomain.high <= domain.high
    )


def _base_shape(obj: Any) -> Shape | None:
    """The shape of a flow's base distribution, that of its latents, which its transforms seldom
    change.
    """
    shape = getattr(getattr(obj, "_distribution", None), "_shape", None)
    return tuple(int(size) for size in shape) if shape is not None else None


def _event(obj: Any) -> Shape | None:
    """The event shape that a transform's own attributes tell, or None."""
    names = lineage(obj)
    if "CompositeTransform" in names:
        for part in obj._transforms:
            if found := _event(part):
                return found
            if lineage(part) & {"SqueezeTransform", "MultiscaleCompositeTransform"}:
                return None
        return None
    if "InverseTransform" in names:
        return _event(obj._transform)
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


def _latent(obj: Any, shape: Shape) -> Shape:
    """The shape of ``forward``'s outputs for events of a shape."""
    names = lineage(obj)
    if "CompositeTransform" in names:
        for part in obj._transforms:
            shape = _latent(part, shape)
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


def _context(obj: Any) -> Shape | None:
    """The shape of one context, where a conditioner or an embedding tells that it takes one."""
    embedding = getattr(obj, "_embedding_net", None)
    for module in embedding.modules() if embedding is not None else ():
        if hasattr(module, "in_features"):
            return (int(module.in_features),)
    for module in obj.modules():
        if type(module).__name__ == "GatedLinearUnit":
            return (1,)
        if isinstance(getattr(module, "context_features", None), int):
            return (int(module.context_features),)
        if hasattr(getattr(module, "context_layer", None), "in_features"):
            return (int(module.context_layer.in_features),)
        if type(module).__name__ == "ConditionalDiagonalNormal":
            encoder = module._context_encoder
            layers = list(encoder.modules()) if hasattr(encoder, "modules") else []
            sizes = [layer.in_features for layer in layers if hasattr(layer, "in_features")]
            return (int(sizes[0]) if sizes else 2 * math.prod(module._shape),)
    return None
