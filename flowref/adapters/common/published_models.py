"""Models in their published size and setting. Weights are initial; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from flowref.adapters.common.object_components import Describe, components_of
from flowref.model import PUBLISHED, Component, Dialect, Shape

NSF = "Durkan et al. 2019, Neural Spline Flows (arXiv:1906.04032), hyperparameters of tabular data"
MAF = "Papamakarios et al. 2017, Masked Autoregressive Flow (arXiv:1705.07057), the stacks of five"
REAL_NVP = "Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 4.1"
GLOW = "Kingma and Dhariwal 2018, Glow (arXiv:1807.03039), hyperparameters of CIFAR-10"
RESIDUAL = (
    "Chen et al. 2019, Residual Flows (arXiv:1906.02735), in the size of the example of normflows"
)
FFJORD = "Grathwohl et al. 2019, FFJORD (arXiv:1810.01367), densities in two dimensions"


@dataclass(frozen=True)
class SplineSetting:
    """A neural spline flow: ``steps``, each a linear layer and a spline whose network has residual
    ``blocks`` of ``hidden`` units.
    """

    features: int
    steps: int
    blocks: int
    hidden: int
    bins: int


@dataclass(frozen=True)
class DenseSetting:
    """``steps``, each with a network of two layers of ``hidden`` units."""

    features: int
    hidden: int
    steps: int = 5


TAIL_BOUND = 3.0
COUPLED_SPLINES: Mapping[str, SplineSetting] = {
    "power": SplineSetting(6, 10, 2, 256, 8),
    "gas": SplineSetting(8, 10, 2, 256, 8),
    "hepmass": SplineSetting(21, 20, 1, 128, 8),
    "miniboone": SplineSetting(43, 10, 1, 32, 4),
    "bsds300": SplineSetting(63, 20, 1, 128, 8),
}
AUTOREGRESSIVE_SPLINES: Mapping[str, SplineSetting] = {
    "power": SplineSetting(6, 10, 2, 256, 8),
    "gas": SplineSetting(8, 10, 2, 256, 8),
    "hepmass": SplineSetting(21, 10, 2, 256, 8),
    "miniboone": SplineSetting(43, 10, 1, 64, 4),
    "bsds300": SplineSetting(63, 10, 2, 512, 8),
}
# Published stacks have five or ten layers; here five.
DENSE: Mapping[str, DenseSetting] = {
    "power": DenseSetting(6, 100),
    "gas": DenseSetting(8, 100),
    "hepmass": DenseSetting(21, 512),
    "miniboone": DenseSetting(43, 512),
    "bsds300": DenseSetting(63, 512),
    "mnist": DenseSetting(784, 1024),
}
MNIST = DENSE["mnist"]
CIFAR = (3, 32, 32)
# Levels, steps per level, channels of conditioners.
GLOW_SIZE = (3, 32, 512)
# Residual blocks and channels of the first level's conditioners; images are downscaled once.
REAL_NVP_SIZE = (8, 64)
RESIDUAL_SIZE = (16, 128)
FFJORD_SIZE = (64, 64, 64)


@dataclass(frozen=True)
class Model:
    """The builder of a model, its event shape, and the publication of its size."""

    build: Callable[..., Any]
    event: Shape
    source: str


def components_of_models(
    models: Mapping[str, Model],
    dialect: Dialect | Callable[[str], Dialect],
    describe: Describe,
    promises: Mapping[str, Any] | None = None,
) -> dict[str, Component]:
    """Models as components; ``promises`` apply to all."""
    table = components_of(
        {PUBLISHED + name: (model.build, model.event) for name, model in models.items()},
        dialect,
        describe,
        lambda name: promises or {},
    )
    return {
        PUBLISHED + name: replace(table[PUBLISHED + name], source=model.source)
        for name, model in models.items()
    }
