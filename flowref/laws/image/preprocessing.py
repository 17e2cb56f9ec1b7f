"""Preprocessing: the logit of bounded data, its part in the likelihood, and scaling."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, log_abs_det, reported, resolvable, rows_max
from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.common.requirements import exact_log_det
from flowref.laws.density.base import normalizing_call
from flowref.model import (
    BOUND,
    EXACT,
    OPPOSITE,
    VALUES,
    VOLUME,
    Batch,
    Preprocessing,
    Residual,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import (
    Based,
    Bijection,
    Density,
    Differentiable,
    Flow,
    Invertible,
    Pulling,
    Rescaled,
)


class DifferentiableFlow(Based, Density, Differentiable, Protocol):
    """A density with its base, and a map whose Jacobian the framework gives."""


class RescaledDensity(Density, Rescaled, Protocol):
    """A density of data, and of the same data in other units."""


class PulledBijection(Bijection, Pulling, Protocol):
    """A map whose gradients the framework gives."""


REAL_NVP = "Dinh et al., Real NVP (arXiv:1605.08803), section 4.1"
# Events up to this size have their Jacobian taken.
JACOBIAN_SIZE = 24
FACTORS = (255.0, 1 / 256, 3.0)
# Rounding of a logit and its inverse, in units of the roundoff of p, which lies in (0, 1).
ROUNDTRIP_FACTOR = 32.0
# Without alpha the ends of the range are no data; this far inside, every float32 is a number of its
# own.
MARGIN = 1e-5
UNKNOWN = "its preprocessing of bounded data is not known"


@requires(UNKNOWN)
def preprocesses(flow: Flow) -> bool:
    """A whole flow that begins with a logit, or one that is nothing else."""
    return flow.facts.preprocessing is not None


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


@requires(f"its events have more than {JACOBIAN_SIZE} entries", waits=True)
def small_events(flow: Flow) -> bool:
    """The determinant of a whole flow is taken for small events."""
    return math.prod(flow.density_shape) <= JACOBIAN_SIZE


def preprocessing_of(flow: Flow) -> Preprocessing:
    """What is declared of the preprocessing."""
    if flow.facts.preprocessing is None:
        raise Unsupported(UNKNOWN)
    return flow.facts.preprocessing


@law(
    "density/change-of-variables[preprocessing]",
    key="preprocessing/ladj",
    former=("preprocessing/log-det",),
    nats=True,
    about=VOLUME,
    points="data",
    size=16,
    effort=4,
    applies=preprocesses & small_events & exact_log_det,
    source=REAL_NVP,
)
def ladj(flow: DifferentiableFlow, batch: Batch) -> Residual:
    r"""Every step of the preprocessing counts: $\log p(x) = \log p_Z(f(x)) + \log|\det f'(x)|$ for
    data as they come.

    The determinant is that of the Jacobian of the whole map, by autograd; no reported log-det is
    asked for.
    """
    call = normalizing_call(flow)
    rows = len(batch.x)
    density = np.asarray(flow.log_prob(batch.x, batch.context), dtype=np.float64).reshape(rows)
    latents = call(batch.x, batch.context).value
    base = np.asarray(flow.base_log_prob(latents, batch.context), dtype=np.float64).reshape(rows)
    jacobian = flow.jacobian(flow.normalizing, batch.x, batch.context)
    determinant = log_abs_det(jacobian)
    return Residual(
        density - base - determinant,
        scale=4 + np.abs(base) + np.abs(determinant),
        decidable=finite_rows(base) & resolvable(jacobian, determinant),
        observed={"log p(x)": density, "base + log|det J|": base + determinant},
    )


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
    "map/log-det[logit]",
    key="preprocessing/logit-derivative",
    nats=True,
    points="data",
    local=False,
    effort=5,
    applies=is_logit,
    source=REAL_NVP,
)
def logit_derivative(flow: Bijection, batch: Batch) -> Residual:
    r"""The log-det of $h = \mathrm{logit}(\alpha + (1 - 2\alpha)x/b)$ is
    $\sum_i \log\frac{1 - 2\alpha}{b} + \log(1 + e^{h_i}) + \log(1 + e^{-h_i})$.
    """
    logit, call = preprocessing_of(flow), normalizing_call(flow)
    out = call(batch.x, batch.context)
    claimed = reported(flow, out, len(batch.x))
    x = batch.x.reshape(len(batch.x), -1).astype(np.longdouble)
    # Each end has its own distance, which 1 - p would lose.
    low, high = logit.alpha + logit.slope * x, logit.alpha + logit.slope * (logit.bound - x)
    terms = math.log(logit.slope) - np.log(low) - np.log(high)
    expected = terms.sum(1).astype(np.float64)
    return Residual(
        claimed - expected,
        scale=4 + np.abs(terms).sum(1).astype(np.float64),
        decidable=finite_rows(expected),
        observed={"log-det": claimed, "closed form": expected},
    )


@law(
    "map/finite[boundary]",
    key="preprocessing/logit-boundary",
    points="data",
    tolerance=EXACT,
    local=False,
    size=4,
    scales=(0.0,),
    effort=2,
    applies=closed_range,
    source=f"{REAL_NVP}; the largest noise rounds to the next level, so that data reach both ends",
)
def logit_boundary(flow: PulledBijection, batch: Batch) -> Residual:
    r"""The ends of the data's range are data: values, log-dets and gradients are finite at $0$ and
    $b$, and beside $b$.
    """
    bound, call = preprocessing_of(flow).bound, normalizing_call(flow)
    kind = np.dtype(flow.dtype).type
    ends = (0.0, float(np.nextafter(kind(bound), kind(0))), bound)
    x = np.array(batch.x, dtype=np.float64)
    rows = x.reshape(len(x), -1)
    for row, end in zip(rows, ends, strict=False):
        row[:] = end
    # Beside rows of each end alone, one with all of them among other data.
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
    r"""The sigmoid undoes the logit on the range of the data:
    $|f^{-1}(f(x)) - x| \le 32\,u\,b/(1 - 2\alpha)$, in float32 too.
    """
    logit = preprocessing_of(flow)
    back = OPPOSITE[flow.normalizing]
    margin = 0.0 if logit.alpha > 0 else MARGIN * logit.bound
    x = np.clip(batch.x, margin, logit.bound - margin).astype(np.float32).astype(np.float64)
    ratios, returned = [], {}
    for dtype in ("float64", "float32") if flow.dtype == "float64" else ("float32",):
        call = flow.calls[flow.normalizing]
        if dtype == flow.dtype:  # what it refuses of its own range is an error
            latents = call.under(x, batch.context, dtype=dtype)
        else:
            latents, error = attempt(call.under, x, batch.context, dtype=dtype)
            if error:
                continue
        rounded = np.asarray(latents.value, dtype=np.float64)
        again = flow.calls[back].under(rounded, batch.context, dtype=dtype).value
        # The latent was rounded to its dtype, and is handed back in it.
        allowed = ROUNDTRIP_FACTOR * float(np.finfo(dtype).eps) / 2 / logit.slope
        ratios.append(
            rows_max(np.nan_to_num(np.asarray(again, dtype=np.float64) - x, nan=np.inf)) / allowed
        )
        returned[f"in {dtype}"] = np.asarray(again)
    return Residual(np.stack(ratios, 1), allowed=1.0, observed={"x": x, **returned})
