"""Facts of Zuko classes: features and contexts, supports, tolerances and promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common.bases import base_promises
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE, VOLUME, class_promises
from flowref.adapters.common.shapes import unknown_shape
from flowref.adapters.common.torch_supports import interval
from flowref.adapters.common.torch_transforms import (
    declared_traits,
    distribution_facts,
    traits_by_parts,
    transform_event_shape,
    transform_facts,
)
from flowref.adapters.common.traits import Traits, compose, facts_of
from flowref.adapters.zuko.structure import coupling
from flowref.model import REAL, Facts, Shape

# Bisection errors propagate to later coordinates, whose parameters depend on earlier ones, and
# through layers.
SPREAD = 1e3
# The adaptive solver keeps local errors below about 1e-5 of the state, and below the tolerance
# within this box.
SOLVER, BOX = 1e-2, interval(-10.0, 10.0)

DIMS = frozenset({"batch-dims"})
# Steps are chosen for a whole batch: results depend on other points, within the solver's tolerance.
ADAPTIVE = frozenset({"estimator", "adaptive-steps", "fixed", "near-as-given", "truncated-domain"})
# Its values are a quadrature and its derivative the exact integrand, which agree only for smooth
# integrands: with perturbed parameters the quadrature is not even monotone.
QUADRATURE = frozenset({"estimator", "fixed"})
TAINTS = ADAPTIVE | QUADRATURE | {"truncated-domain"}
PROMISES: dict[str, frozenset[str]] = {
    "IdentityTransform": VOLUME | CONSTANT | ELEMENTWISE,
    "AdditiveTransform": VOLUME | CONSTANT | ELEMENTWISE,
    "CircularShiftTransform": VOLUME | CONSTANT | {"elementwise"},
    "MonotonicAffineTransform": CONSTANT | ELEMENTWISE,
    **dict.fromkeys(
        (
            "CosTransform",
            "SinTransform",
            "SoftclipTransform",
            "SignedPowerTransform",
            "MonotonicRQSTransform",
        ),
        ELEMENTWISE,
    ),
    "MonotonicTransform": ELEMENTWISE,
    "PermutationTransform": VOLUME | CONSTANT,
    "RotationTransform": VOLUME | CONSTANT,
    "LULinearTransform": CONSTANT,
    "FreeFormJacobianTransform": ADAPTIVE,
    **dict.fromkeys(
        ("ExpTransform", "SigmoidTransform", "TanhTransform", "SoftplusTransform"), ELEMENTWISE
    ),
}


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a transform, a density, or a lazy one of either."""
    names = lineage(obj)
    if names & {"LazyDistribution", "LazyTransform"}:
        return _lazy_facts(obj, event_shape)
    if "Distribution" in names:
        return distribution_facts(obj, event_shape)
    return transform_facts(obj, event_shape or transform_event_shape(obj, _own_event), traits(obj))


def _lazy_facts(obj: Any, event: Shape | None) -> Facts:
    features, context = sizes(obj)
    contexts = (context,) if context else None
    shape = event or ((features,) if features else None)
    if shape is None:
        raise unknown_shape(obj)
    names = lineage(obj)
    if "Flow" not in names and "LazyDistribution" in names:
        return facts_of(Traits(promises=DIMS), shape, shape, context_shape=contexts)
    whole = lazy_traits(obj.transform if "Flow" in names else obj)
    if {"Partial", "LazyTransform"} <= names:  # a constant transform, possibly elementwise
        return transform_facts(obj(), shape, whole)
    # Per feature: the base distribution is wider than the transform's range, or not all of it is
    # reached.
    slack = 4e-6 if "NCSF" in names else 2e-6 if "GF" in names else 0.0
    extra: dict[str, Any] = {"normalization_tolerance": slack * shape[0]} if slack else {}
    if "Flow" in names:
        extra |= {**base_promises(obj.base()), "samples-from-base": True, "rsample": True}
    return facts_of(
        whole, shape, shape, extra, context_shape=contexts, coupling=coupling(obj, shape)
    )


def lazy_traits(obj: Any) -> Traits:
    names = lineage(obj)
    if "LazyInverse" in names:
        return lazy_traits(obj.transform).inverted()
    if "LazyComposedTransform" in names:
        stages = [lazy_traits(stage) for stage in obj.transforms]
        # The documented domain is that of the first transform: later ones follow a clipping layer.
        return replace(_compose(stages), declared=stages[0].declared)
    if "FFJTransform" in names:
        return Traits(domain=BOX, promises=ADAPTIVE, tolerance=SOLVER)
    if not hasattr(obj, "univariate"):
        return traits(obj()) if "Partial" in names else Traits(promises=frozenset())
    alone = traits(_univariate_of_layer(obj))
    promises, spread = alone.promises, 1.0
    if "UMNN" in {type(module).__name__ for module in obj.modules()}:
        promises |= QUADRATURE
    if "volume-preserving" not in promises and (
        sizes(obj)[1] or "ElementWiseTransform" not in names
    ):
        promises -= {"constant-jacobian"}
    if "ElementWiseTransform" not in names:
        promises, spread = promises - ELEMENTWISE, SPREAD
    if "MaskedAutoregressiveTransform" in names and _ordered(obj):
        promises |= {"autoregressive"}
    return replace(alone, promises=promises, tolerance=spread * alone.tolerance)


