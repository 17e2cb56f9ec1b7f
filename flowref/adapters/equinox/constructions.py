"""Batch norms of equinox with their initial state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.jax_states import EQUINOX, StateConvention
from flowref.model import RUNNING, Normalizer, Shape

# Called event by event, over a batch axis of the name that they are built with.
WAY = StateConvention(EQUINOX, single=True)
AFFINE = {"weight": "0.weight", "bias": "0.bias"}
# Stored statistics are divided by the total weight of batches before use, so that no attribute is a
# running statistic itself.
BATCH = Normalizer(
    roles={"eps": "0.eps", "momentum": "0.momentum", "num_batches": "1.0", **AFFINE},
    declared={"momentum": "keep", "running_var": "biased"},
)
EMA = Normalizer(statistics=RUNNING)


def built(size: int = 3, **options: Any) -> Any:
    """A batch norm and its state."""
    import equinox

    return equinox.nn.make_with_state(equinox.nn.BatchNorm)(size, WAY.axis, **options)


def batch_norms() -> dict[str, tuple[Callable[..., Any], Shape, Normalizer]]:
    """Name -> builder, event shape and documented conventions."""
    return {
        "BatchNorm": (lambda: built(mode="batch"), (3,), BATCH),
        "BatchNorm[image]": (lambda: built(2, mode="batch", momentum=0.9), (2, 3, 4), BATCH),
        "BatchNorm[ema]": (lambda: built(mode="ema"), (3,), EMA),
    }
