"""Decay of a density far out, and latents missing from the base log-density, along which it is
constant.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from flowref.laws.common.amounts import affordable_row_count, call_work
from flowref.laws.common.arithmetic import reported
from flowref.laws.common.statistics import center_and_spread
from flowref.laws.density.balance import comparable
from flowref.laws.density.base import normalizing_calls
from flowref.laws.density.draws import (
    SampledDensity,
    answered,
    density_samples,
    log_prob_at_points,
    periodic,
    pilot,
    repeats,
)
from flowref.laws.density.pictures import density_map
from flowref.model import (
    NEARBY,
    OPPOSITE,
    STATISTICAL,
    VOLUME,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
)
from flowref.model.abilities import Density, Flow, Invertible, offers
from flowref.model.budget import current_budget

# Points on random rays, the least number for expensive log-densities; the range of distances in
# units of the spread, and the mass above which two estimates are a violation.
RAYS, FEW_RAYS, NEAR, REACH, MASS = 1_024, 16, 0.1, 1e8, 1e3
# Samples that locate the mass for expensive samplers, and for those that take about a second each.
PLACED, BARELY = 64, 8
# Blocks of latents that are moved separately, the step, the fall of a decaying base, the rounding
# of a constant one, and the larger distance at which it must still be constant.
BLOCKS, FAR, FALL, LEVEL, FARTHER = 16, 30.0, 100.0, 1e-6, 3_000.0
# The least number of blocks, and the share of the budget of a call that is spent on one.
FEWEST, SPARED = 2, 3
# Samples accumulate at an end if more than GATHERED of them lie within the share END of their
# range, for more than MANY samples, of which a few may be there by chance.
END, GATHERED, MANY = 0.01, 0.004, 1_000


class InvertibleDensity(Density, Invertible, Protocol):
    """A density with an invertible map."""


@law(
    "density/mass[tails]",
    key="density/tails",
    about=VOLUME,
    points="data",
    picture=density_map,
    tolerance=STATISTICAL,
    scales=NEARBY,
    size=1,
    effort=2,
    applies=comparable,
    version=7,
    source="a density that stays up along rays does not integrate to one; Markov's inequality",
)
def tails(flow: Density, batch: Batch) -> Residual:
    r"""The density decays: its mass $\int p\,dx$, estimated at points $m + r u$ on random rays
    with $\log r$ uniform, stays below $10^3$.

    The estimate has the mass as its mean, so for a density it exceeds $10^3$ with probability at
    most $10^{-3}$, and twice with $10^{-6}$, which is the violation. The rays reach far enough to
    detect any density that stays constant where a standard normal is four standard deviations out
    in every dimension. If the support may be bounded, it is a violation only if the base falls
    along some latents and not along others, as with a missing log-scale; this is tested first,
    since few rays consist of such latents alone. Expensive log-densities get fewer rays, at least
    16: a density constant along a fifth of all directions is then still detected with probability
    0.94.
    """
    found = [*forgotten(flow, batch)]
    if found and not any(ends_there(flow, batch, *one) for one in found):
        return Residual(
            np.array([np.inf]),
            allowed=math.log(MASS),
            observed={"log of the mass": np.array([np.inf])},
            note="the log-density falls along some latents, and is the same however far others are moved",
        )
    # Samples that locate the mass are drawn only if the rays are affordable.
    rays = affordable_row_count(flow, RAYS, FEW_RAYS, "log_prob")
    current_budget().foresee(
        f"log_prob of {rays} points, twice", call_work(flow, "log_prob", rays, 2)
    )
    center, spread = _center_and_width(flow, batch.seed)
    logs = [_log_mass(flow, center, spread, rays, batch, batch.seed + stage) for stage in range(2)]
    mass = min(logs)
    if mass > math.log(MASS) and _may_end(flow, batch):
        raise Undecidable(
            "the density does not decay where there are no samples; its support can be declared "
            "(?support=)"
        )
    return Residual(
        np.array([max(0.0, mass)]),
        allowed=math.log(MASS),
        nats=np.array([mass]),
        observed={"log of the mass": np.array([mass])},
    )


def _center_and_width(flow: Density, seed: int) -> tuple[Array, Array]:
    """The location and the width of the mass by samples, else the origin and one."""
    size = math.prod(flow.density_shape)
    if offers(flow, SampledDensity):
        try:
            fits = affordable_row_count(flow, PLACED, 0, "sample")
            most, least = pilot(flow), BARELY if fits < BARELY else PLACED
            count = min(most, affordable_row_count(flow, most, least, "sample"))
            flat = density_samples(flow, count, seed).flat
            center, spread = center_and_spread(flat)
            if (spread > 0).all():
                return center, spread
        except Exception:  # other laws report a failing sampler; use the origin
            pass
    return np.zeros(size), np.ones(size)


def _may_end(flow: Density, batch: Batch) -> bool:
    """Whether samples accumulate at an undeclared end, the density is periodic, or there are no
    samples to decide.
    """
    if not offers(flow, SampledDensity):
        return not flow.facts.declared and (
            repeats(flow, batch) or not any(True for _ in forgotten(flow, batch))
        )
    try:
        draws = density_samples(flow, pilot(flow), batch.seed)
    except Exception:
        return True
    if periodic(flow, draws) or any(
        ends_there(flow, batch, *one) for one in forgotten(flow, batch)
    ):
        return True
    return not flow.facts.declared and samples_gather_at_end(draws.flat)


def _log_mass(
    flow: Density, center: Array, spread: Array, rays: int, batch: Batch, seed: int
) -> float:
    """The log of an estimate whose mean is the mass within the reach of the rays."""
    size, rng = len(center), np.random.default_rng(seed)
    u = rng.standard_normal((rays, size))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    span = math.log(REACH / NEAR)
    log_r = span * rng.random(rays) + math.log(NEAR)
    sphere = math.log(2) + 0.5 * size * math.log(math.pi) - math.lgamma(0.5 * size)
    context = None if batch.context is None else np.repeat(batch.context[:1], rays, 0)
    points = center + spread * np.exp(log_r)[:, None] * u
    # Points that are not a number are left out, which makes the mass no larger.
    log_p = log_prob_at_points(flow, points, context, lost=1.0)
    terms = log_p + size * log_r + sphere + float(np.log(spread).sum())
    terms = terms[np.isfinite(terms)] + math.log(span) - math.log(rays)
    if not len(terms):
        return -math.inf
    return float(terms.max() + np.log(np.exp(terms - terms.max()).sum()))


def ends_there(flow: Density, batch: Batch, which: str, latents: Array) -> bool:
    """Whether the density may be constant along some latents: it is periodic, or samples end
    there, as for uniform distributions. ``which``: the call that gives latents.
    """
    if repeats(flow, batch):
        return True
    if not offers(flow, SampledDensity):
        return False
    try:
        draws = density_samples(flow, pilot(flow), batch.seed)
        x = draws.flat.reshape(-1, *flow.density_shape)
        z = np.asarray(flow.calls[which](x, draws.context).value).reshape(len(x), -1)[:, latents]
    except Exception:  # other laws report a failing sampler
        return False
    # A few samples always have one at an end: pooled latents are enough.
    return samples_gather_at_end(z if len(z) > MANY else z.reshape(-1, 1))


def samples_gather_at_end(flat: Array) -> bool:
    """Whether samples ``(n, size)`` accumulate at an end, as for bounded supports."""
    low, high = flat.min(0), flat.max(0)
    near = END * (high - low)
    shares = ((flat < low + near).mean(0), (flat > high - near).mean(0))
    return bool(np.max(shares) > GATHERED)


def forgotten(flow: Flow, batch: Batch) -> Iterator[tuple[str, Array]]:
    """The call from data to latents, and latents along which the base is constant far out while it
    falls along others: these are missing from its log-density.
    """
    if not offers(flow, InvertibleDensity):
        return
    try:
        ways = normalizing_calls(flow)  # both, if user code does not declare it
    except Unsupported:
        return
    for which in ways:
        found = _forgotten(flow, batch, which)
        if len(found):
            yield which, found


def _affordable(flow: InvertibleDensity) -> int:
    """The number of blocks within the budget."""
    rows = affordable_row_count(flow, 4 * BLOCKS // SPARED + 1, 0, "forward", "inverse", "log_prob")
    return max(FEWEST, min(BLOCKS, SPARED * rows // 4))


def _forgotten(flow: InvertibleDensity, batch: Batch, which: str) -> Array:
    """Such latents for one call, a mask; none if all are constant, or it is undecided. A scale
    computed from other latents may be so large that nothing falls at one point: missing latents
    are constant everywhere.
    """
    context = None if batch.context is None else batch.context[:1]
    try:
        z = np.asarray(flow.calls[which](batch.x[:1], context).value, np.float64)
    except Exception:  # other laws report the error
        return np.zeros(0, dtype=int)
    found = _flat_base_latents(flow, z, context, which)
    if not len(found):
        return found
    ordinary = np.random.default_rng(batch.seed).standard_normal(z.shape)
    return np.intersect1d(found, _flat_base_latents(flow, ordinary, context, which))


def _flat_base_latents(
    flow: InvertibleDensity, z: Array, context: Array | None, which: str
) -> Array:
    """The latents along which the base is constant from one point on, ``(1, *latent)``."""
    there, back = flow.calls[which], flow.calls[OPPOSITE[which]]
    none = np.zeros(0, dtype=int)
    try:
        blocks = np.array_split(np.arange(z.size), min(z.size, _affordable(flow)))
        steps = (FAR, -FAR, FARTHER, -FARTHER)
        moved = np.repeat(z.reshape(1, -1), 1 + len(steps) * len(blocks), 0)
        for row, (block, step) in enumerate(itertools.product(blocks, steps), 1):
            moved[row, block] += step
        moved = moved.reshape(-1, *z.shape[1:])
        contexts = None if context is None else np.repeat(context, len(moved), 0)
        x = np.asarray(back(moved, contexts).value)
        reached = there(x, contexts)
        log_p, _ = answered(flow, x, contexts)
        base = log_p - reported(flow, reached, len(x))
    except Exception:  # other laws report the error
        return none
    off = np.abs(np.asarray(reached.value) - moved).reshape(len(x), -1).max(1)
    change = np.where(off < LEVEL * FAR, base - base[0], np.nan)[1:].reshape(-1, len(steps))
    # Relative to each point: scales that depend on other latents are huge along these only.
    size = np.abs(log_p[0]) + np.abs(log_p[1:]).reshape(-1, len(steps))
    rounding = np.where(np.isfinite(size), LEVEL * (1 + size), 0.0)
    near, far = change[:, :2], change[:, 2:]
    falls = (np.abs(near) >= rounding[:, :2]).any(1) | (np.abs(far) >= rounding[:, 2:]).any(1)
    flat = np.asarray(~falls & np.isfinite(near).all(1))
    if not (near < -FALL).all(1).any():
        return none
    return np.concatenate(
        [none, *(block for block, same in zip(blocks, flat, strict=True) if same)]
    )
