"""Facts of flowref's reference layers: event shapes, supports and promises."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

from flowref.adapters.common.bases import base_promises
from flowref.adapters.common.normalizers import shapes, spellings
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE, VOLUME, class_promises
from flowref.adapters.common.shapes import unknown_shape
from flowref.adapters.common.torch_supports import interval
from flowref.adapters.common.traits import Traits, compose, facts_of
from flowref.adapters.reference import structure
from flowref.model import REAL, Facts, Kernel, Preprocessing, Shape, Support

PROMISES: dict[str, frozenset[str]] = {
    "ActNorm": ELEMENTWISE | CONSTANT,
    "AdditiveCoupling": VOLUME,
    "Affine": CONSTANT | {"elementwise"},
    "ElementwiseCDF": ELEMENTWISE,
    "Exp": ELEMENTWISE,
    "InvertibleBatchNorm": CONSTANT | {"elementwise"},
    "InvertibleConv1x1": CONSTANT,
    "MaskedConvolution": CONSTANT,
    "PeriodicConvolution": CONSTANT,
    "Spline": ELEMENTWISE,
    "Logit": ELEMENTWISE,
    "Permute": VOLUME | CONSTANT,
    "Rosenblatt": frozenset({"autoregressive"}),
    "Squeeze": VOLUME | CONSTANT,
}
# Maps with nonzero second derivative, and maps without branches on values.
SMOOTH = {"ElementwiseCDF", "Exp", "Logit", "RealNVP", "Rosenblatt", "Sigmoid"}
MAPPED = {
    "ActNorm", "AdditiveCoupling", "Affine", "AffineCoupling", "InvertibleBatchNorm", "Permute",
    "Reverse", "Squeeze",
}  # fmt: skip


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a reference layer, with the event shape that it states or implies."""
    if spellings.is_normalizer(obj):
        # By default an event is an image with its channels.
        image = event_shape or shapes.first_taken(obj) or (obj.num_features,)
        facts = shapes.facts(obj, image)
        if not callable(getattr(obj, "inverse", None)):
            return facts
        assert facts.normalizer is not None
        promises = dict.fromkeys(sorted(PROMISES["InvertibleBatchNorm"]), True)
        return replace(
            facts, promises=promises, normalizer=replace(facts.normalizer, statistics=obj.stats)
        )
    if lineage(obj) & {"Exponential", "Atoms"}:
        return _univariate(obj)
    if "TokenDiffusion" in lineage(obj):
        within = interval(0.0, float(obj.tokens))
        return Facts(event_shape=(obj.length,), domain=within, promises={"atoms": "exact"})
    shape = event_shape or _layer_event_shape(obj)
    if shape is None:
        raise unknown_shape(obj)
    if "Dequantize" in lineage(obj):
        return Facts(event_shape=shape, preprocessing=Preprocessing(0.0, float(obj.bins), obj.bins))
    if "GaussianLatentModel" in lineage(obj):
        return Facts(event_shape=shape)
    if "Kernel" in lineage(obj):
        return _kernel(obj, shape)
    if "KernelFlow" in lineage(obj):
        drawn = {"lower-bound": "one-sample", "estimator": True} if obj.lower_bound else {}
        return Facts(event_shape=shape, promises=drawn)
    return facts_of(
        traits(obj),
        shape,
        _latent(obj, shape),
        _promises_of_object(obj),
        preprocessing=structure.preprocessing(obj),
        squeezing=structure.squeezing(obj),
        multi_scale=structure.multi_scale(obj),
        coupling=structure.coupling(obj, shape),
    )


def _univariate(obj: Any) -> Facts:
    """The facts of a univariate distribution."""
    if "Atoms" in lineage(obj):
        return Facts(event_shape=(), promises={"atoms": "exact"})
    return Facts(
        event_shape=(),
        domain=Support.parse("positive"),
        promises={"exponential-rate": float(obj.rate.detach())},
    )


def _promises_of_object(obj: Any) -> dict[str, Any]:
    """Promises about calls, and of densities or maps with a closed form."""
    solved = solved_to(obj)
    return conduct(obj) | _closed_forms(obj) | ({"log-det-tolerance": solved} if solved else {})


def solved_to(obj: Any) -> float:
    """The log-det tolerance, summed over parts; 0 without a solver."""
    names = lineage(obj)
    if "CNF" in names:
        return 100 * float(obj.tolerance)
    if names & {"Flow", "Inverse"}:
        return solved_to(obj.bijection)
    return sum(map(solved_to, obj)) if "Chain" in names else 0.0


def conduct(obj: Any) -> dict[str, Any]:
    """Promises about calls of a layer."""
    names = lineage(obj)
    return {
        "empty-batch": True,
        "ddp": True,
        "compile": True,
        **({"double-backward": True} if names & SMOOTH else {}),
        **({"vmap": True} if names & MAPPED else {}),
    }


