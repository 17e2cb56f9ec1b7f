"""glasflow models of published size."""

from __future__ import annotations

from functools import partial
from typing import Any

from flowref.adapters.common import published_models as sizes
from flowref.adapters.common.published_models import Model, SplineSetting


def models() -> dict[str, Model]:
    """Name -> model."""
    table = {
        f"nsf-c-{data}": Model(
            partial(_splines, sizes.COUPLED_SPLINES[data]),
            (sizes.COUPLED_SPLINES[data].features,),
            sizes.NSF,
        )
        for data in ("power", "bsds300")
    }
    table["real-nvp-mnist"] = Model(_real_nvp, (sizes.MNIST.features,), sizes.MAF)
    return table


def _splines(size: SplineSetting) -> Any:
    from glasflow import CouplingNSF

    return CouplingNSF(
        size.features,
        size.steps,
        n_neurons=size.hidden,
        n_blocks_per_transform=size.blocks,
        linear_transform="lu",
        num_bins=size.bins,
        tail_bound=sizes.TAIL_BOUND,
    )


def _real_nvp() -> Any:
    from glasflow import RealNVP

    size = sizes.MNIST
    return RealNVP(
        size.features,
        size.steps,
        n_neurons=size.hidden,
        n_blocks_per_transform=1,
        batch_norm_between_transforms=True,
    )
