"""Constructions of the bijectors of distrax, flows made of them, and some distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.jax_distributions import lower, vector

# A builder with its event shape.
Builders = dict[str, tuple[Callable[..., Any], tuple[int, ...]]]
BINS = 4


def conditioner(size: int, outputs: int, seed: int = 0) -> Any:
    """A two-layer network with its weights as leaves."""
    import jax
    import jax.numpy as jnp

    def network(weights: Any, x: Any) -> Any:
        first, second = weights
        out = jnp.tanh(x @ first) @ second
        return out.reshape(*x.shape[:-1], size, outputs)

    first, second = jax.random.split(jax.random.key(seed))
    weights = (
        jax.random.normal(first, (size, 8)),
        0.3 * jax.random.normal(second, (8, size * outputs)),
    )
    return jax.tree_util.Partial(network, weights)


def coupling(size: int = 4, seed: int = 0, spline: bool = False) -> Any:
    """A coupling that keeps the first half, or with an odd seed the second."""
    import distrax
    import jax.numpy as jnp

    def affine(parameters: Any) -> Any:
        return distrax.ScalarAffine(shift=parameters[..., 0], log_scale=parameters[..., 1])

    def bent(parameters: Any) -> Any:
        return distrax.RationalQuadraticSpline(parameters, range_min=-3.0, range_max=3.0)

    return distrax.MaskedCoupling(
        mask=(jnp.arange(size) < size // 2) == (seed % 2 == 0),
        conditioner=conditioner(size, 3 * BINS + 1 if spline else 2, seed),
        bijector=bent if spline else affine,
    )


def bijectors() -> Builders:
    """Name -> builder of a bijector."""
    import distrax
    import jax.numpy as jnp

    return {
        "Tanh": (distrax.Tanh, (4,)),
        "Sigmoid": (distrax.Sigmoid, (4,)),
        "GumbelCDF": (distrax.GumbelCDF, (4,)),
        "Lambda": (lambda: distrax.Lambda(jnp.sinh), (4,)),
        "ScalarAffine": (lambda: distrax.ScalarAffine(vector(-1, 1), vector()), (4,)),
        "ScalarAffine[log]": (
            lambda: distrax.ScalarAffine(vector(-1, 1), log_scale=vector(-1, 1)), (4,)
        ),
        "Shift": (lambda: distrax.Shift(vector(-1, 1)), (4,)),
        "DiagLinear": (lambda: distrax.DiagLinear(vector()), (4,)),
        "DiagPlusLowRankLinear": (
            lambda: distrax.DiagPlusLowRankLinear(vector(), lower()[:, :1], lower()[:, 1:2]), (4,)
        ),
        "TriangularLinear": (lambda: distrax.TriangularLinear(lower()), (4,)),
        "TriangularLinear[upper]": (
            lambda: distrax.TriangularLinear(lower().T, is_lower=False), (4,)
        ),
        "LowerUpperTriangularAffine": (
            lambda: distrax.LowerUpperTriangularAffine(lower() + lower().T, vector(-1, 1)), (4,)
        ),
        "UnconstrainedAffine": (
            lambda: distrax.UnconstrainedAffine(lower() + lower().T, vector(-1, 1)), (4,)
        ),
        "RationalQuadraticSpline": (
            lambda: distrax.RationalQuadraticSpline(
                jnp.sin(jnp.arange(4.0 * (3 * BINS + 1))).reshape(4, -1), -3.0, 3.0
            ),
            (4,),
        ),
        "MaskedCoupling": (coupling, (4,)),
        "MaskedCoupling[spline]": (lambda: coupling(spline=True), (4,)),
        "SplitCoupling": (
            lambda: distrax.SplitCoupling(
                2,
                1,
                conditioner(2, 2),
                lambda out: distrax.ScalarAffine(shift=out[..., 0], log_scale=out[..., 1]),
            ),
            (4,),
        ),
        "Block": (lambda: distrax.Block(distrax.Tanh(), 1), (4,)),
        "Inverse[Sigmoid]": (lambda: distrax.Inverse(distrax.Sigmoid()), (4,)),
        "Chain": (
            lambda: distrax.Chain(
                [distrax.Block(distrax.Tanh(), 1), distrax.TriangularLinear(lower()), coupling()]
            ),
            (4,),
        ),
    }  # fmt: skip


def flows() -> Builders:
    """Name -> builder of a distribution whose latents a bijector transforms."""
    import distrax
    import jax.numpy as jnp

    def base(size: int) -> Any:
        return distrax.MultivariateNormalDiag(jnp.zeros(size), vector(size=size))

    return {
        "Transformed[Chain]": (
            lambda: distrax.Transformed(base(2), distrax.Chain([coupling(2, 0), coupling(2, 1)])),
            (2,),
        ),
        "Transformed[Sigmoid]": (
            lambda: distrax.Transformed(base(2), distrax.Block(distrax.Sigmoid(), 1)), (2,)
        ),
    }  # fmt: skip


def distributions() -> Builders:
    """Name -> builder of a distribution of vectors, or of scalars without a distribution function."""
    import distrax
    import jax.numpy as jnp

    def mixture() -> Any:
        kinds = distrax.MultivariateNormalDiag(jnp.array([[0.0, 1.0], [2.0, -1.0]]))
        return distrax.MixtureSameFamily(distrax.Categorical(probs=jnp.array([0.3, 0.7])), kinds)

    return {
        "distributions.Normal[batch]": (
            lambda: distrax.Normal(vector(-1, 1, 2), vector(size=2)), (2,)
        ),
        "distributions.Independent": (
            lambda: distrax.Independent(distrax.Laplace(jnp.zeros(2), vector(size=2)), 1), (2,)
        ),
        "distributions.MultivariateNormalTri": (
            lambda: distrax.MultivariateNormalTri(vector(-1, 1, 2), lower(2)), (2,)
        ),
        "distributions.MultivariateNormalFullCovariance": (
            lambda: distrax.MultivariateNormalFullCovariance(
                vector(-1, 1, 2), lower(2) @ lower(2).T
            ),
            (2,),
        ),
        "distributions.Dirichlet": (lambda: distrax.Dirichlet(jnp.array([1.5, 2.0, 3.0])), (3,)),
        "distributions.MixtureSameFamily": (mixture, (2,)),
    }  # fmt: skip


def univariate() -> Builders:
    """Name -> builder of a univariate distribution with a distribution function."""
    import distrax

    return {
        "distributions.Normal": (lambda: distrax.Normal(0.3, 1.2), ()),
        "distributions.Beta": (lambda: distrax.Beta(2.0, 3.0), ()),
        "distributions.Gamma": (lambda: distrax.Gamma(2.0, 1.5), ()),
        "distributions.Gumbel": (lambda: distrax.Gumbel(0.3, 1.2), ()),
        "distributions.Laplace": (lambda: distrax.Laplace(0.3, 1.2), ()),
        "distributions.Logistic": (lambda: distrax.Logistic(0.3, 1.2), ()),
        "distributions.LogStddevNormal": (lambda: distrax.LogStddevNormal(0.3, 0.2), ()),
        "distributions.Uniform": (lambda: distrax.Uniform(-1.0, 3.0), ()),
    }