def _closed_forms(obj: Any) -> dict[str, Any]:
    names = lineage(obj)
    if "Rosenblatt" in names:
        # Facts are read from a float32 copy.
        factor = obj.factor.double()
        gaussian = {
            "mean": obj.mean.tolist(),
            "covariance": (factor @ factor.mT).tolist(),
            "precision": 1e-5,
        }
        return {"rosenblatt": gaussian}
    if "Residual" in names:
        return {"contraction": obj.lipschitz}
    if "Flow" in names:
        # Levels have distance one by default.
        return {**base_promises(obj.base), "samples-from-base": True, "rsample": True, "level": 1.0}
    return {}


def traits(obj: Any) -> Traits:
    """The traits of a layer's map, by its class."""
    names = lineage(obj)
    promises = class_promises(PROMISES, names)
    if "Flow" in names:
        return traits(obj.bijection)
    if "Chain" in names:
        return compose([traits(layer) for layer in obj])
    if "RealNVP" in names:
        return compose([traits(obj.preprocessing), traits(obj.scales)])
    if "Inverse" in names:
        return traits(obj.bijection).inverted()
    if "Logit" in names:
        return Traits(Support.parse(obj.domain), REAL, promises=promises)
    if "ElementwiseCDF" in names:
        return Traits(interval(*obj.domain), Support.parse("unit"), promises=promises)
    if "Rosenblatt" in names:
        return Traits(codomain=Support.parse("unit"), promises=promises)
    if "Exp" in names:
        return Traits(codomain=Support.parse("positive"), promises=promises)
    if "SplineLayer" in names:
        return _spline(obj, promises | _ordered(obj))
    if "CNF" in names:
        return Traits(codomain=REAL, promises=promises, tolerance=100 * obj.tolerance)
    if "Residual" in names:
        if not obj.log_det.exact:
            promises |= {"estimator", "unbiased-log-det"} if obj.log_det.unbiased else {"estimator"}
        return Traits(codomain=REAL, promises=promises, tolerance=obj.tolerance)
    if "MaskedAutoregressive" in names:
        return Traits(codomain=REAL, promises=promises | _ordered(obj))
    return Traits(codomain=REAL, promises=promises)


def _spline(obj: Any, promises: frozenset[str]) -> Traits:
    """The traits of a spline on a box, or with identity outside."""
    if obj.tails is None:
        box = interval(-obj.bound, obj.bound)
        return Traits(box, box, promises=promises)
    return Traits(codomain=REAL, knots=(-obj.bound, obj.bound), promises=promises)


def _ordered(obj: Any) -> frozenset[str]:
    """Promises of maps whose entries depend on earlier ones only, in the given order."""
    order = getattr(obj, "order", None)
    standing = order is not None and tuple(order) == tuple(range(len(order)))
    return frozenset({"autoregressive"}) if standing else frozenset()


def _kernel(obj: Any, shape: Shape) -> Facts:
    """The facts of a stochastic layer."""
    meaning = "path-weight" if lineage(obj) & {"Metropolis", "Langevin"} else "contribution"
    domain, codomain = _sides(obj)
    return Facts(
        event_shape=shape,
        latent_shape=tuple(obj.latent_shape(shape)),
        domain=domain,
        codomain=codomain,
        kernel=Kernel((obj.stochastic_forward, obj.stochastic_inverse), meaning),
    )


def _sides(obj: Any) -> tuple[Support, Support | None]:
    """The supports of a layer's data and latents."""
    names = lineage(obj)
    if "Reversed" in names:
        domain, codomain = _sides(obj.kernel)
        return codomain or REAL, domain
    if "KernelChain" in names:
        layers = [_sides(one) if "Kernel" in lineage(one) else (REAL, REAL) for one in obj.layers]
        onto = all(before[1] == after[0] for before, after in pairwise(layers))
        return layers[0][0], layers[-1][1] if onto else None
    if "Abs" in names:
        return REAL, Support.parse("positive")
    if "Sort" in names:
        return REAL, Support.parse("ordered")
    return REAL, REAL


def _latent(obj: Any, shape: Shape) -> Shape:
    """The latent shape for an event shape."""
    names = lineage(obj)
    if "Flow" in names:
        return _latent(obj.bijection, shape)
    if "Chain" in names:
        for layer in obj:
            shape = _latent(layer, shape)
        return shape
    if "RealNVP" in names or "MultiScale" in names:
        return (math.prod(shape),)
    if "Squeeze" in names:
        channels, height, width = shape
        return (4 * channels, height // 2, width // 2)
    # Layers that change the shape come before their reversal.
    return shape


def _layer_event_shape(obj: Any) -> Shape | None:
    """The event shape implied by layers, in order; None if unknown."""
    names = lineage(obj)
    if "Flow" in names:
        return _layer_event_shape(obj.bijection) or tuple(obj.base.event_shape)
    if "KernelFlow" in names:
        return tuple(obj.kernel.event_shape(tuple(obj.base.event_shape)))
    if "RealNVP" in names:
        return tuple(obj.event_shape)
    if "Inverse" in names:
        return _layer_event_shape(obj.bijection)
    if "Chain" in names:
        return next(
            (shape for layer in obj if (shape := _layer_event_shape(layer)) is not None), None
        )
    if "Permute" in names:
        return (len(obj.order),)
    if "Spline" in names:
        return tuple(obj.event_shape)
    if names & {"MaskedAutoregressive", "AutoregressiveSpline"}:
        return (obj.features,)
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
