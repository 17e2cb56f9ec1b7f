"""Constructions of the bijections, flows and distributions of bijx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# A builder with its event shape, which objects do not state.
Builders = dict[str, tuple[Callable[..., Any], tuple[int, ...]]]
EVENT = (4,)


def vector(low: float = 0.5, high: float = 2.0, size: int = 4) -> Any:
    """Evenly spaced numbers, ``(size,)``."""
    import jax.numpy as jnp

    return jnp.linspace(low, high, size)


def rngs() -> Any:
    """Random states for flax."""
    from flax import nnx

    return nnx.Rngs(0)


def perturbed_arrays(obj: Any, scale: float = 0.3) -> Any:
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
    """Name -> builder of a bijection. Flows by ODE steps are left out: neither their inverse nor their
    log-det belongs to the discretized map, and no accuracy is stated.
    """
    import bijx
    import jax.numpy as jnp
    from flax import nnx

    normal = nnx.initializers.normal(1.0)
    inits = {"widths_init": normal, "heights_init": normal, "slopes_init": normal}
    found: dict[str, Callable[..., Any]] = {
        "Bijection[identity]": lambda: bijx.Bijection(),
        "AffineLinear": lambda: bijx.AffineLinear(vector(-0.5, 0.5), vector(), rngs=rngs()),
        "AffineLinear[scalar]": lambda: perturbed_arrays(bijx.AffineLinear(rngs=rngs())),
        "Scaling": lambda: bijx.Scaling(vector(-2, -0.5)),
        "Shift": lambda: bijx.Shift(vector()),
        "GaussianCDF": lambda: perturbed_arrays(bijx.GaussianCDF(rngs=rngs())),
        "Tan": lambda: bijx.Tan(),
        "Sigmoid": lambda: bijx.Sigmoid(),
        "Tanh": lambda: bijx.Tanh(),
        "Exponential": lambda: bijx.Exponential(),
        "SoftPlus": lambda: bijx.SoftPlus(),
        "Power": lambda: bijx.Power(jnp.array(1.7)),
        "Sinh": lambda: bijx.Sinh(),
        "BetaStretch": lambda: perturbed_arrays(bijx.BetaStretch(rngs=rngs())),
        "CubicRational": lambda: perturbed_arrays(bijx.CubicRational(rngs=rngs())),
        "SinhConjugation": lambda: perturbed_arrays(bijx.SinhConjugation(rngs=rngs())),
        "CubicConjugation": lambda: perturbed_arrays(bijx.CubicConjugation(rngs=rngs())),
        "MonotoneRQSpline": lambda: bijx.MonotoneRQSpline(6, (4,), **inits, rngs=rngs()),
        "Radial[power]": lambda: bijx.Radial(
            bijx.Power(jnp.array(1.5)),
            center=jnp.zeros(4),
            scale=vector(-0.3, 0.3),
            rngs=rngs(),
        ),
        "Radial[cubic ray]": lambda: bijx.Radial(
            bijx.RayTransform(perturbed_arrays(bijx.CubicRational(rngs=rngs()))),
            center=jnp.zeros(4),
            scale=jnp.zeros(4),
            rngs=rngs(),
        ),
        "Chain": lambda: bijx.Chain(bijx.Scaling(vector()), bijx.Tanh(), bijx.Shift(vector())),
        "Inverse[Tanh]": lambda: bijx.Inverse(bijx.Tanh()),
        "Inverse[Scaling]": lambda: bijx.Inverse(bijx.Scaling(vector())),
        "CondInverse": lambda: bijx.CondInverse(bijx.Scaling(vector()), True),
        "Frozen[Scaling]": lambda: bijx.Frozen(bijx.Scaling(vector())),
        "ScanChain": lambda: bijx.ScanChain(bijx.Scaling(jnp.stack([vector(), vector(1, 3)]))),
        "Reshape": lambda: bijx.Chain(bijx.Reshape((4,), (2, 2)), bijx.Tanh()),
        "ExpandDims": lambda: bijx.ExpandDims(),
    }
    return {name: (build, EVENT) for name, build in found.items()} | {
        "SpectrumScaling": (
            # The scaling of a real field: equal at k and -k.
            lambda: bijx.SpectrumScaling(
                1.0 + jnp.array([0.0, 1, 2, 1])[:, None] + jnp.arange(3.0)
            ),
            (4, 4),
        ),
        "FreeTheoryScaling": (lambda: bijx.FreeTheoryScaling(1.0, (4, 4)), (4, 4)),
        "FreeTheoryScaling[odd]": (lambda: bijx.FreeTheoryScaling(0.5, (3, 5)), (3, 5)),
    }


def flows() -> Builders:
    """Name -> builder of a transformed distribution of four entries."""
    import bijx

    net = {"n_coupling_layers": 2, "width": 8, "depth": 1}

    def transformed(bijection: Any) -> Any:
        return bijx.Transformed(bijx.IndependentNormal((4,), rngs=rngs()), bijection)

    def coupled(layer: Callable[..., Any], **options: Any) -> Any:
        return transformed(bijx.coupling_flow(4, layer, **net, **options, rngs=rngs()))

    def affine(rngs: Any) -> Any:
        return bijx.AffineLinear(rngs=rngs)

    found: dict[str, Callable[..., Any]] = {
        "coupling_flow[affine]": lambda: coupled(affine),
        "coupling_flow[affine,copies=2]": lambda: coupled(affine, n_copies=2),
        "coupling_flow[spline]": lambda: coupled(
            lambda rngs: bijx.MonotoneRQSpline(4, (), rngs=rngs)
        ),
        "coupling_flow[cubic]": lambda: coupled(
            bijx.init_for("cubic", architecture="coupling", depth=2)
        ),
        "realnvp_flow": lambda: transformed(bijx.realnvp_flow(4, **net, rngs=rngs())),
    }
    return {name: (build, EVENT) for name, build in found.items()}


def distributions() -> Builders:
    """Name -> builder of a distribution without a bijection."""
    import bijx

    two = {name: vector(size=2) for name in ("mean", "scales")}
    found: dict[str, Callable[..., Any]] = {
        "IndependentNormal": lambda: bijx.IndependentNormal((2,), rngs=rngs()),
        "MultivariateNormal": lambda: bijx.MultivariateNormal(two["mean"], rngs=rngs()),
        "DiagonalNormal": lambda: bijx.DiagonalNormal(two["mean"], two["scales"], rngs=rngs()),
    }
    return {name: (build, (2,)) for name, build in found.items()}
