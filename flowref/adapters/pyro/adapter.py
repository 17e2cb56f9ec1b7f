"""Pyro: transform modules, whose forward call maps latents to data, conditional ones, and densities
over them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common import couplings, torch_dialects
from flowref.adapters.common.bases import base_promises
from flowref.adapters.common.batch_norms import of_library
from flowref.adapters.common.described import described, lineage
from flowref.adapters.common.torch_transforms import (
    CONSTANT,
    ELEMENTWISE,
    INVERSES,
    VOLUME,
    Traits,
    composed,
    declared_traits,
    distribution_facts,
    event_of,
    facts_of,
    settled,
    transform_facts,
    unknown_shape,
)
from flowref.adapters.pyro import constructions
from flowref.model import REAL, Adapter, Component, Dialect, Facts, Normalizer, Shape, TargetError


def conditional_forward(obj: Any, x: Any, context: Any = None) -> Any:
    transform = obj.condition(context)
    y = transform(x)
    return y, transform.log_abs_det_jacobian(x, y)


def conditional_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    transform = obj.condition(context).inv
    x = transform(y)
    return x, transform.log_abs_det_jacobian(y, x)


def chain(parts: Sequence[Any]) -> Any:
    from pyro.distributions import torch_transform

    compose: Any = torch_transform.ComposeTransformModule
    return compose(list(parts))


def rsample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.rsample((n,))


def rescale(obj: Any, factor: float) -> Any:
    from pyro.distributions import TransformedDistribution
    from torch.distributions import AffineTransform

    return TransformedDistribution(obj, [AffineTransform(0.0, factor)])


def conditional_log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.condition(context).log_prob(x)


def conditional_sample(obj: Any, n: int, context: Any = None) -> Any:
    # One context per sample, so that the base distribution is drawn once for each.
    return obj.condition(context).sample((n,))


TRANSFORM = replace(torch_dialects.TRANSFORM, chain=chain)
# Without an inverse the one call there is does the warming up.
ONE_WAY = Dialect(forward=torch_dialects.forward, chain=chain)
CONDITIONAL = Dialect(
    forward=conditional_forward, inverse=conditional_inverse, normalizing="inverse"
)
CONDITIONAL_ONE_WAY = Dialect(forward=conditional_forward)
DENSITY = replace(torch_dialects.DENSITY, rescale=rescale)
CONDITIONAL_DENSITY = Dialect(log_prob=conditional_log_prob, sample=conditional_sample)
FLOW = replace(torch_dialects.FLOW, rsample=rsample, rescale=rescale)

# Their inverse raises, except for an output that the same object has just computed.
NO_INVERSE = (
    "Planar",
    "Radial",
    "Sylvester",
    "Polynomial",
    "BlockAutoregressive",
    "NeuralAutoregressive",
)
# A truncated power series: below this many terms its documented error is larger than rounding.
TERMS = 48
STRAIGHT = frozenset({"straight-through"})
PROMISES: dict[str, frozenset[str]] = {
    "BatchNorm": CONSTANT | ELEMENTWISE,
    # Scales are clamped in the forward pass and not in the backward pass, on purpose.
    "AffineAutoregressive": STRAIGHT | {"batch-dims"},
    "AffineCoupling": STRAIGHT | {"batch-dims"},
    **dict.fromkeys(
        ("ConditionedHouseholder", "Permute", "DiscreteCosineTransform", "HaarTransform"),
        VOLUME | {"batch-dims"},
    ),
    **dict.fromkeys(
        ("ConditionedGeneralizedChannelPermute", "LowerCholeskyAffine"), CONSTANT | {"batch-dims"}
    ),
    "ConditionedMatrixExponential": CONSTANT,
    **dict.fromkeys(
        (
            "ConditionedSpline",
            "PositivePowerTransform",
            "SoftplusTransform",
            "ELUTransform",
            "LeakyReLUTransform",
        ),
        ELEMENTWISE | {"batch-dims"},
    ),
    **dict.fromkeys(
        ("OrderedTransform", "SplineAutoregressive", "SplineCoupling"), frozenset({"batch-dims"})
    ),
    **dict.fromkeys(
        ("ConditionedPlanar", "ConditionedRadial", "Polynomial"), frozenset({"batch-dims"})
    ),
}
VECTORS = frozenset({"Planar", "Radial", "Householder", "MatrixExponential", "LowerCholeskyAffine"})
TORCH_ELEMENTWISE = ("ExpTransform", "SigmoidTransform", "SoftplusTransform", "TanhTransform")


def traits(transform: Any) -> Traits:
    """What is known of a transform."""
    names = lineage(transform)
    if names & INVERSES:
        return traits(transform.inv).inverted()
    if "ComposeTransform" in names:
        return composed([traits(part) for part in transform.parts])
    if "IndependentTransform" in names:
        return traits(transform.base_transform)
    if getattr(transform, "stable", False):
        names -= {"AffineAutoregressive"}
    if "Sylvester" in names:  # a Householder transform by inheritance only
        names -= {"Householder", "ConditionedHouseholder"}
    promises = frozenset[str]().union(*(PROMISES[name] for name in names & set(PROMISES)))
    if names & set(TORCH_ELEMENTWISE):
        promises |= ELEMENTWISE | {"batch-dims"}
    if getattr(transform, "stable", False):
        promises |= {"batch-dims"}
    if _ordered(transform, names):
        promises |= {"autoregressive"}
    if "ConditionedMatrixExponential" in names and transform.iterations < TERMS:
        promises |= {"estimator"}
    known = declared_traits(transform, promises)
    if "ELUTransform" in names:  # declared onto the positive numbers, where it maps onto (-1, inf)
        return replace(known, codomain=None)
    if "LeakyReLUTransform" in names:
        return replace(known, knots=(0.0,))
    bound = _bound(transform, names)
    if bound:
        return replace(known, knots=(-bound, bound))
    return replace(known, codomain=None) if one_way(transform) else known


def _ordered(transform: Any, names: set[str]) -> bool:
    """Whether coordinates depend on those before them, in their own order."""
    if "BlockAutoregressive" in names:
        return True
    order = getattr(getattr(transform, "arn", None), "permutation", None)
    return order is not None and order.tolist() == list(range(len(order)))


def _bound(transform: Any, names: set[str]) -> float:
    for inner in (
        transform,
        *(getattr(transform, name, None) for name in ("spline", "lower_spline")),
    ):
        if names & {"ConditionedSpline", "SplineAutoregressive", "SplineCoupling"} and hasattr(
            inner, "bound"
        ):
            return float(inner.bound)
    return 0.0


def one_way(transform: Any) -> bool:
    """Whether a transform, conditional or not, has no inverse to speak of."""
    names = {
        name.removeprefix("Conditional").removeprefix("Conditioned") for name in lineage(transform)
    }
    if "MatrixExponential" in names:
        return int(getattr(transform, "iterations", 0)) < TERMS
    if names & (INVERSES | {"_ConditionalInverseTransformModule"}):
        return one_way(transform.inv)
    return bool(names & set(NO_INVERSE)) or any(
        one_way(part) for part in getattr(transform, "parts", ())
    )


def own_event(transform: Any) -> Shape | None:
    """The event shape that a class of this library tells."""
    names = {
        name.removeprefix("Conditional").removeprefix("Conditioned") for name in lineage(transform)
    }
    net: Any = getattr(transform, "nn", None)
    if "SplineCoupling" in names:
        return (int(transform.split_dim + transform.upper_spline.input_dim),)
    if "AffineCoupling" in names:
        known = (
            getattr(
                transform,
                "dim",
                transform.kwargs.get("dim", -1) if hasattr(transform, "kwargs") else -1,
            )
            == -1
        )
        dims = getattr(net, "param_dims", None)
        return (int(transform.split_dim + dims[0]),) if known and dims is not None else None
    if names & {"Planar", "Radial"} and hasattr(net, "param_dims"):
        return (int(max(net.param_dims)),)
    # An ordinary network, whose input is a context, tells nothing of the events.
    for holder in (
        transform,
        getattr(transform, "arn", None),
        net if getattr(net, "context_dim", 0) else None,
    ):
        size: Any = getattr(holder, "input_dim", None)
        if isinstance(size, int):
            return (size,)
    for name in ("u", "x0", "u_unnormed", "weights", "loc"):
        value: Any = getattr(transform, name, None)
        if hasattr(value, "shape") and names & VECTORS:
            return (int(value.shape[-1]),)
    if "Permute" in names and transform.dim == -1:
        return (len(transform.permutation),)
    return None


# The inverse normalizes, as densities ask for latents. Its documentation says nothing of
# conventions.
BATCH_NORM = Normalizer(
    call="inverse",
    roles={
        "weight": "constrained_gamma",
        "bias": "beta",
        "running_mean": "moving_mean",
        "running_var": "moving_variance",
        "eps": "epsilon",
        "momentum": "momentum",
    },
)


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a user's transform, conditional transform or density."""
    return settled(_describe(obj, event_shape))


