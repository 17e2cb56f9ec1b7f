"""The log-densities that samplers return beside their samples."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows
from flowref.laws.common.requirements import exact_density, exact_log_det
from flowref.model import VOLUME, Array, Batch, Residual, Unsupported, law
from flowref.model.abilities import Density, LabelledSampler


class LabelledDensity(Density, LabelledSampler, Protocol):
    """A density, and samples that come with theirs."""


# By how much an error of an iterative inverse may grow in the log-density.
GROWTH = 16.0


@law(
    "density/beside-samples",
    nats=True,
    about=VOLUME,
    points="data",
    local=False,
    size=16,
    scales=(0.0, 0.3, 1.0),
    effort=3,
    applies=exact_log_det & exact_density,
    source="a sampler that returns log-densities saves a second pass: log q(x) = log p_Z(z) - log|det dx/dz|",
)
def beside_samples(flow: LabelledDensity, batch: Batch) -> Residual:
    """The log-densities that come beside samples are the log-densities of these samples."""
    count, context = len(batch.x), batch.context
    x, beside = flow.sample_log_prob(count, batch.seed, context)
    x, beside = np.asarray(x, np.float64), np.asarray(beside, np.float64)
    if x.shape != (count, *flow.density_shape):
        raise Unsupported(f"{count} samples come in shape {x.shape}")
    if beside.size != count:
        note = f"{beside.size} log-densities come beside {count} samples"
        return Residual(np.full(count, np.inf), note=note)
    beside = beside.reshape(count)
    density = np.asarray(flow.log_prob(x, context), np.float64).reshape(count)
    return Residual(
        beside - density,
        scale=4 + math.prod(flow.density_shape) + np.nan_to_num(np.abs(density)),
        allowed=left_open(flow, x, context, density, batch.seed),
        decidable=finite_rows(x, density),
        observed={"log-density beside the sample": beside, "log p(x)": density},
    )


def left_open(
    flow: Density, x: Array, context: Array | None, density: Array, seed: int
) -> Array | float:
    """What an iterative inverse that is within its tolerance may change, ``(batch,)``."""
    tolerance = float(flow.promises.get("inverse-tolerance", 0.0))
    if not tolerance:
        return 0.0
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), x.shape)
    beside = np.asarray(flow.log_prob(x + tolerance * signs, context), np.float64)
    moved = np.nan_to_num(np.abs(beside.reshape(len(x)) - density), nan=np.inf)
    return np.asarray(GROWTH * (moved + tolerance * math.prod(flow.density_shape)))
