"""Flows of points that can be fitted, apart from Real NVP: splines, autoregressive, residual,
continuous and matched ones, with about the same number of parameters; and Real NVP with
augmentation, stochastic layers, or a gate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from flowref.reference import (
    CNF,
    MLP,
    RAD,
    Chain,
    Contraction,
    InvertibleConv1x1,
    Kernel,
    KernelChain,
    Langevin,
    MaskedAutoregressive,
    ProbabilityFlow,
    Residual,
    Reverse,
    SplineCoupling,
    StraightLine,
    TimedMLP,
    VariancePreserving,
    VectorRealNVP,
    alternating_mask,
    augment,
)
from flowref.reference.bijection import Bijection


def spline(features: int, depth: int, hidden: Sequence[int], bins: int, bound: float) -> Bijection:
    """Couplings with rational-quadratic splines, each followed by an invertible linear map."""
    layers: list[Bijection] = []
    for index in range(depth):
        mask = alternating_mask(features, index)
        kept = int(mask.sum())
        outputs = (3 * bins - 1) * (features - kept)
        layers.append(SplineCoupling(mask, MLP(kept, outputs, hidden), bins, bound))
        layers.append(InvertibleConv1x1(features, lu=True))
    return Chain(*layers)


def maf(features: int, depth: int, hidden: Sequence[int]) -> Bijection:
    """Masked autoregressive layers, each followed by a reversal of the features."""
    layers: list[Bijection] = []
    for _ in range(depth):
        layers += [MaskedAutoregressive(features, hidden), Reverse(features)]
    return Chain(*layers)


def residual(features: int, depth: int, hidden: Sequence[int], lipschitz: float) -> Bijection:
    """Contractive residual blocks with exact log-dets."""
    return Chain(*(Residual(Contraction(features, hidden, lipschitz)) for _ in range(depth)))


def cnf(features: int, hidden: Sequence[int], time: float, tolerance: float) -> Bijection:
    """A continuous flow with exact traces."""
    return CNF(TimedMLP(features, hidden), time, tolerance=tolerance)


def matching(features: int, hidden: Sequence[int], tolerance: float) -> Bijection:
    """Flow matching: a velocity field trained on straight lines to noise, with exact traces."""
    return ProbabilityFlow(TimedMLP(features, hidden), StraightLine(), tolerance=tolerance)


def diffusion(features: int, hidden: Sequence[int], tolerance: float) -> Bijection:
    """A noise predictor under a variance-preserving schedule, with exact traces."""
    model = TimedMLP(features, hidden)
    return ProbabilityFlow(model, VariancePreserving(), "epsilon", tolerance=tolerance)


def augmented(features: int, depth: int, hidden: Sequence[int], added: int) -> KernelChain:
    """Real NVP of the data augmented with ``added`` standard normal features."""
    return KernelChain(augment(features, added), VectorRealNVP(features + added, depth, hidden))


class Energy(nn.Module):
    r"""$u(x) = \tfrac12 \|x\|^2 + n(x)$ with a network n that starts at zero, so that at first a
    Langevin layer preserves the standard normal distribution, up to discretization.
    """

    def __init__(self, features: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.network = MLP(features, 1, hidden, nn.Tanh)

    def forward(self, x: Tensor) -> Tensor:
        """The energy ``(n,)`` of each row of ``x`` ``(n, features)``."""
        network: Tensor = self.network(x)
        return 0.5 * x.square().sum(1) + network[:, 0]


def stochastic(
    features: int, depth: int, hidden: Sequence[int], layers: int, steps: int, size: float
) -> KernelChain:
    """Real NVP in ``layers`` parts, each followed by Langevin steps of a learned energy."""
    parts: list[Bijection | Kernel] = []
    for _ in range(layers):
        parts.append(VectorRealNVP(features, depth // layers, hidden))
        parts.append(Langevin(Energy(features, hidden), steps, size))
    return KernelChain(*parts)


def rad(
    features: int, depth: int, hidden: Sequence[int], boundaries: Sequence[float]
) -> KernelChain:
    """RAD: regions of the first coordinate with a learned gate, followed by Real NVP."""
    gate = MLP(features, len(boundaries) + 1, hidden)
    return KernelChain(
        RAD(features, tuple(boundaries), gate), VectorRealNVP(features, depth, hidden)
    )


# Name -> constructor of a flow with so many features, and its options.
FAMILIES: Mapping[str, tuple[Callable[..., Bijection | KernelChain], dict[str, Any]]] = {
    "spline": (spline, {"depth": 4, "hidden": [64, 64], "bins": 8, "bound": 4.0}),
    "maf": (maf, {"depth": 6, "hidden": [64, 64]}),
    "residual": (residual, {"depth": 8, "hidden": [64, 64], "lipschitz": 0.9}),
    "cnf": (cnf, {"hidden": [64, 64], "time": 1.0, "tolerance": 1e-4}),
    "matching": (matching, {"hidden": [64, 64], "tolerance": 1e-4}),
    "diffusion": (diffusion, {"hidden": [64, 64], "tolerance": 1e-4}),
    "augmented": (augmented, {"depth": 6, "hidden": [64, 64], "added": 2}),
    "stochastic": (
        stochastic,
        {"depth": 6, "hidden": [64, 64], "layers": 2, "steps": 2, "size": 0.02},
    ),
    "rad": (rad, {"depth": 6, "hidden": [64, 64], "boundaries": [0.0]}),
}
