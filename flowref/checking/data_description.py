"""A description of the data as the flow sees them, for the report; nothing is judged."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flowref import loading
from flowref.checking.data import ALL, all_rows, data_of, level_of, on_data_side
from flowref.checking.settings import Settings
from flowref.model import Array, Batch, Subject, Target

# Number of base draws that latents are compared with.
DRAWS = 512


def described(target: Target, settings: Settings) -> tuple[str, ...]:
    """Return phrases: which rows are used, their mean log-likelihood, and how their latents compare
    with draws of the base. Raises: `DataError` if the target does not accept the data.
    """
    data = data_of(target, settings)
    if data is None:
        return ()
    subject = loading.load(target)
    batch = all_rows(subject, data, ALL.seed, "data")
    which = "these rows" if len(batch.x) == len(data.x) else f"{len(batch.x)} of these rows"
    phrases = (_likely(subject, batch, which), _latents(subject, batch))
    return (data.words, *filter(None, phrases))


def _likely(subject: Subject, batch: Batch, which: str) -> str:
    """Mean log-likelihood of the data in nats, and in bits per dimension for quantized data."""
    density = _finite_values(subject.log_prob, batch)
    if density is None:
        return ""
    if (surface := subject.facts.surface) is not None:  # per area, as it is called
        density = density - surface.log_area(batch.x)
    words = f"log p(x) of {which}: mean {density.mean():.4g} nats"
    (width, _), size = level_of(subject), math.prod(subject.density_shape)
    if width:
        bits = -(density.mean() / size + math.log(width)) / math.log(2)
        words += f", {bits:.4g} bits per dimension"
    return words


def _latents(subject: Subject, batch: Batch) -> str:
    """Mean, deviation and maximum of the latents, and their mean log-density against that of base
    draws.
    """
    call = subject.calls.get(subject.normalizing)
    if call is None or not on_data_side(subject, "data") or subject.facts.surface is not None:
        return ""
    latents = _finite_values(lambda x, context: call(x, context).value, batch)
    if latents is None or not latents.size:
        return ""
    far = float(np.abs(latents).max())
    words = (
        f"their latents: mean {latents.mean():.3g}, deviation {latents.std():.3g}, up to {far:.3g}"
    )
    base = _finite_values(subject.base_log_prob, Batch(latents, batch.context, batch.seed))
    sample = subject.base_sample
    if base is None or sample is None or batch.context is not None:
        return words
    drawn = _finite_values(lambda x, context: sample(DRAWS, batch.seed, None), batch)
    own = None if drawn is None else _finite_values(subject.base_log_prob, Batch(drawn, None, 0))
    if own is None:
        return words
    return (
        f"{words}; log p(z) {base.mean():.4g} in the mean, {own.mean():.4g} for draws of the base"
    )


def _finite_values(call: Callable[..., Any] | None, batch: Batch) -> Array | None:
    """The returned array; None if the call raises or returns nan or inf."""
    if call is None or not len(batch.x):
        return None
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(call(batch.x, batch.context), dtype=np.float64)
    except Exception:  # laws report what it raises
        return None
    return values if np.isfinite(values).all() else None
