"""Facts of fitted scikit-learn estimators: which are bijections or densities, event shapes, domains."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE
from flowref.adapters.common.torch_supports import interval
from flowref.adapters.common.traits import Traits, compose, facts_of
from flowref.model import REAL, Facts, Shape, Support, TargetError

AFFINE = CONSTANT | ELEMENTWISE
# Maps with their promises. Linear ones are bijections only if they keep all features: "this
# transformation will only be exact if n_components=n_features".
ELEMENTWISE_MAPS = {
    "StandardScaler": AFFINE,
    "MinMaxScaler": AFFINE,
    "MaxAbsScaler": AFFINE,
    "RobustScaler": AFFINE,
    "PowerTransformer": ELEMENTWISE,
    "QuantileTransformer": ELEMENTWISE,
    "FunctionTransformer": frozenset[str](),
}
LINEAR_MAPS = (
    *("PCA", "IncrementalPCA", "FastICA", "TruncatedSVD", "GaussianRandomProjection"),
    *("SparseRandomProjection", "PLSRegression"),
)
COMPOSITE = "Pipeline"
# Methods of a map, and of its log-det.
MAPS = ("transform", "inverse_transform")
LOG_DET = re.compile(r"(compute_)?(log_?(abs_?)?(det|jac)|ladj)[a-z_]*")
# Samplers of rows with components, samplers of rows, and densities only.
MIXTURES, KERNELS = ("GaussianMixture", "BayesianGaussianMixture"), "KernelDensity"
DENSITIES = (*MIXTURES, KERNELS, "PCA", "FactorAnalysis")
# The probability at which `QuantileTransformer` cuts off tails, and slightly more.
TAIL = 1.01e-7
# Domains of numpy and scipy functions in a FunctionTransformer.
DOMAINS = {
    "log": (0.0, math.inf),
    "log2": (0.0, math.inf),
    "log10": (0.0, math.inf),
    "sqrt": (0.0, math.inf),
    "log1p": (-1.0, math.inf),
    "reciprocal": (0.0, math.inf),
    "logit": (0.0, 1.0),
    "arctanh": (-1.0, 1.0),
}


def is_fitted(obj: Any) -> bool:
    """Whether an estimator is fitted."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(obj)
    except NotFittedError:
        return False
    return True


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a fitted estimator. Raises `TargetError` if it is not fitted."""
    shape = _shape(obj, event_shape)
    if not is_map(obj):
        return Facts(shape, latent_shape=shape)
    return facts_of(traits_of(obj), shape, shape)


def describe_onto(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a map declared onto the reals."""
    return replace(describe(obj, event_shape), codomain=REAL)


def _shape(obj: Any, given: Shape | None) -> Shape:
    if not is_fitted(obj):
        raise TargetError(f"{type(obj).__name__} is not fitted; fit it first")
    features = getattr(obj, "n_features_in_", None)
    shape = (features,) if features else given or (3,)
    if given is not None and given != shape:
        raise TargetError(
            f"{type(obj).__name__} was fitted to {features} features, but events of shape {given} were given"
        )
    return shape


def is_map(obj: Any) -> bool:
    """Whether an estimator is a bijection: it and all of its steps keep the number of features."""
    names = lineage(obj)
    if COMPOSITE in names:
        return all(is_map(step) or not of_library(step) for step in pipeline_steps(obj))
    if names & set(ELEMENTWISE_MAPS):
        return True
    return bool(names & set(LINEAR_MAPS)) and kept(obj) == obj.n_features_in_


def pipeline_steps(obj: Any) -> list[Any]:
    """The steps of a pipeline without passthroughs."""
    return [step for _, step in obj.steps if step not in (None, "passthrough")]


def is_rewritten(obj: Any) -> bool:
    """Whether a user's subclass has a map of its own, or states a log-det."""
    own = [cls for cls in type(obj).__mro__ if cls is not object and not _is_of_library(cls)]
    defined = {name for cls in own for name in vars(cls)}
    return bool(defined & set(MAPS)) or any(LOG_DET.fullmatch(name) for name in defined)


def _is_of_library(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "sklearn"


def of_library(obj: Any) -> bool:
    """Whether an object's class belongs to the library."""
    return _is_of_library(type(obj))


def kept(obj: Any) -> int:
    """The number of features that a linear map keeps."""
    found = getattr(obj, "components_", None)
    return int(obj.x_rotations_.shape[1] if found is None else found.shape[0])


def vet(obj: Any) -> None:
    """Raise `TargetError` for objects that only look like a bijection or density."""
    name = type(obj).__name__
    if COMPOSITE in lineage(obj):
        last = type(pipeline_steps(obj)[-1]).__name__
        if hasattr(obj, "score_samples") and not hasattr(obj, "inverse_transform"):
            raise TargetError(
                f"score_samples of a Pipeline is the log-density of what its first steps make of rows, and none of "
                f"rows: audit its {last} by itself"
            )
        raise TargetError(
            "a step of the Pipeline is no bijection; audit those that are by themselves"
        )
    if lineage(obj) & set(LINEAR_MAPS):
        raise TargetError(
            f"{name} keeps {kept(obj)} of {obj.n_features_in_} features, so that it is no bijection; "
            f"let it keep all"
        )
    if of_library(obj) and hasattr(obj, "inverse_transform"):
        raise TargetError(f"{name} of scikit-learn is no bijection of real vectors")


def traits_of(obj: Any) -> Traits:
    """The domain, codomain and promises of a fitted map."""
    names = lineage(obj)
    if COMPOSITE in names:
        return compose(
            [traits_of(step) for _, step in obj.steps if step not in (None, "passthrough")]
        )
    promises = next(
        (ELEMENTWISE_MAPS[name] for name in ELEMENTWISE_MAPS if name in names), CONSTANT
    )
    if "QuantileTransformer" in names:
        return _quantiles(obj)
    if "PowerTransformer" in names:
        positive = obj.method == "box-cox"
        return Traits(Support.parse("positive") if positive else REAL, promises=promises)
    if "FunctionTransformer" in names:
        ends = (
            DOMAINS.get(getattr(obj.func, "__name__", ""))
            if obj.func is not None
            else (-math.inf, math.inf)
        )
        return Traits(REAL if ends is None else interval(*ends), declared=ends is not None)
    if getattr(obj, "clip", False):
        domain = _box(*zip(obj.data_min_, obj.data_max_, strict=True))
        return Traits(domain, interval(*obj.feature_range), promises=promises)
    return Traits(REAL, REAL, promises=promises)


def _quantiles(obj: Any) -> Traits:
    """The traits of a quantile transformer: "Features values of new/unseen data that fall below or above
    the fitted range will be mapped to the bounds of the output distribution". Normal quantiles are cut off
    at a probability of 1e-7, "to avoid mapping to infinity".
    """
    import numpy as np

    uniform = obj.output_distribution == "uniform"
    ends = (0.0, 1.0) if uniform else (TAIL, 1.0 - TAIL)
    columns = [np.interp(ends, obj.references_, column) for column in obj.quantiles_.T]
    codomain = Support.parse("unit") if uniform else None
    return Traits(_box(*columns), codomain, promises=ELEMENTWISE)


def _box(*ends: Sequence[float]) -> Support:
    return Support.product([interval(float(low), float(high)) for low, high in ends])
