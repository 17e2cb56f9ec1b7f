"""Facts of torchflows classes: shapes, supports and promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common.bases import base_promises
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE, VOLUME, class_promises
from flowref.adapters.common.shapes import as_shape, unknown_shape
from flowref.adapters.common.traits import Traits, compose, facts_of
from flowref.adapters.torchflows import structure
from flowref.model import REAL, Facts, Shape, Support

# Its sigmoidal transformers are meant for |x| < 10, where their inverse bisects until steps are
# below 1e-5 |x|.
SIGMOIDAL = Support.parse((-10.0, 10.0))
# The first layer maps this interval into the range of the next.
SIGMOIDAL_STACK = Support.parse((-9.0, 9.0))
SIGMOIDAL_TOLERANCE = 2e-4
# Integrated transformers bisect [-bound, bound] down to eps.
INTEGRAL_TOLERANCE = 1e-5
# The fixed-point iteration makes 25 steps, whatever the remaining error.
FIXED_POINT = 1e-2
# ODEs are integrated by one step of the classical Runge-Kutta method from time 0 to 1 unless times
# are given: accurate for the slow fields at the start of training, and near data; perturbed fields
# are too fast for one step.
SOLVER = 1e-2
# Solvers that choose steps for a whole batch.
ADAPTIVE = frozenset({"adaptive_heun", "bosh3", "dopri5", "dopri8", "fehlberg2"})
INTEGRATED = Support.parse((-10.0, 10.0))
# The fraction of a transformer's range from which inputs of a composition are drawn.
COMPOSED = 0.2

PROMISES: dict[str, frozenset[str]] = {
    "InvertibleMatrix": CONSTANT,
    "PermutationMatrix": CONSTANT | VOLUME,
    "IdentityMatrix": CONSTANT | VOLUME | ELEMENTWISE,
    "HouseholderProductMatrix": CONSTANT | VOLUME,
    "Squeeze": CONSTANT | VOLUME,
    "ElementwiseBijection": ELEMENTWISE,
    "MaskedAutoregressiveBijection": frozenset({"autoregressive"}),
    "IterativeResidualBijection": frozenset({"estimator"}),
    "ContinuousBijection": frozenset({"estimator", "fixed", "near-as-given", "truncated-domain"}),
}


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a bijection or flow, with the event shape that it states."""
    bijection = getattr(obj, "bijection", obj)
    own = getattr(bijection, "event_shape", None)
    if event_shape is None and own is None:
        raise unknown_shape(obj)
    shape = event_shape or as_shape(own)
    context = getattr(bijection, "context_shape", None)
    whole = traits(bijection)
    return facts_of(
        replace(whole, promises=whole.promises | {"batch-dims"}),
        shape,
        _latent(bijection, shape),
        _settings(bijection, whole) | _density_promises(obj),
        context_shape=None if context is None else as_shape(context),
        coupling=structure.coupling(bijection, shape) if bijection is obj else None,
        squeezing=structure.squeezing(bijection),
        multi_scale=structure.multi_scale(obj),
    )


def _settings(bijection: Any, whole: Traits) -> dict[str, Any]:
    """Promises for a numerical inverse and a bounded domain."""
    names = lineage(bijection)
    settings: dict[str, Any] = {}
    if whole.tolerance and "InverseMaskedAutoregressiveBijection" in names:
        settings["iterative-forward"] = True
    if whole.domain != REAL and "BijectiveComposition" in names:
        # Perturbed affine layers leave the range of the next transformer.
        settings["perturb"] = 0.0
    return settings


def _density_promises(obj: Any) -> dict[str, Any]:
    if not hasattr(obj, "bijection") or not hasattr(obj, "base"):
        return {}
    return {**base_promises(obj.base), "samples-from-base": True}


def traits(obj: Any) -> Traits:
    """The traits of a bijection, by its class: its intended domain, knots, inverse tolerance, and promises."""
    names = lineage(obj)
    if "BijectiveComposition" in names:
        return _composition([traits(layer) for layer in obj.layers])
    if "IterativeResidualBijection" in names:
        return Traits(
            codomain=REAL, promises=class_promises(PROMISES, names), tolerance=FIXED_POINT
        )
    if "ContinuousBijection" in names:
        adapts = {"adaptive-steps"} if obj.solver in ADAPTIVE else set()
        return Traits(
            INTEGRATED, promises=class_promises(PROMISES, names) | adapts, tolerance=SOLVER
        )
    transformer: Any = getattr(obj, "transformer", None)
    kinds = lineage(transformer)
    compounding = 10.0 if "MaskedAutoregressiveBijection" in names else 1.0
    domain, tolerance = REAL, 0.0
    if kinds & {"Sigmoid", "DeepSigmoid", "DenseSigmoid", "DeepDenseSigmoid"}:
        domain = SIGMOIDAL_STACK if kinds & {"DeepSigmoid", "DeepDenseSigmoid"} else SIGMOIDAL
        tolerance = SIGMOIDAL_TOLERANCE * compounding
    if "Integration" in kinds:
        bound = float(transformer.bound)
        domain, tolerance = Support.parse((-bound, bound)), INTEGRAL_TOLERANCE * compounding
    return Traits(
        domain,
        REAL if domain == REAL else None,
        _knots(transformer) if "MonotonicSpline" in kinds else (),
        _promises(obj, names, kinds),
        tolerance,
    )


def _composition(maps: Sequence[Traits]) -> Traits:
    """The traits of a composition, whose affine layers stretch inputs of the others, so that a smaller
    interval is safe; errors accumulate.
    """
    whole = compose(maps)
    ranges = [one.domain for one in maps if one.domain != REAL]
    domain = (
        Support.parse((ranges[-1].low * COMPOSED, ranges[-1].high * COMPOSED)) if ranges else REAL
    )
    return Traits(
        domain,
        None if ranges else REAL,
        promises=whole.promises - {"autoregressive"},
        tolerance=10 * whole.tolerance,
    )


def _knots(spline: Any) -> tuple[float, ...]:
    return tuple(sorted({float(spline.min_input), float(spline.max_input)}))


def _promises(obj: Any, names: set[str], kinds: set[str]) -> frozenset[str]:
    promises = class_promises(PROMISES, names)
    elementwise = "ElementwiseBijection" in names and obj.context_shape is None
    if elementwise and kinds & {"Affine", "Scale", "Shift"}:
        promises |= CONSTANT
    return promises | VOLUME if "Shift" in kinds else promises


def _latent(obj: Any, shape: Shape) -> Shape:
    names = lineage(obj)
    if "BijectiveComposition" in names:
        for layer in obj.layers:
            shape = _latent(layer, shape)
    if "Squeeze" in names:
        return as_shape(obj.transformed_event_shape)
    return shape
