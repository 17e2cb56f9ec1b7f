"""Facts of scipy.stats distributions: event shapes, supports, and whether there is a density."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.torch_supports import interval
from flowref.adapters.scipy.calls import TURN
from flowref.model import Facts, Shape, Support, TargetError

# Frozen distributions, those of the 1.15 infrastructure, and vectors; distributions without
# parameters count as frozen.
FROZEN = "rv_continuous_frozen"
CONTINUOUS, DISCRETE = ("rv_continuous", FROZEN), ("rv_discrete", "rv_discrete_frozen")
NEW, NEW_DISCRETE = ("ContinuousDistribution", "Mixture"), "DiscreteDistribution"
VECTORS = ("multivariate_normal_frozen", "multivariate_t_frozen")
DENSITY_OF_KERNELS = "gaussian_kde"
# The cells of a discrete distribution: levels between which lies most of its mass, and edges at most.
LEVELS, EDGES = (1e-9, 1 - 1e-9), 256
# Angles: densities are periodic, and draws lie in one turn.
ANGLES = ("vonmises",)


def free(obj: Any) -> bool:
    """Whether a distribution has unset parameters."""
    return bool(getattr(obj, "numargs", 0)) and not hasattr(obj, "dist")


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a distribution."""
    names = lineage(obj)
    shape = _shape(obj, names)
    if event_shape is not None and event_shape != shape:
        raise TargetError(
            f"{type(obj).__name__} has events of shape {shape}, but the shape {event_shape} was given"
        )
    if names & {*DISCRETE, NEW_DISCRETE}:
        return Facts(shape, latent_shape=shape, domain=_cells(obj), knots=_edges(obj))
    if shape:
        return Facts(
            shape, latent_shape=shape, promises={"batch-dims": DENSITY_OF_KERNELS not in names}
        )
    return Facts(shape, latent_shape=shape, domain=_support(obj), promises={"batch-dims": True})


def _shape(obj: Any, names: set[str]) -> Shape:
    """The event shape; array parameters make a product of distributions."""
    if DENSITY_OF_KERNELS in names:
        return (int(obj.d),)
    if names & set(VECTORS):
        return (int(obj.dim),)
    several = _broadcast(obj)
    if several:
        raise TargetError(
            f"its parameters are arrays of shape {several}, which is several distributions; give one of them"
        )
    return ()


def _broadcast(obj: Any) -> Shape:
    """The broadcast shape of parameters."""
    import numpy as np

    return tuple(np.shape(obj.support()[0]))


def is_angle(obj: Any) -> bool:
    return getattr(getattr(obj, "dist", obj), "name", "") in ANGLES


def _cells(obj: Any) -> Support:
    """The cells [k, k + 1) over which the mass at integers is spread."""
    low, high = obj.support()
    return interval(float(low), float(high) + 1.0)


def _edges(obj: Any) -> tuple[float, ...]:
    """The edges of the cells that hold most of the mass."""
    import numpy as np

    quantile = obj.ppf if hasattr(obj, "ppf") else obj.icdf
    low, high = (int(quantile(level)) for level in LEVELS)
    return tuple(np.linspace(low, high + 1, min(high - low + 2, EDGES)).round().tolist())


def _support(obj: Any) -> Support:
    low, high = TURN if is_angle(obj) else obj.support()
    return interval(float(low), float(high))
