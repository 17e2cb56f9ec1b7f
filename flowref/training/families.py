"""Flows of points besides Real NVP that can be fitted: splines, autoregressive, residual and continuous
ones, of about the same number of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flowref.reference import (
    CNF,
    MLP,
    Chain,
    Contraction,
    InvertibleConv1x1,
    MaskedAutoregressive,
    Residual,
    Reverse,
    SplineCoupling,
    TimedMLP,
    alternating_mask,
)
from flowref.reference.bijection import Bijection


def spline(features: int, depth: int, hidden: Sequence[int], bins: int, bound: float) -> Bijection:
    """Couplings by rational-quadratic splines, and a matrix after each."""
    layers: list[Bijection] = []
    for index in range(depth):
        mask = alternating_mask(features, index)
        kept = int(mask.sum())
        outputs = (3 * bins - 1) * (features - kept)
        layers.append(SplineCoupling(mask, MLP(kept, outputs, hidden), bins, bound))
        layers.append(InvertibleConv1x1(features, lu=True))
    return Chain(*layers)


def maf(features: int, depth: int, hidden: Sequence[int]) -> Bijection:
    """Masked autoregressive layers, with the order reversed after each."""
    layers: list[Bijection] = []
    for _ in range(depth):
        layers += [MaskedAutoregressive(features, hidden), Reverse(features)]
    return Chain(*layers)


def residual(features: int, depth: int, hidden: Sequence[int], lipschitz: float) -> Bijection:
    """Contractive residual blocks, with exact log-dets."""
    return Chain(*(Residual(Contraction(features, hidden, lipschitz)) for _ in range(depth)))


def cnf(features: int, hidden: Sequence[int], time: float, tolerance: float) -> Bijection:
    """A continuous flow with exact traces."""
    return CNF(TimedMLP(features, hidden), time, tolerance=tolerance)


# Name -> how a flow of so many features is made, and its options.
FAMILIES: Mapping[str, tuple[Callable[..., Bijection], dict[str, Any]]] = {
    "spline": (spline, {"depth": 4, "hidden": [64, 64], "bins": 8, "bound": 4.0}),
    "maf": (maf, {"depth": 6, "hidden": [64, 64]}),
    "residual": (residual, {"depth": 8, "hidden": [64, 64], "lipschitz": 0.9}),
    "cnf": (cnf, {"hidden": [64, 64], "time": 1.0, "tolerance": 1e-4}),
}