def _compose(stages: Sequence[Traits]) -> Traits:
    """The traits of a composition, in which a spline after a circular shift with its own bound maps the
    circle onto itself.
    """
    fitted: list[Traits] = []
    for stage in stages:
        before = fitted[-1].codomain if fitted else None
        if (
            before is not None
            and before.has_end
            and _equal_within_rounding(stage.knots, (before.low, before.high))
        ):
            stage = replace(stage, domain=before, codomain=before)
        fitted.append(stage)
    whole = compose(fitted)
    layers = [stage for stage in stages if "elementwise" not in stage.promises or stage.tolerance]
    spread = (
        SPREAD
        if len(layers) > 1 and any("elementwise" in stage.promises for stage in layers)
        else 1.0
    )
    promises = whole.promises | {name for stage in stages for name in stage.promises & TAINTS}
    return replace(whole, promises=promises, tolerance=spread * whole.tolerance)


def _equal_within_rounding(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    return len(first) == len(second) and all(
        abs(a - b) <= 1e-5 for a, b in zip(first, second, strict=True)
    )


def reaches_everywhere(flow: Any) -> bool:
    """Whether the inverse of a flow's transform is unbounded."""
    promises = lazy_traits(flow.transform).promises
    return "truncated-domain" not in promises or "adaptive-steps" in promises


def _ordered(obj: Any) -> bool:
    return obj.order is not None and obj.order.tolist() == sorted(obj.order.tolist())


def _univariate_of_layer(obj: Any) -> Any:
    """The univariate transform of a layer, at zero parameters."""
    import torch

    features, _ = sizes(obj)
    parameter = next(obj.parameters())
    with torch.no_grad():
        zeros = [torch.zeros(features, *shape, dtype=parameter.dtype) for shape in obj.shapes]
        return obj.univariate(*zeros)


def traits(transform: Any) -> Traits:
    """The traits of a transform."""
    whole = traits_by_parts(transform, traits, _compose)
    if whole is not None:
        return whole
    names = lineage(transform)
    alone = declared_traits(transform, class_promises(PROMISES, names) | DIMS)
    if "MonotonicTransform" in names:
        return _bisected(transform, alone, names)
    if "CircularShiftTransform" in names:
        return replace(alone, knots=(0.0,))
    if "MonotonicRQSTransform" in names:
        # The last knot is a cumulative sum with a rounding error of the facts' dtype.
        bound = float(f"{float(transform.horizontal.detach().reshape(-1)[-1]):.5g}")
        return replace(alone, knots=(-bound, bound))
    if "FreeFormJacobianTransform" in names:
        return replace(
            alone, domain=BOX, codomain=None, tolerance=SOLVER, promises=alone.promises - DIMS
        )
    if names & {"AutoregressiveTransform", "CouplingTransform"}:
        # Its parts are known only once it is called.
        return replace(alone, codomain=None, declared=False)
    return alone


def _bisected(transform: Any, alone: Traits, names: set[str]) -> Traits:
    """The traits of a transform inverted by bisection within its bound, to an absolute tolerance."""
    bound = float(transform.bound)
    if "BernsteinTransform" in names:
        # Linearly extrapolated outside; the bounded one leaves a small gap in its range there.
        codomain = None if "BoundedBernsteinTransform" in names else REAL
        return replace(
            alone, codomain=codomain, knots=(-bound, bound), tolerance=float(transform.eps)
        )
    promises = alone.promises | {"truncated-domain"}
    return replace(
        alone,
        domain=interval(-bound, bound),
        codomain=None,
        promises=promises,
        tolerance=float(transform.eps),
    )


def sizes(obj: Any) -> tuple[int, int]:
    """The numbers of features and context features that a lazy object states, or 0."""
    names = lineage(obj)
    if "Flow" in names:
        shape = tuple(obj.base().event_shape)
        return (int(shape[0]) if len(shape) == 1 else 0), sizes(obj.transform)[1]
    if "LazyInverse" in names:
        return sizes(obj.transform)
    if "LazyComposedTransform" in names:
        stages = [sizes(stage) for stage in obj.transforms]
        return max((width for width, _ in stages), default=0), max(
            (width for _, width in stages), default=0
        )
    if "FFJTransform" in names:
        features = int(obj.ode[-1].out_features)
        return features, int(obj.ode[0].in_features - features - 2 * len(obj.freqs))
    if "ElementWiseTransform" in names and not hasattr(obj, "hyper"):
        return int(obj.phi[0].shape[0]), 0
    if "GMM" in names:
        return int(obj.shapes[1][-1]), int(obj.hyper[0].in_features) if hasattr(obj, "hyper") else 0
    if hasattr(obj, "hyper") and hasattr(obj, "total"):
        inputs, outputs = (
            int(obj.hyper[0].in_features),
            int(obj.hyper[-1].out_features) // int(obj.total),
        )
        if "ElementWiseTransform" in names:
            return outputs, inputs
        if "GeneralCouplingTransform" in names:
            return len(obj.mask), inputs - int(obj.mask.sum())
        return outputs, inputs - outputs
    if {"Partial", "LazyTransform"} <= names:
        event = transform_event_shape(obj(), _own_event)
        return (int(event[0]) if event else 0), 0
    return 0, 0


def _own_event(transform: Any) -> Shape | None:
    names = lineage(transform)
    for kind, name in (
        ("RotationTransform", "R"),
        ("LULinearTransform", "L"),
        ("PermutationTransform", "order"),
    ):
        if kind in names:
            return (int(getattr(transform, name).shape[-1]),)
    for kind, name, axes in (
        ("MonotonicRQSTransform", "horizontal", 1),
        ("BernsteinTransform", "theta", 1),
        ("GaussianizationTransform", "shift", 1),
        ("SOSPolynomialTransform", "a", 2),
    ):
        if kind in names:
            shape = tuple(getattr(transform, name).shape)
            return shape[: len(shape) - axes]
    if "CouplingTransform" in names:
        return (len(transform.idx_a) + len(transform.idx_b),)
    return None
