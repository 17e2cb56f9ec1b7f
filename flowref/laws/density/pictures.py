"""Figures of densities and samples: the density near its samples, and their latents on a scale on
which they should be uniform.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from flowref.laws.common.quadrature import where_mass_is
from flowref.model import Batch, Figure, Unsupported
from flowref.model.figure import DENSITY, PIT, figure

CELLS = {1: 121, 2: 40}
# Margin around the samples, relative to their range; digits of a density; draws and bins.
BEYOND, DIGITS = 0.15, 3
DRAWS, BINS = 8_000, 20
# Bars of samples beside a curve, dots of samples on a map; and the deviation from which a bin is
# shown as off.
BARS, DOTS, FAR = 30, 150, 4.0


def density_map(flow: Any, batch: Batch) -> Figure:
    """The density on a grid around its samples, and its sum over the box; in more than two
    dimensions, a slice through their median.
    """
    size = math.prod(flow.density_shape)
    shown = min(size, 2)
    samples = where_mass_is(flow, batch, size)
    middle = np.median(samples, axis=0)
    span = BEYOND * np.ptp(samples, axis=0)[:shown] + 1e-9
    first, last = samples.min(0)[:shown] - span, samples.max(0)[:shown] + span
    lows, highs = (np.broadcast_to(end, size)[:shown] for end in flow.density_support.ends)
    low, high = np.maximum(first, lows), np.minimum(last, highs)
    count = CELLS[shown]
    centers = [
        a + (np.arange(count) + 0.5) * (b - a) / count for a, b in zip(low, high, strict=True)
    ]
    grids = np.meshgrid(*centers[::-1], indexing="ij")[::-1]  # the first coordinate varies fastest
    x = np.repeat(middle[None], count**shown, axis=0)
    for axis, grid in enumerate(grids):
        x[:, axis] = grid.ravel()
    context = None if batch.context is None else np.repeat(batch.context[:1], len(x), axis=0)
    log_p = np.asarray(flow.log_prob(x.reshape(-1, *flow.density_shape), context), dtype=np.float64)
    p = np.exp(log_p.reshape(-1))
    cell = float(np.prod((high - low) / count))
    shown_too = {}
    if size <= 2 and "sample" in flow.calls and flow.context_shape is None:
        if size == 1:
            drawn = np.asarray(flow.sample(DRAWS, batch.seed, None), dtype=np.float64)
            heights, _ = np.histogram(drawn.reshape(-1), BARS, (low[0], high[0]))
            shown_too["sampled"] = heights * BARS / (DRAWS * (high[0] - low[0]))
        else:
            shown_too["sampled"] = samples[:DOTS].ravel()
    slice_ = "a slice through the median of its samples, in two of {} coordinates"
    return figure(
        DENSITY,
        slice_.format(size) if size > 2 else "",
        DIGITS,
        low=low,
        high=high,
        density=p,
        integral=[float(np.nansum(p) * cell)] if size <= 2 else [],
        **shown_too,
    )


def samples_beside(flow: Any, batch: Batch) -> Figure:
    """Samples and density: overlaid in one and two dimensions, else by the latents of samples, or
    as a slice of the density.
    """
    if math.prod(flow.density_shape) > 2:
        with contextlib.suppress(Exception):
            shown = latent_histogram(flow, batch)
            counts = np.array(shown.of("counts"))
            mean = counts.mean()
            if (np.abs(counts - mean) > FAR * np.sqrt(mean)).any():
                return shown
    return density_map(flow, batch)


def latent_histogram(flow: Any, batch: Batch) -> Figure:
    """A histogram of the latent entry that deviates most from uniform after the standard normal
    distribution function.
    """
    from scipy.special import ndtr

    if batch.context is not None:
        raise Unsupported("samples are shown without a context")
    x = np.asarray(flow.sample(DRAWS, batch.seed, None), dtype=np.float64)
    z = np.asarray(flow.calls[flow.normalizing](x, None).value, dtype=np.float64)
    u = ndtr(z.reshape(len(x), -1))
    counts = np.stack([np.histogram(column, BINS, (0.0, 1.0))[0] for column in u.T])
    worst = int(((counts - len(x) / BINS) ** 2).sum(1).argmax())
    return figure(PIT, f"entry {worst} of the latents", counts=counts[worst])
