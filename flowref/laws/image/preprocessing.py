"""Preprocessing: the logit of bounded data, its log-det, and scaling."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, reported, rows_max
from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.common.requirements import exact_log_det
from flowref.laws.density.base import normalizing_call
from flowref.model import (
    BOUND,
    EXACT,
    GIVEN,
    OPPOSITE,
    VALUES,
    Batch,
    Preprocessing,
    Residual,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import (
    Bijection,
    Density,
    Flow,
    Invertible,
    Pulling,
    Rescaled,
)


class RescaledDensity(Density, Rescaled, Protocol):
    """A density of data, and of the same data in other units."""


class PulledBijection(Bijection, Pulling, Protocol):
    """A map with vector-Jacobian products."""


REAL_NVP = "Dinh et al., Real NVP (arXiv:1605.08803), section 4.1"
# Factors of the data.
FACTORS = (255.0, 1 / 256, 3.0)
# Rounding of a logit and its inverse, in units of the roundoff of p, which lies in (0, 1).
ROUNDTRIP_FACTOR = 32.0
# Without alpha the ends of the range are excluded; this far inside, float32 values are distinct.
MARGIN = 1e-5
UNKNOWN = "its preprocessing of bounded data is not known"


@requires("it is not known to be a logit of bounded data and nothing else")
def is_logit(flow: Flow) -> bool:
    """Laws of the logit itself."""
    declared = flow.facts.preprocessing
    return declared is not None and declared.alone


@requires("no preprocessing that keeps the ends of the range finite is known of it")
def closed_range(flow: Flow) -> bool:
    """With a positive alpha the ends of the range are inside the domain."""
    declared = flow.facts.preprocessing
    return declared is not None and declared.alpha > 0


def preprocessing_of(flow: Flow) -> Preprocessing:
    """The declared preprocessing."""
    if flow.facts.preprocessing is None:
        raise Unsupported(UNKNOWN)
    return flow.facts.preprocessing


@law(
    "density/units[scale]",
    key="preprocessing/affine-scale-bits",
    nats=True,
    points="data",
    local=False,
    effort=4,
    applies=exact_log_det,
    source="change of variables: the density of ax is p(x) / |a|^D",
)
def affine_scale_bits(flow: RescaledDensity, batch: Batch) -> Residual:
    r"""Multiplying the data by $a$ changes log-densities by exactly $-D \log|a|$, hence bits per
    dimension by $\log_2|a|$.
    """
    rows, factor = len(batch.x), FACTORS[batch.seed % len(FACTORS)]
    density = np.asarray(flow.log_prob(batch.x, batch.context), dtype=np.float64).reshape(rows)
    scaled = np.asarray(
        flow.rescaled(factor * batch.x, factor, batch.context), dtype=np.float64
    ).reshape(rows)
    change = -math.prod(flow.density_shape) * math.log(factor)
    return Residual(
        scaled - density - change,
        scale=4 + np.abs(density) + abs(change),
        decidable=finite_rows(density),
        observed={
            "log p(x)": density,
            "log p of the scaled data": scaled,
            "factor": np.full(rows, factor),
        },
    )


@law(
    "map/finite[boundary]",
    key="preprocessing/logit-boundary",
    points="data",
    tolerance=EXACT,
    local=False,
    size=3,
    scales=GIVEN,
    effort=2,
    applies=closed_range,
    source=f"{REAL_NVP}; the largest noise rounds to the next level, so that data reach both ends",
)
def logit_boundary(flow: PulledBijection, batch: Batch) -> Residual:
    """The ends of the data's range are data: values, log-dets and gradients are finite at $0$, at
    $b$ and next to $b$.
    """
    bound, call = preprocessing_of(flow).bound, normalizing_call(flow)
    kind = np.dtype(flow.dtype).type
    ends = (0.0, float(np.nextafter(kind(bound), kind(0))), bound)
    x = np.array(batch.x, dtype=np.float64)
    rows = x.reshape(len(x), -1)
    for row, end in zip(rows, ends, strict=False):
        row[:] = end
    # Rows with one end only, and one row with all of them among other data.
    rows[-1][: len(ends)] = ends[: rows.shape[1]]
    x = rows.reshape(x.shape)
    out = call(x, batch.context)
    values = np.asarray(out.value, dtype=np.float64).reshape(len(x), -1)
    ladj = np.zeros(len(x)) if out.ladj is None else reported(flow, out, len(x))
    slopes = flow.vjp(flow.normalizing, x, batch.context, np.ones(values.shape), np.ones(len(x)))
    good = finite_rows(values, ladj, np.asarray(slopes).reshape(len(x), -1))
    return flags(
        ~good,
        len(x),
        "values, log-dets or gradients are not finite at the ends of the range of the data",
        observed={"x": x, "latent": values, "log-det": ladj},
    )


@law(
    "map/inverse[logit]",
    key="preprocessing/logit-sigmoid-roundtrip",
    about=VALUES,
    points="data",
    tolerance=BOUND,
    local=False,
    effort=4,
    applies=is_logit,
    source="the sigmoid undoes the logit to the roundoff of p, in float32 as well",
)
def logit_sigmoid_roundtrip(flow: Invertible, batch: Batch) -> Residual:
    r"""The sigmoid undoes the logit on the range of the data: $|f^{-1}(f(x)) - x| \le 32\,u\,b/(1
    - 2\alpha)$ with the unit roundoff u, data in $[0, b]$ and a logit of $\alpha + (1 - 2\alpha)
    x / b$; in float32 too.
    """
    logit = preprocessing_of(flow)
    back = OPPOSITE[flow.normalizing]
    margin = 0.0 if logit.alpha > 0 else MARGIN * logit.bound
    x = np.clip(batch.x, margin, logit.bound - margin).astype(np.float32).astype(np.float64)
    ratios, returned = [], {}
    for dtype in ("float64", "float32") if flow.dtype == "float64" else ("float32",):
        call = flow.calls[flow.normalizing]
        if dtype == flow.dtype:  # rejecting its own range is an error
            latents = call.under(x, batch.context, dtype=dtype)
        else:
            latents, error = attempt(call.under, x, batch.context, dtype=dtype)
            if error:
                continue
        rounded = np.asarray(latents.value, dtype=np.float64)
        again = flow.calls[back].under(rounded, batch.context, dtype=dtype).value
        # The latent was rounded to its dtype, and is passed back in it.
        allowed = ROUNDTRIP_FACTOR * float(np.finfo(dtype).eps) / 2 / logit.slope
        ratios.append(
            rows_max(np.nan_to_num(np.asarray(again, dtype=np.float64) - x, nan=np.inf)) / allowed
        )
        returned[f"in {dtype}"] = np.asarray(again)
    return Residual(np.stack(ratios, 1), allowed=1.0, observed={"x": x, **returned})
