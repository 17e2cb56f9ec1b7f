"""The reference model of a data set: a flow of points that standardizes its data, or Real NVP for
images.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flowref.reference import (
    Affine,
    Chain,
    Flow,
    KernelChain,
    RealNVP,
    StandardNormal,
    VectorRealNVP,
)
from flowref.training.bounds import AnyFlow, DrawnFlow
from flowref.training.data import Dataset
from flowref.training.extras import RunError
from flowref.training.families import FAMILIES
from flowref.training.flows import REAL_NVP
from flowref.training.recipes import Recipe
from flowref.training.variants import NormalMixture, vary


def build(recipe: Recipe, event_shape: tuple[int, ...], levels: int | None) -> AnyFlow:
    """Builds the untrained flow of a recipe; that of points begins with an `Affine` identity map,
    for `standardize`.
    """
    options: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in recipe.model.items()
    }
    if levels is None:
        (features,) = event_shape
        standardize = Affine(torch.zeros(features), torch.ones(features))
        kind = VectorRealNVP if recipe.flow == REAL_NVP else FAMILIES[recipe.flow][0]
        made = kind(features, **options)
        if isinstance(made, KernelChain):
            if recipe.variants:
                raise RunError(f"{recipe.flow} has no variants; got {', '.join(recipe.variants)}")
            base = StandardNormal(made.latent_shape(event_shape))
            return DrawnFlow(base, KernelChain(standardize, *made))
        points = Flow(StandardNormal(event_shape), Chain(standardize, made))
        return vary(points, recipe.variants)
    channels, height, width = event_shape
    model = RealNVP((channels, height, width), bins=levels, **options)
    return vary(Flow(StandardNormal((channels * height * width,)), model), recipe.variants)


@torch.no_grad()
def standardize(flow: AnyFlow, dataset: Dataset) -> None:
    """Sets the first layer of a flow of points to $(x - m) / s$, with mean and deviation of the
    training points.

    The layer counts in the log-det, so densities are those of the original data.
    """
    if dataset.levels is not None:
        return
    # A chain, as built above.
    chain: Any = flow.kernel.layers if isinstance(flow, DrawnFlow) else flow.bijection
    first: Any = next(iter(chain))
    mean, deviation = (
        torch.as_tensor(values) for values in (dataset.train.mean(0), dataset.train.std(0))
    )
    first.scale.copy_(1 / deviation)
    first.shift.copy_(-mean / deviation)
    if isinstance(flow, Flow) and isinstance(flow.base, NormalMixture) and flow.base.placed:
        flow.eval()
        flow.base.place(flow(tensor(dataset.train))[0])


def tensor(values: Any) -> Tensor:
    """Events as a float32 tensor."""
    return torch.as_tensor(values).to(torch.float32)