def _describe(obj: Any, event_shape: Shape | None) -> Facts:
    names = lineage(obj)
    if names & {"ConditionalTransform", "ConditionalDistribution"}:
        return _conditional_facts(obj, event_shape)
    if "Distribution" in names:
        facts = distribution_facts(obj, event_shape)
        if recognizes(obj) is not FLOW:
            return facts
        known = composed([traits(one) for one in obj.transforms])
        whole = chain(obj.transforms)
        mapped = transform_facts(whole, facts.event_shape, known)
        extra = {
            **base_promises(obj.base_dist),
            "samples-from-base": True,
            "rsample": bool(obj.has_rsample),
        }
        return replace(
            mapped, latent_shape=facts.event_shape, promises={**mapped.promises, **extra}
        )
    facts = transform_facts(obj, event_shape or event_of(obj, own_event), traits(obj))
    coupling = couplings.of_library(obj, facts.event_shape, "pyro")
    return replace(facts, normalizer=of_library(obj, "pyro", BATCH_NORM), coupling=coupling)


def _conditional_facts(obj: Any, event: Shape | None) -> Facts:
    """The facts of a conditional object, those of what it gives for a context of zeros."""
    import torch

    if "ConditionalDistribution" in lineage(obj):
        sizes = {size for one in obj.transforms if (size := _context_size(one))}
        inner = next((found for one in obj.transforms if (found := own_event(one))), event)
    else:
        sizes, inner = {size for size in (_context_size(obj),) if size}, event or own_event(obj)
    if len(sizes) != 1:
        raise TargetError(
            f"{type(obj).__name__} does not tell the size of its context; wrap it as a module "
            "whose forward takes one"
        )
    if inner is None:
        raise unknown_shape(obj)
    context = (sizes.pop(),)
    if "ConditionalDistribution" in lineage(obj):
        return facts_of(Traits(), inner, inner, context=context)
    parameter = next(iter(obj.parameters()), torch.zeros(()))
    conditioned = obj.condition(torch.zeros(1, *context, dtype=parameter.dtype))
    known = traits(conditioned)
    if "volume-preserving" not in known.promises:  # constant in x, and different for each context
        known = replace(known, promises=known.promises - {"constant-jacobian"})
    return transform_facts(conditioned, inner, known, context)


