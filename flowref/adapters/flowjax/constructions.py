"""Constructions of all bijections and flows of FlowJAX, and of some distributions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

Builders = dict[str, Callable[..., Any]]
NET: dict[str, int] = {"nn_width": 8, "nn_depth": 1}


def vector(low: float = 0.5, high: float = 2.0, size: int = 4) -> Any:
    """Evenly spaced numbers, ``(size,)``."""
    import jax.numpy as jnp

    return jnp.linspace(low, high, size)


def lower(size: int = 4) -> Any:
    """A well-conditioned lower triangular matrix, ``(size, size)``."""
    import jax.numpy as jnp

    entries = jnp.sin(jnp.arange(1.0, size * size + 1).reshape(size, size))
    return jnp.tril(entries) + 2 * jnp.eye(size)


def key(seed: int = 0) -> Any:
    import jax

    return jax.random.key(seed)


def perturbed_spline(spline: Any, key: Any) -> Any:
    import equinox as eqx
    import jax

    leaves, tree = jax.tree.flatten(spline)
    moved = [
        leaf + jax.random.normal(jax.random.fold_in(key, index), leaf.shape)
        if eqx.is_inexact_array(leaf)
        else leaf
        for index, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(tree, moved)


def splines(size: int = 4, **options: Any) -> Any:
    """One spline per coordinate."""
    import equinox as eqx
    import flowjax.bijections as fb
    import jax

    given = {"knots": 6, "interval": 3.0} | options
    make = eqx.filter_vmap(lambda one: perturbed_spline(fb.RationalQuadraticSpline(**given), one))
    return fb.Vmap(make(jax.random.split(key(1), size)), in_axes=eqx.if_array(0))


def base(size: int = 4) -> Any:
    """A standard normal distribution."""
    import flowjax.distributions as fd
    import jax.numpy as jnp

    return fd.Normal(jnp.zeros(size))


def bijections() -> Builders:
    """Name -> builder of an invertible bijection."""
    import equinox as eqx
    import flowjax.bijections as fb
    import jax.numpy as jnp
    from flowjax.root_finding import (
        bisect_check_expand_search,
        bisection_search,
        root_finder_to_inverter,
    )

    bisection = partial(bisection_search, lower=-5.0, upper=5.0)
    # As in `block_neural_autoregressive_flow`.
    search = partial(bisect_check_expand_search, midpoint=jnp.zeros(4), width=5)
    return {
        "Affine": lambda: fb.Affine(vector(-1, 1), vector()),
        "Affine[default]": lambda: fb.Vmap(fb.Affine(0.5, 3.0), axis_size=4),
        "Loc": lambda: fb.Loc(vector()),
        "Scale": lambda: fb.Scale(vector()),
        "TriangularAffine": lambda: fb.TriangularAffine(vector(), lower()),
        "TriangularAffine[upper]": lambda: fb.TriangularAffine(vector(), lower().T, lower=False),
        "AdditiveCondition": lambda: fb.AdditiveCondition(
            eqx.nn.Linear(2, 4, key=key()), (4,), (2,)
        ),
        "Exp": lambda: fb.Exp((4,)),
        "Sigmoid": lambda: fb.Sigmoid((4,)),
        "SoftPlus": lambda: fb.SoftPlus((4,)),
        "Tanh": lambda: fb.Tanh((4,)),
        "LeakyTanh": lambda: fb.LeakyTanh(2.0, (4,)),
        "Power[2]": lambda: fb.Power(2.0, (4,)),
        "Power[-0.5]": lambda: fb.Power(-0.5, (4,)),
        "Permute": lambda: fb.Permute(jnp.array([2, 0, 3, 1])),
        "Permute[2-d]": lambda: fb.Permute(jnp.array([[3, 1], [0, 2]])),
        "Flip": lambda: fb.Flip((4,)),
        "Identity": lambda: fb.Identity((4,)),
        "Householder": lambda: fb.Householder(vector(-1, 2)),
        "DiscreteCosine": lambda: fb.DiscreteCosine((4,)),
        "DiscreteCosine[2-d,axis=0]": lambda: fb.DiscreteCosine((2, 3), axis=0),
        "Planar[leaky]": lambda: fb.Planar(key(), dim=4, negative_slope=0.1),
        "Planar[cond]": lambda: fb.Planar(
            key(), dim=4, cond_dim=2, negative_slope=0.1, width_size=8, depth=1
        ),
        "Coupling[affine]": lambda: fb.Coupling(
            key(), transformer=fb.Affine(), untransformed_dim=2, dim=4, **NET
        ),
        "Coupling[affine,cond]": lambda: fb.Coupling(
            key(), transformer=fb.Affine(), untransformed_dim=2, dim=4, cond_dim=2, **NET
        ),
        "Coupling[spline]": lambda: fb.Coupling(
            key(),
            transformer=fb.RationalQuadraticSpline(knots=4, interval=3),
            untransformed_dim=1,
            dim=3,
            **NET,
        ),
        "MaskedAutoregressive[affine]": lambda: fb.MaskedAutoregressive(
            key(), transformer=fb.Affine(), dim=4, **NET
        ),
        "MaskedAutoregressive[spline]": lambda: fb.MaskedAutoregressive(
            key(), transformer=fb.RationalQuadraticSpline(knots=4, interval=3), dim=3, **NET
        ),
        "MaskedAutoregressive[cond]": lambda: fb.MaskedAutoregressive(
            key(), transformer=fb.Affine(), dim=4, cond_dim=2, **NET
        ),
        "RationalQuadraticSpline": lambda: perturbed_spline(
            fb.RationalQuadraticSpline(knots=6, interval=3.0), key(3)
        ),
        "Vmap[splines]": lambda: splines(4),
        "Vmap[splines,interval=(-1,4)]": lambda: splines(interval=(-1.0, 4.0)),
        "Vmap[splines,min_derivative=0.1]": lambda: splines(min_derivative=0.1, min_width=0.01),
        "Chain": lambda: fb.Chain(
            [fb.Affine(vector(), vector()), fb.Tanh((4,)), fb.Affine(vector(), vector())]
        ),
        "Invert[Affine]": lambda: fb.Invert(fb.Affine(vector(), vector())),
        "Invert[Exp]": lambda: fb.Invert(fb.Exp((4,))),
        "Concatenate": lambda: fb.Concatenate(
            [fb.Affine(vector(size=2), vector(size=2)), fb.Exp((2,))]
        ),
        "Concatenate[axis=1]": lambda: fb.Concatenate(
            [fb.Affine(jnp.ones((2, 1)), 2 * jnp.ones((2, 1))), fb.SoftPlus((2, 2))], axis=1
        ),
        "Stack": lambda: fb.Stack([fb.Affine(vector(size=2), vector(size=2)), fb.SoftPlus((2,))]),
        "Stack[axis=-1]": lambda: fb.Stack(
            [fb.Affine(vector(size=2), vector(size=2)), fb.SoftPlus((2,))], axis=-1
        ),
        "Reshape": lambda: fb.Reshape(fb.Affine(vector(), vector()), (2, 2)),
        "Indexed": lambda: fb.Indexed(fb.Exp((2,)), jnp.array([0, 2]), (4,)),
        "Indexed[slice]": lambda: fb.Indexed(fb.SoftPlus((2,)), slice(1, 3), (4,)),
        "EmbedCondition": lambda: fb.EmbedCondition(
            fb.Coupling(
                key(), transformer=fb.Affine(), untransformed_dim=2, dim=4, cond_dim=3, **NET
            ),
            eqx.nn.Linear(2, 3, key=key()),
            (2,),
        ),
        "Sandwich": lambda: fb.Sandwich(
            fb.Affine(vector(), vector()), fb.TriangularAffine(vector(), lower())
        ),
        "Vmap[Affine,2-d]": lambda: fb.Vmap(fb.Affine(vector(), vector()), axis_size=3),
        "NumericalInverse[bisection]": lambda: fb.Vmap(
            fb.NumericalInverse(fb.Affine(0.5, 3.0), root_finder_to_inverter(bisection)),
            axis_size=4,
        ),
        "NumericalInverse[search]": lambda: fb.NumericalInverse(
            fb.Affine(vector(-1, 1), vector()), root_finder_to_inverter(search)
        ),
        "Scan[Affine]": lambda: fb.Scan(
            eqx.filter_vmap(fb.Affine)(jnp.ones((3, 4)), 2 * jnp.ones((3, 4)))
        ),
    }


def one_way() -> Builders:
    """Name -> builder of a bijection whose inverse is not implemented."""
    import flowjax.bijections as fb

    return {
        "Planar[tanh]": lambda: fb.Planar(key(), dim=4),
        "BlockAutoregressiveNetwork": lambda: fb.BlockAutoregressiveNetwork(
            key(), dim=4, depth=1, block_dim=4
        ),
        "BlockAutoregressiveNetwork[cond]": lambda: fb.BlockAutoregressiveNetwork(
            key(), dim=3, cond_dim=2, depth=2, block_dim=3
        ),
    }


def flows() -> Builders:
    """Name -> builder of a distribution that a bijection transforms."""
    import flowjax.bijections as fb
    import flowjax.distributions as fd
    import flowjax.flows as ff
    import jax.numpy as jnp

    return {
        "coupling_flow": lambda: ff.coupling_flow(key(), base_dist=base(), flow_layers=3, **NET),
        "coupling_flow[spline]": lambda: ff.coupling_flow(
            key(),
            base_dist=base(),
            transformer=fb.RationalQuadraticSpline(knots=4, interval=3),
            flow_layers=2,
            **NET,
        ),
        "coupling_flow[cond]": lambda: ff.coupling_flow(
            key(), base_dist=base(), cond_dim=2, flow_layers=2, **NET
        ),
        "coupling_flow[invert=False]": lambda: ff.coupling_flow(
            key(), base_dist=base(), flow_layers=2, invert=False, **NET
        ),
        "masked_autoregressive_flow": lambda: ff.masked_autoregressive_flow(
            key(), base_dist=base(), flow_layers=2, **NET
        ),
        "masked_autoregressive_flow[spline]": lambda: ff.masked_autoregressive_flow(
            key(),
            base_dist=base(2),
            transformer=fb.RationalQuadraticSpline(knots=4, interval=3),
            flow_layers=2,
            **NET,
        ),
        "masked_autoregressive_flow[cond]": lambda: ff.masked_autoregressive_flow(
            key(), base_dist=base(), cond_dim=2, flow_layers=2, **NET
        ),
        "block_neural_autoregressive_flow": lambda: ff.block_neural_autoregressive_flow(
            key(), base_dist=base(2), nn_depth=1, nn_block_dim=4
        ),
        "planar_flow[leaky]": lambda: ff.planar_flow(
            key(), base_dist=base(), flow_layers=3, negative_slope=0.1
        ),
        "planar_flow[cond]": lambda: ff.planar_flow(
            key(),
            base_dist=base(),
            cond_dim=2,
            flow_layers=2,
            negative_slope=0.1,
            width_size=8,
            depth=1,
        ),
        "triangular_spline_flow": lambda: ff.triangular_spline_flow(
            key(), base_dist=base(), flow_layers=2, knots=4
        ),
        "triangular_spline_flow[cond]": lambda: ff.triangular_spline_flow(
            key(), base_dist=base(), cond_dim=2, flow_layers=2, knots=4
        ),
        "LogNormal": lambda: fd.LogNormal(vector(-1, 1), vector()),
        "Transformed[Uniform->Sigmoid^-1]": lambda: fd.Transformed(
            fd.Uniform(jnp.zeros(2), jnp.ones(2)), fb.Invert(fb.Sigmoid((2,)))
        ),
    }


def distributions() -> Builders:
    """Name -> builder of one of the library's distributions, affine maps of standard ones."""
    import flowjax.distributions as fd
    import jax.numpy as jnp

    return {
        "distributions.Normal": lambda: fd.Normal(vector(-1, 1), vector()),
        "distributions.MultivariateNormal": lambda: fd.MultivariateNormal(
            vector(-1, 1), lower() @ lower().T
        ),
        "distributions.Uniform": lambda: fd.Uniform(-jnp.ones(2), 2 * jnp.ones(2)),
        "distributions.Gumbel": lambda: fd.Gumbel(vector(-1, 1), vector()),
        "distributions.Laplace": lambda: fd.Laplace(vector(-1, 1), vector()),
        "distributions.StudentT": lambda: fd.StudentT(5.0, vector(-1, 1), vector()),
        "distributions.Logistic": lambda: fd.Logistic(vector(-1, 1), vector()),
        "distributions.Exponential": lambda: fd.Exponential(vector()),
        "distributions.Cauchy": lambda: fd.Cauchy(vector(-1, 1), vector()),
        "distributions.Gamma": lambda: fd.Gamma(vector(2.0, 5.0), vector()),
    }


def densities() -> Builders:
    """Name -> builder of a distribution without a bijection."""
    import equinox as eqx
    import flowjax.distributions as fd
    import jax.numpy as jnp

    return {
        "distributions.StandardNormal": lambda: fd.StandardNormal((4,)),
        "distributions.Beta": lambda: fd.Beta(vector(1.5, 3.0, 2), vector(2.0, 4.0, 2)),
        "distributions.VmapMixture": lambda: fd.VmapMixture(
            eqx.filter_vmap(fd.Normal)(jnp.array([[-1.0, 0.0], [1.0, 2.0], [0.0, -1.0]])),
            weights=jnp.array([1.0, 2.0, 0.5]),
        ),
    }
