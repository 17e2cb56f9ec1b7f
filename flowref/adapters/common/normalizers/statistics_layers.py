"""Layers that return statistics of a batch for other layers: they are no bijections, and are refused with a
sentence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.adapters.common.normalizers.probe import TRAIN
from flowref.adapters.common.normalizers.recognition import plausible, shapes_of
from flowref.adapters.common.normalizers.torch_probe import TorchProbe
from flowref.adapters.common.signatures import parameter_names
from flowref.model import Dialect, TargetError
from flowref.model.structure.line_fits import by_channel

# Tolerance against the mean of a batch.
NEAR = 1e-4


def refuse(obj: Any, dialect: Dialect, name: str, dtype: Any) -> None:
    """Raise `TargetError` if forward returns the mean and variance of each channel."""
    if dialect.forward is None or not plausible(obj) or not _returns_statistics(obj, dtype):
        return
    call = "layer(x, self.training)" if _takes_a_mode(obj) else "layer(x)"
    raise TargetError(
        f"{name}: forward of {type(obj).__name__} returns the mean and the variance of a batch, so "
        "it is no bijection and normalizes nothing by itself; wrap it in a module that holds it as "
        f"layer and whose forward says `mean, var = {call}; return (x - mean) / (var + "
        "eps).sqrt()`, and audit that"
    )


def _takes_a_mode(obj: Any) -> bool:
    parameters = parameter_names(obj.forward)
    return len(parameters) == 2 and "train" in parameters[1]


def _returns_statistics(obj: Any, dtype: Any) -> bool:
    more = (True,) if _takes_a_mode(obj) else ()

    def call(layer: Any, x: Any, context: Any) -> Any:
        out = layer(x, *more)
        return out if isinstance(out, tuple) and len(out) == 2 else (x, None)

    for shape in shapes_of(obj):
        x = 3 + np.random.default_rng(0).standard_normal((6, *shape))
        probe = TorchProbe(obj, dtype, shape, call=call)
        try:
            got, pair, _ = probe.once(probe.copied(obj), x, TRAIN)
        except Exception:  # the shape does not fit
            continue
        means = [by_channel(x, (axis,)).mean(1) for axis in range(len(shape))]
        if not pair or any(
            got.size == mean.size
            and np.abs(got.reshape(-1) - mean).max() < NEAR * np.abs(mean).max()
            for mean in means
        ):
            return pair
    return False
