"""Pyro models of published size."""

from __future__ import annotations

from functools import partial
from typing import Any

from flowref.adapters.common import published_models as sizes
from flowref.adapters.common.published_models import Model, SplineSetting
from flowref.adapters.pyro.constructions import library


def models() -> dict[str, Model]:
    """Name -> model."""
    splines = sizes.COUPLED_SPLINES["power"]
    event = (sizes.MNIST.features,)
    return {
        "nsf-c-power": Model(partial(_splines, splines), (splines.features,), sizes.NSF),
        "maf-mnist": Model(_autoregressive, event, sizes.MAF),
        "real-nvp-mnist": Model(_real_nvp, event, sizes.MAF),
    }


def _over(features: int, transforms: list[Any]) -> Any:
    """A density on a standard Gaussian, in Pyro's direction: transforms map latents to data."""
    import torch

    dist = library("distributions")
    base = dist.Normal(torch.zeros(features), torch.ones(features)).to_event(1)
    return dist.TransformedDistribution(base, transforms)


def _reversal(features: int) -> Any:
    import torch

    return library("distributions.transforms").permute(features, torch.arange(features).flip(0))


def _splines(size: SplineSetting) -> Any:
    of = library("distributions.transforms")
    layers: list[Any] = []
    for _ in range(size.steps):
        spline = of.spline_coupling(
            size.features,
            hidden_dims=[size.hidden] * 2 * size.blocks,
            count_bins=size.bins,
            bound=sizes.TAIL_BOUND,
        )
        layers += [spline, _reversal(size.features)]
    return _over(size.features, layers)


def _autoregressive() -> Any:
    of, size = library("distributions.transforms"), sizes.MNIST
    layers: list[Any] = []
    for _ in range(size.steps):
        layers.append(of.affine_autoregressive(size.features, [size.hidden] * 2))
        layers.append(_reversal(size.features))
    return _over(size.features, layers)


def _real_nvp() -> Any:
    of, size = library("distributions.transforms"), sizes.MNIST
    layers: list[Any] = []
    for _ in range(size.steps):
        layers.append(of.affine_coupling(size.features, [size.hidden] * 2))
        layers.append(_reversal(size.features))
    return _over(size.features, layers)
