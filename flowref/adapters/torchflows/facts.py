"""The facts that the classes of torchflows tell: shapes, supports and promises."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common import couplings, multi_scales
from flowref.adapters.common.bases import base_promises
from flowref.adapters.common.described import lineage
from flowref.model import REAL, Facts, Shape, Support, TargetError

# Its sigmoidal transformers are meant for |x| < 10, where their inverse bisects until steps are
# below 1e-5 |x|.
SIGMOIDAL = Support.parse((-10.0, 10.0))
# What a first layer makes of these stays within the range of the next.
SIGMOIDAL_STACK = Support.parse((-9.0, 9.0))
SIGMOIDAL_TOLERANCE = 2e-4
# Integrated transformers bisect [-bound, bound] down to eps.
INTEGRAL_TOLERANCE = 1e-5
# The fixed-point iteration makes 25 steps, whatever is left by then.
FIXED_POINT = 1e-2
# The part of a transformer's range that inputs of a composition are drawn from.
COMPOSED = 0.2

ELEMENTWISE = frozenset({"elementwise", "monotone"})
CONSTANT = frozenset({"constant-jacobian"})
VOLUME = frozenset({"volume-preserving"})
JOINT = ("volume-preserving", "constant-jacobian", "elementwise", "monotone")

TRAITS: dict[str, frozenset[str]] = {
    "InvertibleMatrix": CONSTANT,
    "PermutationMatrix": CONSTANT | VOLUME,
    "IdentityMatrix": CONSTANT | VOLUME | ELEMENTWISE,
    "HouseholderProductMatrix": CONSTANT | VOLUME,
    "Squeeze": CONSTANT | VOLUME,
    "ElementwiseBijection": ELEMENTWISE,
    "MaskedAutoregressiveBijection": frozenset({"autoregressive"}),
    "IterativeResidualBijection": frozenset({"estimator"}),
    "ContinuousBijection": frozenset({"estimator"}),
}


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a bijection or a flow, which tells its own event shape."""
    bijection = getattr(obj, "bijection", obj)
    own = getattr(bijection, "event_shape", None)
    if event_shape is None and own is None:
        raise TargetError(
            f"{type(obj).__name__} does not tell the shape of its events; give it, as in ?event=4"
        )
    shape = event_shape or _shape(own)
    context = getattr(bijection, "context_shape", None)
    domain, knots, tolerance = _reach(bijection)
    promises: dict[str, Any] = dict.fromkeys(sorted(_promises(bijection) | {"batch-dims"}), True)
    if tolerance:
        promises["inverse_tolerance"] = tolerance
        if "InverseMaskedAutoregressiveBijection" in lineage(bijection):
            promises["iterative-forward"] = True
    if domain != REAL and "BijectiveComposition" in lineage(bijection):
        promises["perturb"] = (
            0.0  # moved affine layers carry their outputs out of the range of the next transformer
        )
    if hasattr(obj, "bijection") and hasattr(obj, "base"):
        promises |= {**base_promises(obj.base), "samples-from-base": True}
    return Facts(
        event_shape=shape,
        latent_shape=_latent(bijection, shape),
        domain=domain,
        codomain=REAL if domain == REAL else None,
        context_shape=None if context is None else _shape(context),
        knots=knots,
        promises=promises,
        coupling=couplings.of_library(bijection, shape, "torchflows") if bijection is obj else None,
        squeezing=multi_scales.squeezing(bijection),
        multi_scale=multi_scales.multi_scale(obj),
    )


def _shape(value: Any) -> Shape:
    return (value,) if isinstance(value, int) else tuple(int(size) for size in value)


def _promises(obj: Any) -> frozenset[str]:
    names = lineage(obj)
    if "BijectiveComposition" in names:
        every = [_promises(layer) for layer in obj.layers]
        joint = {name for name in JOINT if all(name in one for one in every)}
        return frozenset(
            joint | {name for name in ("estimator",) if any(name in one for one in every)}
        )
    promises = frozenset().union(*(traits for name, traits in TRAITS.items() if name in names))
    transformer = lineage(getattr(obj, "transformer", None))
    if (
        "ElementwiseBijection" in names
        and obj.context_shape is None
        and transformer & {"Affine", "Scale", "Shift"}
    ):
        promises |= CONSTANT
    return promises | VOLUME if "Shift" in transformer else promises


def _reach(obj: Any) -> tuple[Support, tuple[float, ...], float]:
    """Where a bijection is meant to be used, its knots, and how far off its numerical inverse may
    be.
    """
    domain, tolerance = REAL, 0.0
    knots: set[float] = set()
    names = lineage(obj)
    if "BijectiveComposition" in names:
        for layer in obj.layers:
            inner, _, error = _reach(layer)
            if inner != REAL:
                # The affine layers around it stretch their inputs, so less than its own range is
                # safe.
                domain = Support.parse((inner.low * COMPOSED, inner.high * COMPOSED))
            tolerance = max(tolerance, 10 * error)
        return domain, (), tolerance
    if "IterativeResidualBijection" in names:
        return REAL, (), FIXED_POINT
    transformer: Any = getattr(obj, "transformer", None)
    kinds = lineage(transformer)
    compounding = 10.0 if "MaskedAutoregressiveBijection" in names else 1.0
    if "MonotonicSpline" in kinds:
        knots = {float(transformer.min_input), float(transformer.max_input)}
    if kinds & {"Sigmoid", "DeepSigmoid", "DenseSigmoid", "DeepDenseSigmoid"}:
        domain = SIGMOIDAL_STACK if kinds & {"DeepSigmoid", "DeepDenseSigmoid"} else SIGMOIDAL
        tolerance = SIGMOIDAL_TOLERANCE * compounding
    if "Integration" in kinds:
        bound = float(transformer.bound)
        domain, tolerance = Support.parse((-bound, bound)), INTEGRAL_TOLERANCE * compounding
    return domain, tuple(sorted(knots)), tolerance


def _latent(obj: Any, shape: Shape) -> Shape:
    names = lineage(obj)
    if "BijectiveComposition" in names:
        for layer in obj.layers:
            shape = _latent(layer, shape)
    if "Squeeze" in names:
        return _shape(obj.transformed_event_shape)
    return shape
