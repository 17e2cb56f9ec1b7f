"""Facts of Pyro classes: event shapes and contexts, supports and promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flowref.adapters.common.normalizers.spellings import of_library
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE, VOLUME, class_promises
from flowref.adapters.common.shapes import unknown_shape
from flowref.adapters.common.torch_transforms import (
    INVERSES,
    declared_traits,
    distribution_facts,
    flow_facts,
    on_the_line,
    rebuilt,
    traits_by_parts,
    transform_event_shape,
    transform_facts,
)
from flowref.adapters.common.traits import Traits, facts_of
from flowref.adapters.pyro import structure
from flowref.model import Facts, Shape, TargetError

# Their inverse raises, except for an output that the same object has just computed.
NO_INVERSE = (
    "Planar",
    "Radial",
    "Sylvester",
    "Polynomial",
    "BlockAutoregressive",
    "NeuralAutoregressive",
)
# A truncated power series: with fewer terms its documented error exceeds rounding.
TERMS = 48
STRAIGHT = frozenset({"straight-through"})
PROMISES: dict[str, frozenset[str]] = {
    "BatchNorm": CONSTANT | ELEMENTWISE,
    # Scales are clamped in the forward pass and not in the backward pass, on purpose.
    "AffineAutoregressive": STRAIGHT | {"batch-dims"},
    "AffineCoupling": STRAIGHT | {"batch-dims"},
    **dict.fromkeys(
        ("ConditionedHouseholder", "Permute", "DiscreteCosineTransform", "HaarTransform"),
        VOLUME | CONSTANT | {"batch-dims"},
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
    """The traits of a transform."""
    whole = traits_by_parts(transform, traits)
    if whole is not None:
        return whole
    names = lineage(transform)
    if getattr(transform, "stable", False):
        names -= {"AffineAutoregressive"}
    if "Sylvester" in names:  # a Householder transform by inheritance only
        names -= {"Householder", "ConditionedHouseholder"}
    promises = class_promises(PROMISES, names)
    if names & set(TORCH_ELEMENTWISE):
        promises |= ELEMENTWISE | {"batch-dims"}
    if getattr(transform, "stable", False):
        promises |= {"batch-dims"}
    if _is_autoregressive(transform, names):
        promises |= {"autoregressive"}
    if "ConditionedMatrixExponential" in names and transform.iterations < TERMS:
        promises |= {"estimator"}
    alone = declared_traits(transform, promises)
    if "ELUTransform" in names:  # declared onto the positive numbers, but its range is (-1, inf)
        return replace(alone, codomain=None)
    if "LeakyReLUTransform" in names:
        return replace(alone, knots=(0.0,))
    bound = _spline_bound(transform, names)
    if bound:
        return replace(alone, knots=(-bound, bound))
    return replace(alone, codomain=None) if one_way(transform) else alone


def _is_autoregressive(transform: Any, names: set[str]) -> bool:
    if "BlockAutoregressive" in names:
        return True
    order = getattr(getattr(transform, "arn", None), "permutation", None)
    return order is not None and order.tolist() == list(range(len(order)))


def _spline_bound(transform: Any, names: set[str]) -> float:
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
    """Whether a transform, conditional or not, has no general inverse."""
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
    """The event shape that a class of this library states."""
    names = {
        name.removeprefix("Conditional").removeprefix("Conditioned") for name in lineage(transform)
    }
    net: Any = getattr(transform, "nn", None)
    if "SplineCoupling" in names:
        return (int(transform.split_dim + transform.upper_spline.input_dim),)
    if "AffineCoupling" in names:
        dim = getattr(transform, "dim", getattr(transform, "kwargs", {}).get("dim", -1))
        dims = getattr(net, "param_dims", None)
        return (int(transform.split_dim + dims[0]),) if dim == -1 and dims is not None else None
    if names & {"Planar", "Radial"} and hasattr(net, "param_dims"):
        return (int(max(net.param_dims)),)
    # An ordinary network takes a context, and says nothing about events.
    for module in (
        transform,
        getattr(transform, "arn", None),
        net if getattr(net, "context_dim", 0) else None,
    ):
        size: Any = getattr(module, "input_dim", None)
        if isinstance(size, int):
            return (size,)
    for name in ("u", "x0", "u_unnormed", "weights", "loc"):
        value: Any = getattr(transform, name, None)
        if hasattr(value, "shape") and names & VECTORS:
            return (int(value.shape[-1]),)
    if "Permute" in names and transform.dim == -1:
        return (len(transform.permutation),)
    return None


def describe_users(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a user's transform, conditional transform or density."""
    return rebuilt(describe(obj, event_shape))


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a transform, conditional transform or density that is rebuilt identically."""
    names = lineage(obj)
    if names & {"ConditionalTransform", "ConditionalDistribution"}:
        return _conditional_facts(obj, event_shape)
    if "Distribution" in names:
        facts = distribution_facts(obj, event_shape)
        if not is_flow(obj):
            return facts
        return flow_facts(obj, facts.event_shape, traits, rsample=bool(obj.has_rsample))
    facts = transform_facts(obj, event_shape or transform_event_shape(obj, own_event), traits(obj))
    return replace(
        facts,
        normalizer=of_library(obj, "pyro", structure.BATCH_NORM),
        coupling=structure.coupling(obj, facts.event_shape),
    )


def is_flow(obj: Any) -> bool:
    """Whether a distribution is transforms over a base, with interchangeable sides."""
    return on_the_line(obj, traits)


def _conditional_facts(obj: Any, event: Shape | None) -> Facts:
    """The facts of a conditional object: those at a zero context."""
    import torch

    if "ConditionalDistribution" in lineage(obj):
        sizes = {size for one in obj.transforms if (size := _context_size(one))}
        inner = next((shape for one in obj.transforms if (shape := own_event(one))), event)
    else:
        sizes, inner = {size for size in (_context_size(obj),) if size}, event or own_event(obj)
    if len(sizes) != 1:
        raise TargetError(
            f"{type(obj).__name__} does not state the size of its context; wrap it as a module "
            "whose forward takes one"
        )
    if inner is None:
        raise unknown_shape(obj)
    context = (sizes.pop(),)
    if "ConditionalDistribution" in lineage(obj):
        return facts_of(Traits(), inner, inner, context_shape=context)
    parameter = next(iter(obj.parameters()), torch.zeros(()))
    conditioned = obj.condition(torch.zeros(1, *context, dtype=parameter.dtype))
    whole = traits(conditioned)
    if "volume-preserving" not in whole.promises:  # constant in x, but dependent on the context
        whole = replace(whole, promises=whole.promises - {"constant-jacobian"})
    return transform_facts(conditioned, inner, whole, context)


def _context_size(obj: Any) -> int:
    for inner in obj.modules() if hasattr(obj, "modules") else ():
        if isinstance(getattr(inner, "context_dim", None), int) and inner.context_dim:
            return int(inner.context_dim)
    # Parameters that depend on the context alone come from an ordinary network.
    size: Any = getattr(getattr(obj, "nn", None), "input_dim", None)
    return size if isinstance(size, int) else 0
