"""A construction of most bijections and flows of bijx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Builders = dict[str, Callable[..., Any]]


def vector(low: float = 0.5, high: float = 2.0, size: int = 4) -> Any:
    """Evenly spaced numbers."""
    import jax.numpy as jnp

    return jnp.linspace(low, high, size)


def rngs() -> Any:
    """The random states that flax takes."""
    from flax import nnx

    return nnx.Rngs(0)


def bent(obj: Any, scale: float = 0.3) -> Any:
    """An object whose arrays are no longer those of the identity."""
    import jax
    import jax.numpy as jnp

    leaves, tree = jax.tree.flatten(obj)
    moved = [
        leaf + scale * jax.random.normal(jax.random.fold_in(jax.random.key(2), index), leaf.shape)
        if jnp.issubdtype(leaf.dtype, jnp.floating)
        else leaf
        for index, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(tree, moved)


def bijections() -> Builders:
    """Name -> builder of a bijection of events of four entries."""
    import bijx
    import jax.numpy as jnp

    return {
        "AffineLinear": lambda: bijx.AffineLinear(vector(-0.5, 0.5), vector(), rngs=rngs()),
        "Scaling": lambda: bijx.Scaling(vector(-2, -0.5)),
        "Shift": lambda: bijx.Shift(vector()),
        "GaussianCDF": lambda: bent(bijx.GaussianCDF(rngs=rngs())),
        "Tan": lambda: bijx.Tan(),
        "Sigmoid": lambda: bijx.Sigmoid(),
        "Tanh": lambda: bijx.Tanh(),
        "Exponential": lambda: bijx.Exponential(),
        "SoftPlus": lambda: bijx.SoftPlus(),
        "Power": lambda: bijx.Power(jnp.array(1.7)),
        "Sinh": lambda: bijx.Sinh(),
        "BetaStretch": lambda: bent(bijx.BetaStretch(rngs=rngs())),
        "CubicRational": lambda: bent(bijx.CubicRational(rngs=rngs())),
        "SinhConjugation": lambda: bent(bijx.SinhConjugation(rngs=rngs())),
        "CubicConjugation": lambda: bent(bijx.CubicConjugation(rngs=rngs())),
        "Chain": lambda: bijx.Chain(bijx.Scaling(vector()), bijx.Tanh(), bijx.Shift(vector())),
        "Inverse[Tanh]": lambda: bijx.Inverse(bijx.Tanh()),
        "ScanChain": lambda: bijx.ScanChain(bijx.Scaling(jnp.stack([vector(), vector(1, 3)]))),
    }


def flows() -> Builders:
    """Name -> builder of a transformed distribution of four entries."""
    import bijx

    net = {"n_coupling_layers": 2, "width": 8, "depth": 1}

    def transformed(bijection: Any) -> Any:
        return bijx.Transformed(bijx.IndependentNormal((4,), rngs=rngs()), bijection)

    def affine() -> Any:
        layer = lambda rngs: bijx.AffineLinear(rngs=rngs)  # noqa: E731  # as its documentation writes it
        return transformed(bijx.coupling_flow(4, layer, **net, rngs=rngs()))

    return {
        "coupling_flow[affine]": affine,
        "realnvp_flow": lambda: transformed(bijx.realnvp_flow(4, **net, rngs=rngs())),
    }
