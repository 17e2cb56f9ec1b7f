"""Constructions of the size-preserving transforms of NumPyro, and of distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# A builder with its event shape.
Builders = dict[str, tuple[Callable[..., Any], tuple[int, ...]]]


def vector(low: float = 0.5, high: float = 2.0, size: int = 4) -> Any:
    """Evenly spaced numbers, ``(size,)``."""
    import jax.numpy as jnp

    return jnp.linspace(low, high, size)


def lower(size: int = 4) -> Any:
    """A well-conditioned lower triangular matrix, ``(size, size)``."""
    import jax.numpy as jnp

    entries = jnp.sin(jnp.arange(1.0, size * size + 1).reshape(size, size))
    return jnp.tril(entries) + 2 * jnp.eye(size)


def full(size: int = 4) -> Any:
    """A well-conditioned matrix, ``(size, size)``."""
    import jax.numpy as jnp

    return jnp.sin(jnp.arange(1.0, size * size + 1).reshape(size, size)) + 2 * jnp.eye(size)


def autoregressive(skip: bool = False) -> Any:
    """An autoregressive network with its weights."""
    import jax
    from numpyro.nn import AutoregressiveNN

    init, apply = AutoregressiveNN(4, [8], param_dims=[1, 1], skip_connections=skip)
    _, params = init(jax.random.key(0), (4,))
    return lambda x: apply(params, x)


def block_autoregressive(residual: str | None = None) -> Any:
    """A block neural autoregressive network with its weights."""
    import jax
    from numpyro.nn import BlockNeuralAutoregressiveNN

    init, apply = BlockNeuralAutoregressiveNN(3, [4], residual=residual)
    _, params = init(jax.random.key(0), (3,))
    return lambda x: apply(params, x)


def transforms() -> Builders:
    """Name -> builder of a transform."""
    import jax.numpy as jnp
    import numpyro.distributions.transforms as nt
    from numpyro.distributions.flows import InverseAutoregressiveTransform

    return {
        "AffineTransform": (lambda: nt.AffineTransform(vector(-1, 1), vector()), (4,)),
        "AffineTransform[negative]": (
            lambda: nt.AffineTransform(vector(-1, 1), vector(-2, -0.5)), (4,)
        ),
        "ExpTransform": (lambda: nt.ExpTransform(), (4,)),
        "SigmoidTransform": (lambda: nt.SigmoidTransform(), (4,)),
        "SoftplusTransform": (lambda: nt.SoftplusTransform(), (4,)),
        "IdentityTransform": (lambda: nt.IdentityTransform(), (4,)),
        "PowerTransform[2]": (lambda: nt.PowerTransform(2.0), (4,)),
        "PowerTransform[-1.5]": (lambda: nt.PowerTransform(-1.5), (4,)),
        "PermuteTransform": (lambda: nt.PermuteTransform(jnp.array([2, 0, 3, 1])), (4,)),
        "OrderedTransform": (lambda: nt.OrderedTransform(), (4,)),
        "LowerCholeskyAffine": (lambda: nt.LowerCholeskyAffine(vector(), lower()), (4,)),
        "ComposeTransform": (
            lambda: nt.ComposeTransform(
                [nt.AffineTransform(1.0, 2.0), nt.SigmoidTransform(), nt.AffineTransform(-1.0, 2.0)]
            ),
            (4,),
        ),
        "ComposeTransform[vector]": (
            lambda: nt.ComposeTransform(
                [nt.LowerCholeskyAffine(vector(), lower()), nt.ExpTransform()]
            ),
            (4,),
        ),
        "ComposeTransform[ordered,affine]": (
            lambda: nt.ComposeTransform([nt.OrderedTransform(), nt.AffineTransform(1.0, 2.0)]), (4,)
        ),
        "CatTransform": (
            lambda: nt.CatTransform(
                [nt.ExpTransform(), nt.AffineTransform(1.0, 2.0)], dim=-1, lengths=[2, 2]
            ),
            (4,),
        ),
        "L1BallTransform": (lambda: nt.L1BallTransform(), (4,)),
        "ReshapeTransform": (lambda: nt.ReshapeTransform((2, 2), (4,)), (4,)),
        "CorrCholeskyTransform": (lambda: nt.CorrCholeskyTransform(), (3,)),
        "CorrMatrixCholeskyTransform.inv": (
            lambda: nt.ComposeTransform(
                [nt.CorrCholeskyTransform(), nt.CorrMatrixCholeskyTransform().inv]
            ),
            (3,),
        ),
        "LowerCholeskyTransform": (lambda: nt.LowerCholeskyTransform(), (6,)),
        "ScaledUnitLowerCholeskyTransform": (lambda: nt.ScaledUnitLowerCholeskyTransform(), (6,)),
        "SoftplusLowerCholeskyTransform": (lambda: nt.SoftplusLowerCholeskyTransform(), (6,)),
        "CholeskyTransform.inv": (
            lambda: nt.ComposeTransform([nt.LowerCholeskyTransform(), nt.CholeskyTransform().inv]),
            (6,),
        ),
        "SimplexToOrderedTransform": (lambda: nt.SimplexToOrderedTransform(0.5), (4,)),
        "ZeroSumTransform": (lambda: nt.ZeroSumTransform(1), (4,)),
        "ZeroSumTransform[2-d]": (lambda: nt.ZeroSumTransform(2), (2, 3)),
        "IndependentTransform": (
            lambda: nt.IndependentTransform(nt.SoftplusTransform(), 1), (4,)
        ),
        "RecursiveLinearTransform": (
            lambda: nt.RecursiveLinearTransform(0.3 * lower(2)), (5, 2)
        ),
        "RecursiveLinearTransform[full]": (
            lambda: nt.RecursiveLinearTransform(0.3 * full(2)), (5, 2)
        ),
        "HaarTransform": (lambda: nt.HaarTransform(-1), (4,)),
        "HaarTransform[flip,odd]": (lambda: nt.HaarTransform(-1, flip=True), (5,)),
        "DiscreteCosineTransform": (lambda: nt.DiscreteCosineTransform(), (4,)),
        "DiscreteCosineTransform[smooth]": (
            lambda: nt.DiscreteCosineTransform(smooth=0.5), (4,)
        ),
        "ExpTransform.inv": (lambda: nt.ExpTransform().inv, (4,)),
        "InverseAutoregressiveTransform": (
            lambda: InverseAutoregressiveTransform(autoregressive()), (4,)
        ),
        "InverseAutoregressiveTransform[skip]": (
            lambda: InverseAutoregressiveTransform(autoregressive(skip=True)), (4,)
        ),
    }  # fmt: skip


def onto_simplex() -> Builders:
    """Name -> builder of a transform of vectors onto a simplex."""
    import numpyro.distributions.transforms as nt

    return {"StickBreakingTransform": (lambda: nt.StickBreakingTransform(), (4,))}


def one_way() -> Builders:
    """Name -> builder of a transform whose inverse is not implemented."""
    from numpyro.distributions.flows import BlockNeuralAutoregressiveTransform

    return {
        "BlockNeuralAutoregressiveTransform": (
            lambda: BlockNeuralAutoregressiveTransform(block_autoregressive()), (3,)
        ),
        "BlockNeuralAutoregressiveTransform[gated]": (
            lambda: BlockNeuralAutoregressiveTransform(block_autoregressive("gated")), (3,)
        ),
    }  # fmt: skip


def flows() -> Builders:
    """Name -> builder of a distribution with transformed latents."""
    import jax.numpy as jnp
    import numpyro.distributions as nd
    import numpyro.distributions.transforms as nt
    from numpyro.distributions.flows import InverseAutoregressiveTransform

    def base(size: int) -> Any:
        return nd.Normal(jnp.zeros(size), 1.0).to_event(1)

    return {
        "TransformedDistribution[exp]": (
            lambda: nd.TransformedDistribution(base(2), nt.ExpTransform()), (2,)
        ),
        "TransformedDistribution[affine]": (
            lambda: nd.TransformedDistribution(
                base(2), [nt.LowerCholeskyAffine(vector(size=2), lower(2)), nt.ExpTransform()]
            ),
            (2,),
        ),
        "TransformedDistribution[iaf]": (
            lambda: nd.TransformedDistribution(
                base(4),
                [
                    InverseAutoregressiveTransform(autoregressive()),
                    nt.PermuteTransform(jnp.array([3, 2, 1, 0])),
                    InverseAutoregressiveTransform(autoregressive()),
                ],
            ),
            (4,),
        ),
    }  # fmt: skip


def distributions() -> Builders:
    """Name -> builder of a distribution of vectors."""
    import jax.numpy as jnp
    import numpyro.distributions as nd

    return {
        "distributions.Normal": (lambda: nd.Normal(jnp.zeros(2), vector(size=2)).to_event(1), (2,)),
        "distributions.LogNormal": (
            lambda: nd.LogNormal(jnp.zeros(2), vector(size=2)).to_event(1), (2,)
        ),
        "distributions.MultivariateNormal": (
            lambda: nd.MultivariateNormal(vector(size=2), scale_tril=lower(2)), (2,)
        ),
        "distributions.Gumbel": (lambda: nd.Gumbel(jnp.zeros(2), 2.0).to_event(1), (2,)),
        "distributions.Kumaraswamy": (
            lambda: nd.Kumaraswamy(2.0 * jnp.ones(2), 3.0).to_event(1), (2,)
        ),
        "distributions.LowRankMultivariateNormal": (
            lambda: nd.LowRankMultivariateNormal(
                vector(size=2), jnp.ones((2, 1)), vector(size=2)
            ),
            (2,),
        ),
        "distributions.LogUniform": (lambda: nd.LogUniform(jnp.ones(2), 3.0).to_event(1), (2,)),
    }  # fmt: skip


def univariate() -> Builders:
    """Name -> builder of a univariate distribution with quantiles."""
    import numpyro.distributions as nd

    def distribution(name: str, *values: float) -> Callable[..., Any]:
        return lambda: getattr(nd, name)(*values)

    parameters: dict[str, tuple[float, ...]] = {
        "AsymmetricLaplace": (0.3, 1.2, 0.8),
        "Cauchy": (0.3, 1.2),
        "Exponential": (1.5,),
        "Gompertz": (1.2, 0.5),
        "HalfCauchy": (1.2,),
        "HalfNormal": (1.2,),
        "Laplace": (0.3, 1.2),
        "Logistic": (0.3, 1.2),
        "Pareto": (1.0, 3.0),
        "Uniform": (-1.0, 2.0),
    }
    found = {name: (distribution(name, *values), ()) for name, values in parameters.items()}
    return {f"distributions.{name}": row for name, row in found.items()} | {
        "distributions.Normal[0-d]": (distribution("Normal", 0.3, 1.2), ())
    }
