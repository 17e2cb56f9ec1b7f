"""Constructions of the TensorFlow Probability bijectors that preserve size or fill a matrix, and of
distributions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.jax_distributions import lower, vector

# A builder with its event shape.
Builders = dict[str, tuple[Callable[..., Any], tuple[int, ...]]]


def shift_and_log_scale(size: int, outputs: int) -> Any:
    """A network with its weights, for a shift and log-scale of each output."""
    import jax
    import jax.numpy as jnp

    def network(weights: Any, x: Any, units: Any = None, **condition: Any) -> Any:
        first, second = weights
        out = jnp.tanh(x @ first) @ second
        return out[..., :outputs], out[..., outputs:]

    first, second = jax.random.split(jax.random.key(0))
    weights = (
        jax.random.normal(first, (size, 8)),
        0.3 * jax.random.normal(second, (8, 2 * outputs)),
    )
    return jax.tree_util.Partial(network, weights)


def bijectors() -> Builders:
    """Name -> builder of a bijector."""
    from tensorflow_probability.substrates.jax import bijectors as tfb

    return {
        **{name: (getattr(tfb, name), (4,)) for name in PLAIN},
        "Shift": (lambda: tfb.Shift(vector(-1, 1)), (4,)),
        "Scale": (lambda: tfb.Scale(vector()), (4,)),
        "Scale[negative]": (lambda: tfb.Scale(vector(-2, -0.5)), (4,)),
        "Scale[log]": (lambda: tfb.Scale(log_scale=vector(-1, 1)), (4,)),
        "Sigmoid[-1,3]": (lambda: tfb.Sigmoid(low=-1.0, high=3.0), (4,)),
        "Softplus[hinge]": (lambda: tfb.Softplus(hinge_softness=0.5), (4,)),
        "SoftClip": (lambda: tfb.SoftClip(low=-2.0, high=3.0, hinge_softness=0.5), (4,)),
        "Softfloor": (lambda: tfb.Softfloor(temperature=0.7), (4,)),
        "SinhArcsinh": (lambda: tfb.SinhArcsinh(skewness=0.3, tailweight=1.3), (4,)),
        "LambertWTail": (lambda: tfb.LambertWTail(shift=0.0, scale=1.0, tailweight=0.2), (4,)),
        "Power[3]": (lambda: tfb.Power(3.0), (4,)),
        "Power[-0.5]": (lambda: tfb.Power(-0.5), (4,)),
        "PowerTransform": (lambda: tfb.PowerTransform(0.5), (4,)),
        "WeibullCDF": (lambda: tfb.WeibullCDF(scale=1.5, concentration=2.0), (4,)),
        "RayleighCDF": (lambda: tfb.RayleighCDF(1.5), (4,)),
        "FrechetCDF": (lambda: tfb.FrechetCDF(0.0, 1.0, 2.0), (4,)),
        "FrechetCDF[loc]": (lambda: tfb.FrechetCDF(-0.5, 1.0, 2.0), (4,)),
        "KumaraswamyCDF": (lambda: tfb.KumaraswamyCDF(2.0, 3.0), (4,)),
        "GumbelCDF": (lambda: tfb.GumbelCDF(0.5, 2.0), (4,)),
        "MoyalCDF": (lambda: tfb.MoyalCDF(0.5, 2.0), (4,)),
        "GompertzCDF": (lambda: tfb.GompertzCDF(concentration=0.3, rate=1.2), (4,)),
        "ShiftedGompertzCDF": (
            lambda: tfb.ShiftedGompertzCDF(concentration=0.3, rate=1.2), (4,)
        ),
        "GeneralizedExtremeValueCDF": (
            lambda: tfb.GeneralizedExtremeValueCDF(0.5, 2.0, 0.3), (4,)
        ),
        "GeneralizedPareto": (lambda: tfb.GeneralizedPareto(0.0, 1.0, 0.3), (4,)),
        "GeneralizedPareto[negative]": (lambda: tfb.GeneralizedPareto(0.5, 1.0, -0.3), (4,)),
        "ScaleMatvecDiag": (lambda: tfb.ScaleMatvecDiag(vector()), (4,)),
        "ScaleMatvecTriL": (lambda: tfb.ScaleMatvecTriL(lower()), (4,)),
        "Householder": (lambda: tfb.Householder(vector(-1, 2)), (4,)),
        "Cumsum": (tfb.Cumsum, (4,)),
        "Permute": (lambda: tfb.Permute([2, 0, 3, 1]), (4,)),
        "Reshape": (lambda: tfb.Reshape((2, 2), (4,)), (4,)),
        "Ascending": (tfb.Ascending, (4,)),
        "FillTriangular": (tfb.FillTriangular, (6,)),
        "FillScaleTriL": (tfb.FillScaleTriL, (6,)),
        "CorrelationCholesky": (tfb.CorrelationCholesky, (3,)),
        "Blockwise": (lambda: tfb.Blockwise([tfb.Exp(), tfb.Tanh()], block_sizes=[1, 3]), (4,)),
        "RealNVP": (
            lambda: tfb.RealNVP(
                num_masked=2, shift_and_log_scale_fn=shift_and_log_scale(2, 2)
            ),
            (4,),
        ),
        "Invert[Exp]": (lambda: tfb.Invert(tfb.Exp()), (4,)),
        "Chain": (lambda: tfb.Chain([tfb.Shift(-1.0), tfb.Scale(2.0), tfb.Sigmoid()]), (4,)),
        "Chain[vector]": (lambda: tfb.Chain([tfb.Exp(), tfb.ScaleMatvecTriL(lower())]), (4,)),
    }  # fmt: skip


# Classes without parameters.
PLAIN = (
    "Identity", "Exp", "Expm1", "Log", "Log1p", "Tanh", "Sigmoid", "Softplus", "Softsign", "Sinh", "Square", "Reciprocal",
    "NormalCDF",
)  # fmt: skip


def onto_simplex() -> Builders:
    """Name -> builder of a bijector of vectors onto a simplex."""
    from tensorflow_probability.substrates.jax import bijectors as tfb

    return {
        "SoftmaxCentered": (tfb.SoftmaxCentered, (4,)),
        "IteratedSigmoidCentered": (tfb.IteratedSigmoidCentered, (4,)),
    }


def flows() -> Builders:
    """Name -> builder of a distribution whose latents a bijector transforms."""
    from tensorflow_probability.substrates.jax import bijectors as tfb
    from tensorflow_probability.substrates.jax import distributions as tfd

    def base(size: int) -> Any:
        return tfd.MultivariateNormalDiag(loc=vector(-0.5, 0.5, size), scale_diag=vector(size=size))

    def real_nvp() -> Any:
        return tfb.RealNVP(num_masked=1, shift_and_log_scale_fn=shift_and_log_scale(1, 1))

    return {
        "TransformedDistribution[exp]": (
            lambda: tfd.TransformedDistribution(base(2), tfb.Exp()), (2,)
        ),
        "TransformedDistribution[affine]": (
            lambda: tfd.TransformedDistribution(
                base(2), tfb.Chain([tfb.Tanh(), tfb.ScaleMatvecTriL(lower(2))])
            ),
            (2,),
        ),
        "TransformedDistribution[RealNVP]": (
            lambda: tfd.TransformedDistribution(
                base(2), tfb.Chain([real_nvp(), tfb.Permute([1, 0]), real_nvp()])
            ),
            (2,),
        ),
    }  # fmt: skip


def vectors() -> Builders:
    """Name -> builder of a distribution of vectors."""
    import jax.numpy as jnp
    from tensorflow_probability.substrates.jax import distributions as tfd

    def mixture() -> Any:
        kinds = tfd.MultivariateNormalDiag(jnp.array([[0.0, 1.0], [2.0, -1.0]]), jnp.ones(2))
        return tfd.MixtureSameFamily(tfd.Categorical(probs=jnp.array([0.3, 0.7])), kinds)

    return {
        "distributions.Normal[batch]": (lambda: tfd.Normal(vector(-1, 1, 2), vector(size=2)), (2,)),
        "distributions.Independent": (
            lambda: tfd.Independent(tfd.Laplace(jnp.zeros(2), vector(size=2)), 1), (2,)
        ),
        "distributions.Sample": (lambda: tfd.Sample(tfd.Gamma(2.0, 1.5), 2), (2,)),
        "distributions.MultivariateNormalTriL": (
            lambda: tfd.MultivariateNormalTriL(vector(-1, 1, 2), lower(2)), (2,)
        ),
        "distributions.MultivariateStudentT": (
            lambda: tfd.MultivariateStudentTLinearOperator(
                5.0, vector(-1, 1, 2), tfd.MultivariateNormalTriL(None, lower(2)).scale
            ),
            (2,),
        ),
        "distributions.Dirichlet": (lambda: tfd.Dirichlet(jnp.array([1.5, 2.0, 3.0])), (3,)),
        "distributions.MixtureSameFamily": (mixture, (2,)),
    }  # fmt: skip


# Univariate distributions by name, with parameters.
UNIVARIATE: dict[str, tuple[float, ...]] = {
    "Normal": (0.3, 1.2),
    "Beta": (2.0, 3.0),
    "Cauchy": (0.3, 1.2),
    "Chi2": (5.0,),
    "Exponential": (0.7,),
    "Gamma": (2.0, 1.5),
    "GeneralizedExtremeValue": (0.0, 1.0, 0.3),
    "GeneralizedNormal": (0.0, 1.0, 1.5),
    "GeneralizedPareto": (0.0, 1.0, 0.3),
    "Gumbel": (0.3, 1.2),
    "HalfCauchy": (0.0, 1.2),
    "HalfNormal": (1.2,),
    "InverseGamma": (4.1, 2.0),
    "JohnsonSU": (0.5, 1.0, 0.0, 1.0),
    "Kumaraswamy": (2.0, 3.0),
    "Laplace": (0.3, 1.2),
    "Logistic": (0.3, 1.2),
    "LogLogistic": (0.0, 1.3),
    "LogNormal": (0.3, 0.7),
    "LogitNormal": (0.3, 1.2),
    "Moyal": (0.3, 1.2),
    "NoncentralChi2": (3.0, 2.0),
    "PERT": (0.0, 1.0, 3.0),
    "SigmoidBeta": (2.0, 3.0),
    "SinhArcsinh": (0.5, 1.0, 0.3, 1.2),
    "StudentT": (4.0, 0.0, 1.2),
    "TruncatedNormal": (0.0, 1.0, -1.1, 2.7),
    "TwoPieceNormal": (0.0, 1.0, 1.5),
    "TwoPieceStudentT": (4.0, 0.0, 1.0, 1.5),
    "Uniform": (-1.0, 3.0),
    "Weibull": (1.8, 1.2),
}
WITHOUT_QUANTILES: dict[str, tuple[float, ...]] = {
    "ExponentiallyModifiedGaussian": (0.0, 1.0, 0.7),
    "InverseGaussian": (1.2, 2.0),
    "Pareto": (2.6, 1.0),
    "Triangular": (-1.0, 2.0, 0.5),
}
WITHOUT_FUNCTIONS: dict[str, tuple[float, ...]] = {
    "BetaQuotient": (2.0, 3.0, 1.5, 2.5),
    "DoublesidedMaxwell": (0.3, 1.2),
    "Horseshoe": (0.3,),
    "NormalInverseGaussian": (0.0, 1.0, 2.0, 0.5),
}


def named(table: dict[str, tuple[float, ...]]) -> Builders:
    """The distributions of a table."""
    from tensorflow_probability.substrates.jax import distributions as tfd

    def made(name: str) -> Callable[..., Any]:
        return lambda: getattr(tfd, name)(*table[name])

    return {f"distributions.{name}": (made(name), ()) for name in table}


def univariate() -> Builders:
    """Name -> builder of a univariate distribution with distribution function and quantiles."""
    return named(UNIVARIATE)


def without_quantiles() -> Builders:
    """Name -> builder of a univariate distribution without quantiles."""
    return named(WITHOUT_QUANTILES)


def without_functions() -> Builders:
    """Name -> builder of a univariate distribution with neither."""
    return named(WITHOUT_FUNCTIONS)
