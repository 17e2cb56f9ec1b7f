"""Noise that is clamped before it becomes samples, put into healthy subjects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from flowref.laws.density.base import normalizing_calls
from flowref.model import OPPOSITE, Array, Subject, mutant


def _clamped(
    sample: Callable[..., Any],
    there: Callable[..., Any],
    back: Callable[..., Any],
    end: float,
    n: int,
    seed: int,
    context: Any = None,
) -> Array:
    z = np.asarray(there(sample(n, seed, context), context).value)
    return np.asarray(back(np.clip(z, -end, end), context).value)


@mutant(
    "sampling/follows-density[clamping]",
    host="reference:Flow[VectorRealNVP]",
    sizes=(1.0, 2.0, 3.0),
)
def clamped(subject: Subject, size: float = 2.0) -> Subject:
    """Latents are clamped before they are taken to data."""
    calls = subject.calls
    which = next(iter(normalizing_calls(subject)))
    there, back = calls[which], calls[OPPOSITE[which]]
    return subject.with_call("sample", partial(_clamped, calls["sample"], there, back, size))
