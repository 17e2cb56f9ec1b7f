"""Real NVP in its published size."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common import published_models as sizes
from flowref.adapters.common.published_models import Model


def models() -> dict[str, Model]:
    """Name -> model."""
    return {"real-nvp-cifar10": Model(_real_nvp, sizes.CIFAR, sizes.REAL_NVP)}


def flows() -> dict[str, Model]:
    """Name -> density."""
    return {"real-nvp-cifar10-density": Model(_density, sizes.CIFAR, sizes.REAL_NVP)}


def _real_nvp() -> Any:
    from flowref.reference import RealNVP

    blocks, hidden = sizes.REAL_NVP_SIZE
    return RealNVP(sizes.CIFAR, hidden=hidden, blocks=blocks)


def _density() -> Any:
    import math

    from flowref.reference import Flow, StandardNormal

    return Flow(StandardNormal((math.prod(sizes.CIFAR),)), _real_nvp())
