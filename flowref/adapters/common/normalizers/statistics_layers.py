"""Layers that return the statistics of a batch, from which others normalize: no bijections, and said
so in a sentence.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np

from flowref.adapters.common.normalizers.recognition import plausible, shapes_of
from flowref.model import Dialect, TargetError
from flowref.model.switching import switches

# How near what is returned must come to the mean of a batch.
NEAR = 1e-4


def refuse(obj: Any, dialect: Dialect, name: str, dtype: Any) -> None:
    """Raise `TargetError` where forward returns mean and variance of each channel of a batch."""
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
    try:
        parameters = list(inspect.signature(obj.forward).parameters.values())
    except (TypeError, ValueError):  # a scripted module tells no signature
        return False
    return len(parameters) == 2 and "train" in parameters[1].name


def _returns_statistics(obj: Any, dtype: Any) -> bool:
    import torch

    more = (True,) if _takes_a_mode(obj) else ()
    for shape in shapes_of(obj):
        values = 3 + np.random.default_rng(0).standard_normal((6, *shape))
        try:
            live = copy.deepcopy(obj)
            if switches(live):
                live.train()
            with torch.no_grad():
                out = live(torch.as_tensor(values, dtype=dtype), *more)
        except Exception:  # the shape does not fit
            continue
        if not isinstance(out, tuple) or len(out) != 2:
            return False
        for channel, size in enumerate(shape):
            axes = tuple(axis for axis in range(values.ndim) if axis != channel + 1)
            mean = values.mean(axes)
            if all(getattr(each, "shape", torch.Size()).numel() == size for each in out):
                got = out[0].detach().double().numpy().reshape(-1)
                if np.abs(got - mean).max() < NEAR * np.abs(mean).max():
                    return True
    return False
