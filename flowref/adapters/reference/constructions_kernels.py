"""Constructions of the reference's stochastic and surjective layers: surjections in both directions, RAD,
Markov chains, and their densities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from flowref.adapters.reference.constructions import (
    PIXELS,
    VECTOR,
    Construction,
    _build_reference_layer,
)

PLANE = (2,)


def kernels() -> Mapping[str, Construction]:
    """Surjections that drop or add entries, and random layers."""
    return {
        "Abs": (partial(_build_reference_layer, "Abs", (), {}), PLANE),
        "Abs[reversed]": (_reversed(partial(_build_reference_layer, "Abs", (), {})), PLANE),
        "Slice": (_slice, VECTOR),
        "Augment": (_augment, PLANE),
        "Sort": (partial(_build_reference_layer, "Sort", (), {}), VECTOR),
        "Sort[reversed]": (_reversed(partial(_build_reference_layer, "Sort", (), {})), VECTOR),
        "MaxPool": (partial(_build_reference_layer, "MaxPool", (), {}), (1, 2, 2)),
        "MaxPool[img]": (partial(_build_reference_layer, "MaxPool", (0.7,), {}), PIXELS),
        "RAD": (_rad, PLANE),
        "Metropolis": (partial(_chain, "Metropolis", 3, 0.4), PLANE),
        "Langevin": (partial(_chain, "Langevin", 2, 0.1), PLANE),
        "KernelChain": (_composed, PLANE),
        "KernelChain[abs]": (_coupling_then_abs, PLANE),
    }


def flows() -> Mapping[str, Construction]:
    """Densities of these layers."""
    return {
        "KernelFlow[augment]": (_augmented_flow, PLANE),
        "KernelFlow[RAD]": (_rad_flow, PLANE),
    }


def _reversed(build: Callable[[], Any]) -> Callable[[], Any]:
    return partial(_reversed_layer, build)


def _reversed_layer(build: Callable[[], Any]) -> Any:
    from flowref.reference import Reversed

    return Reversed(build())


def _slice() -> Any:
    """A slice of two of three entries, with a conditional distribution of the third."""
    from flowref.reference import ConditionalNormal, Slice

    return Slice(2, ConditionalNormal(1, _network(2, 2)))


def _augment() -> Any:
    from flowref.reference import augment

    return augment(2, 1, _network(2, 2))


def _rad() -> Any:
    from flowref.reference import RAD

    return RAD(2, (-0.5, 1.0), _network(2, 3))


def _network(inputs: int, outputs: int) -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, outputs))


def double_well(x: Any) -> Any:
    """$u(x) = (x_1^2 - 1)^2 / 2 + x_2^2 / 2$, bounded by 20."""
    return 20.0 * (((x[:, 0] ** 2 - 1) ** 2 + x[:, 1] ** 2) / 40.0).tanh()


def _chain(kind: str, steps: int, size: float) -> Any:
    from flowref import reference

    return getattr(reference, kind)(double_well, steps, size)


def _composed() -> Any:
    """Augmentation by noise, batch normalization, a 1x1 convolution, a coupling, and a slice."""
    from flowref.reference import (
        MLP,
        AffineCoupling,
        ConditionalNormal,
        InvertibleBatchNorm,
        InvertibleConv1x1,
        KernelChain,
        Slice,
        alternating_mask,
        augment,
    )

    return KernelChain(
        augment(2, 2, _network(2, 4)),
        InvertibleBatchNorm(4),
        InvertibleConv1x1(4),
        AffineCoupling(alternating_mask(4), MLP(2, 4, (6,))),
        Slice(3, ConditionalNormal(1, _network(3, 2))),
    )


def _coupling_then_abs() -> Any:
    """A coupling followed by absolute values."""
    from flowref.reference import MLP, Abs, AffineCoupling, KernelChain, alternating_mask

    return KernelChain(AffineCoupling(alternating_mask(2), MLP(1, 2, (6,))), Abs())


def _augmented_flow() -> Any:
    """Augmentation by noise and two couplings: a lower bound."""
    from flowref.reference import (
        MLP,
        AffineCoupling,
        KernelChain,
        KernelFlow,
        StandardNormal,
        alternating_mask,
        augment,
    )

    couplings = [AffineCoupling(alternating_mask(4, k), MLP(2, 4, (6,))) for k in range(2)]
    return KernelFlow(StandardNormal((4,)), KernelChain(augment(2, 2), *couplings))


def _rad_flow() -> Any:
    """A density with several regions."""
    from flowref.reference import Affine, KernelChain, KernelFlow, StandardNormal

    return KernelFlow(StandardNormal((2,)), KernelChain(Affine(0.3, 1.2), _rad()))
