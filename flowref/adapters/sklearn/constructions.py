"""Constructions of scikit-learn, fitted to rows with skewed and heavy-tailed features: one for each kind of
map with inverse_transform, and of density with score_samples.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from flowref.adapters.common.object_components import Constructions

ROWS = 200
# Rows of kernel densities, each of which has a kink or step around it, and the bandwidth.
CENTRES, WIDTH = 10, 1.5
KERNELS = ("gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine")
DRAWING = (
    "gaussian",
    "tophat",
)  # "Currently, this is implemented only for gaussian and tophat kernels."
COVARIANCES = ("full", "tied", "diag", "spherical")


def rows(features: int = 3, positive: bool = False, unit: float = 1.0) -> Any:
    """Rows ``(n, features)`` for fitting."""
    import numpy as np

    rng = np.random.default_rng(0)
    first = rng.normal(1.0, 2.0, ROWS)
    columns = [np.exp(first / 3) if positive else first]
    columns += [rng.lognormal(0.0, 1.0, ROWS) + 0.3 * np.abs(first), rng.gamma(2.0, 0.5, ROWS)]
    return unit * np.stack(columns[:features], 1)


def fitted(
    place: str, name: str, data: Callable[[], Any] = rows, **options: Any
) -> Callable[..., Any]:
    """A builder of a fitted estimator."""

    def build() -> Any:
        kind = getattr(importlib.import_module(f"sklearn.{place}"), name)
        return kind(**options).fit(data())

    return build


def maps() -> Constructions:
    """Transformers that are bijections."""
    import numpy as np
    from sklearn import preprocessing
    from sklearn.cross_decomposition import PLSRegression

    def regression() -> Any:
        return PLSRegression(n_components=3).fit(
            rows(), rows() @ np.array([[1.0, 0.5], [0.3, -1.0], [0.0, 2.0]])
        )

    def functions(there: Any, back: Any) -> Callable[[], Any]:
        return lambda: preprocessing.FunctionTransformer(there, back).fit(rows(positive=True))

    scaled, reduced = partial(fitted, "preprocessing"), partial(fitted, "decomposition")
    powers, quantiles = (
        partial(scaled, "PowerTransformer"),
        partial(scaled, "QuantileTransformer", n_quantiles=50),
    )
    projection: dict[str, Any] = {"compute_inverse_components": True, "random_state": 0}
    table: dict[str, Callable[..., Any]] = {
        "StandardScaler": scaled("StandardScaler"),
        "MinMaxScaler": scaled("MinMaxScaler", feature_range=(-1, 1)),
        "MinMaxScaler[clip]": scaled("MinMaxScaler", clip=True),
        "MaxAbsScaler": scaled("MaxAbsScaler"),
        "RobustScaler": scaled("RobustScaler", unit_variance=True),
        "PowerTransformer": powers(),
        "PowerTransformer[raw]": powers(standardize=False),
        "PowerTransformer[box-cox]": powers(partial(rows, positive=True), method="box-cox"),
        "QuantileTransformer": quantiles(),
        "QuantileTransformer[normal]": quantiles(output_distribution="normal"),
        "QuantileTransformer[normal-1e-7]": quantiles(partial(rows, unit=1e-7), output_distribution="normal"),
        "FunctionTransformer[log1p]": functions(np.log1p, np.expm1),
        "FunctionTransformer[arcsinh]": functions(np.arcsinh, np.sinh),
        "IncrementalPCA": reduced("IncrementalPCA"),
        "FastICA": reduced("FastICA", random_state=0, max_iter=1000),
        "TruncatedSVD": reduced("TruncatedSVD", n_components=3, random_state=0),
        "GaussianRandomProjection": fitted("random_projection", "GaussianRandomProjection", n_components=3, **projection),
        "PLSRegression": regression,
    }  # fmt: skip
    return {name: (build, (3,)) for name, build in table.items()}


def onto() -> Constructions:
    """Transformers with unrestricted latents: those of a standardized feature, as a model draws them."""
    return {"PowerTransformer[codomain=real]": (fitted("preprocessing", "PowerTransformer"), (3,))}


def pipelines() -> Constructions:
    """Compositions."""
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PowerTransformer, RobustScaler

    def pipeline() -> Any:
        return make_pipeline(RobustScaler(), PowerTransformer(), PCA(whiten=True)).fit(rows())

    return {"Pipeline": (pipeline, (3,))}


def probabilistic() -> Constructions:
    """Bijections with a density of rows."""
    return {
        "PCA": (fitted("decomposition", "PCA"), (3,)),
        "PCA[whiten]": (fitted("decomposition", "PCA", whiten=True), (3,)),
    }


def mixtures() -> Constructions:
    """Mixtures, whose sampler returns components as well."""
    mixture = partial(fitted, "mixture", n_components=3, random_state=0)
    table: Constructions = {
        f"GaussianMixture[{kind}]": (mixture("GaussianMixture", covariance_type=kind), (3,))
        for kind in COVARIANCES
    }
    bayesian = mixture("BayesianGaussianMixture", partial(rows, 2), max_iter=500)
    return {**table, "BayesianGaussianMixture": (bayesian, (2,))}


def kernels(draws: bool) -> Constructions:
    """Kernel densities, of kernels with or without a sampler."""
    table: Constructions = {}
    for kernel, features in (*((one, 1) for one in KERNELS), ("gaussian", 2), ("cosine", 2)):
        if (kernel in DRAWING) is draws:
            name = f"KernelDensity[{kernel}{'-2d' if features > 1 else ''}]"
            data = partial(centres, features)
            build = fitted("neighbors", "KernelDensity", data, kernel=kernel, bandwidth=WIDTH)
            table[name] = build, (features,)
    return table


def centres(features: int) -> Any:
    return rows(features)[:CENTRES]


def densities() -> Constructions:
    """Densities without a sampler."""
    return {
        "FactorAnalysis": (fitted("decomposition", "FactorAnalysis", n_components=1), (3,)),
        "PCA[probabilistic]": (fitted("decomposition", "PCA", n_components=2), (3,)),
    }