def _context_size(obj: Any) -> int:
    for inner in obj.modules() if hasattr(obj, "modules") else ():
        if isinstance(getattr(inner, "context_dim", None), int) and inner.context_dim:
            return int(inner.context_dim)
    # A conditional transform whose parameters depend on nothing but the context reads it with an
    # ordinary network.
    size: Any = getattr(getattr(obj, "nn", None), "input_dim", None)
    return size if isinstance(size, int) else 0


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a bijective transform, conditional or not, or of a density, or None."""
    from pyro.distributions.conditional import ConditionalDistribution, ConditionalTransform
    from torch.distributions import Distribution, Transform

    if isinstance(obj, ConditionalTransform):
        return CONDITIONAL_ONE_WAY if one_way(obj) else CONDITIONAL
    if isinstance(obj, ConditionalDistribution):
        return CONDITIONAL_DENSITY
    if isinstance(obj, Transform):
        return (ONE_WAY if one_way(obj) else TRANSFORM) if obj.bijective else None
    if isinstance(obj, Distribution):
        return FLOW if _on_the_line(obj) else DENSITY
    return None


def _on_the_line(obj: Any) -> bool:
    """Whether data and latents have one shape and live on the whole line, so that which is which
    matters to no one.
    """
    transforms = getattr(obj, "transforms", None)
    if not transforms or obj.event_shape != obj.base_dist.event_shape or len(obj.batch_shape):
        return False
    known = composed([traits(one) for one in transforms])
    return known.domain == REAL and known.codomain == REAL and known.declared


def components() -> Mapping[str, Component]:
    """The transforms of the library, and densities over some of them."""
    found = {}
    for name, (build, event) in constructions.transforms().items():
        dialect = (
            ONE_WAY
            if name.partition("[")[0] in NO_INVERSE or name == "MatrixExponential"
            else TRANSFORM
        )
        found[name] = described(name, build, dialect, _describe, event)
    for name, build in constructions.conditionals().items():
        dialect = (
            CONDITIONAL_ONE_WAY if name.removeprefix("Conditional") in NO_INVERSE else CONDITIONAL
        )
        found[name] = described(name, build, dialect, _describe)
    for name, build in constructions.densities().items():
        found[name] = described(name, build, DENSITY if "exp" in name else FLOW, _describe)
    return found


ADAPTER = Adapter(
    name="pyro",
    package="pyro",
    title="Pyro",
    components=components,
    recognizes=recognizes,
    describe=describe,
)
