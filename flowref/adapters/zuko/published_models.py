"""Zuko models of published size."""

from __future__ import annotations

from functools import partial
from typing import Any

from flowref.adapters.common import published_models as sizes
from flowref.adapters.common.published_models import DenseSetting, Model, SplineSetting


def models() -> dict[str, Model]:
    """Name -> model. Zuko's splines end at 5 instead of 3."""
    table = {
        f"nsf-{data}": Model(partial(_splines, size), (size.features,), sizes.NSF)
        for data, size in sizes.AUTOREGRESSIVE_SPLINES.items()
    }
    for data, dense in sizes.DENSE.items():
        table[f"maf-{data}"] = Model(partial(_affine, dense), (dense.features,), sizes.MAF)
    event = (sizes.MNIST.features,)
    table["real-nvp-mnist"] = Model(partial(_real_nvp, sizes.MNIST), event, sizes.MAF)
    table["ffjord-2d"] = Model(_continuous, (2,), sizes.FFJORD)
    return table


def _splines(size: SplineSetting) -> Any:
    from zuko.flows import NSF

    # A block has two layers.
    return NSF(
        size.features,
        bins=size.bins,
        transforms=size.steps,
        hidden_features=(size.hidden,) * 2 * size.blocks,
    )


def _affine(size: DenseSetting) -> Any:
    from zuko.flows import MAF

    return MAF(size.features, transforms=size.steps, hidden_features=(size.hidden,) * 2)


def _real_nvp(size: DenseSetting) -> Any:
    from zuko.flows import RealNVP

    return RealNVP(size.features, transforms=size.steps, hidden_features=(size.hidden,) * 2)


def _continuous() -> Any:
    from zuko.flows import CNF

    return CNF(2, hidden_features=sizes.FFJORD_SIZE)
