"""The constant of a normal base that nobody shows: what a log-density has beside its log-det and latents."""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import exact_density, exact_log_det
from flowref.laws.density.base import LOG_2_PI, MappedDensity
from flowref.laws.density.draws import answered
from flowref.model import (
    VOLUME,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
    per_point,
)

# Points of which a constant is known to be one, and how near they have to have the same.
FEWEST, SAME = 3, 1e-7
# What is nearer than that to a whole number of levels counts these.
WHOLE = 1e-6


@law(
    "density/normal-base",
    nats=True,
    about=VOLUME,
    points="data",
    local=False,
    scales=(0.0, 0.3),
    effort=2,
    fewest=FEWEST,
    applies=exact_log_det & exact_density,
    version=3,
    source="change of variables with the density of the standard normal distribution in D dimensions",
)
def normal_base(flow: MappedDensity, batch: Batch) -> Residual:
    r"""Where log-density and log-det differ by $-\frac12 \|z\|^2$ and a constant, that is
    $-\frac{D}{2} \log 2\pi$: the base is a standard normal distribution, of D dimensions. Levels of
    the data may be counted besides, $D \log k$ for a whole number k.
    """
    rows, size = len(batch.x), math.prod(flow.density_shape)
    if flow.normalizing != "forward" or math.prod(flow.latent_shape) != size:
        raise Unsupported("its forward does not take data to as many latents")
    told, refused = answered(flow, batch.x, batch.context)
    given = np.isfinite(told)
    if given.sum() < FEWEST:
        why = f" (log_prob raises {refused})" if refused else ""
        raise Undecidable(f"fewer points have a finite log-density than determine a constant{why}")
    index = np.where(given, np.arange(rows), np.flatnonzero(given)[0])  # refused there, too
    taken = batch.rows(index)
    out = flow.forward(taken.x, taken.context)
    if out.ladj is None:
        raise Unsupported("it returns no log-det")
    ladj = per_point(out.ladj, rows)
    with np.errstate(all="ignore"):
        square = 0.5 * (np.asarray(out.value, dtype=np.float64).reshape(rows, -1) ** 2).sum(1)
        constant = told - ladj + square
        scale = 4 + np.abs(told) + np.abs(ladj) + square
        usable = np.isfinite(constant)
    if usable.sum() < FEWEST:
        raise Undecidable("its log-dets are not finite")
    middle = float(np.median(constant[usable]))
    if (np.abs(constant - middle) > SAME * scale)[usable].any():
        raise Unsupported("its base is no standard normal distribution")
    expected = -0.5 * size * LOG_2_PI
    if counts_levels((middle - expected) / size):
        raise Unsupported("it counts levels of its data besides")
    if number := particles(size, middle):
        raise Undecidable(
            f"its constant is that of {number} particles whose center does not move; its law is one of "
            "events without their center"
        )
    return Residual(
        np.where(usable, constant - expected, 0.0),
        np.where(usable, scale, 1.0),
        decidable=usable,
        observed={"constant": constant, "of a normal base": np.full(rows, expected)},
    )


def takes_to_normal(flow: MappedDensity, x: Array) -> bool:
    """Whether forward is seen to take data to latents: at some points the log-density has beside its
    log-det the normal form of what it gives, and one constant.
    """
    rows = len(x)
    out, refused = attempt(flow.forward, x, None)
    if refused or out.ladj is None or rows < FEWEST:
        return False
    told, _ = answered(flow, x, None)
    z = np.asarray(out.value, dtype=np.float64).reshape(rows, -1)
    square, ladj = 0.5 * (z**2).sum(1), per_point(out.ladj, rows)
    constant = told - ladj + square
    scale = 4 + np.abs(told) + np.abs(ladj) + square
    # Of latents that are all as far out nothing is told.
    varies = np.ptp(square) > 1 and np.isfinite(constant).all()
    return bool(varies and (np.abs(constant - constant[0]) <= SAME * scale).all())


def particles(size: int, constant: float) -> int:
    """Of how many particles, in two or three dimensions, a constant is that leaves out their center; 0
    where it is not such a constant. Flows of molecules have these.
    """
    for axes in (2, 3):
        if abs(constant + 0.5 * (size - axes) * LOG_2_PI) <= WHOLE * size:
            return size // axes if size % axes == 0 and size >= FEWEST * axes else 0
    return 0


def counts_levels(each: float) -> bool:
    """Whether what each entry has besides is the logarithm of a whole number, or of one by it."""
    levels = math.exp(min(abs(each), 20.0))
    return levels > 1.5 and abs(levels - round(levels)) <= WHOLE * levels
