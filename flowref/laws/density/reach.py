"""Where a density is: it decays, and is nothing outside its declared support."""

from __future__ import annotations

import math

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.density.balance import comparable, sampled
from flowref.laws.density.draws import (
    ALONE,
    Frame,
    SampledDensity,
    drawn,
    elsewhere,
    frame,
    number,
    periodic,
    pilot,
    placing,
    repeats,
)
from flowref.laws.density.forgotten import ends_there, forgotten, gather
from flowref.laws.density.pictures import density_map
from flowref.model import (
    ADVICE,
    BOUND,
    STATISTICAL,
    VOLUME,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Density, Flow, offers
from flowref.model.means import fitting, means

# Points on random rays, and how few do where a log-density is dear; how far they reach, in units of
# the spread, and the mass beyond which they accuse, twice.
RAYS, FEW_RAYS, NEAR, REACH, MASS = 1_024, 16, 0.1, 1e8, 1e3
# As few samples tell where the mass is where they are dear, and where each takes a second or so.
PLACED, BARELY = 64, 8
# Points about the samples that look for mass outside the support, the largest weight of one, and
# how many standard errors the mass must stand out by.
LOOKED, WEIGHT, ERRORS = 8_000, 20.0, 5.0


@law(
    "density/tails",
    about=VOLUME,
    points="data",
    picture=density_map,
    tolerance=STATISTICAL,
    scales=(0.0, 0.3),
    size=1,
    effort=2,
    applies=comparable,
    version=7,
    source="a density that stays up along rays does not integrate to one; Markov's inequality",
)
def tails(flow: Density, batch: Batch) -> Residual:
    r"""The density decays: its mass $\int p\,dx$, estimated from points $m + r u$ on random rays
    with $\log r$ uniform, is not a thousand.

    The estimate has the mass as its mean, so that for a density it exceeds $10^3$ with probability
    $10^{-3}$ at most, twice with $10^{-6}$: that much accuses. The rays reach so far that a density
    is seen for certain that stays where a standard normal is at four in every dimension. Where nothing
    tells whether a support ends, it accuses only if the base falls along some latents and not along
    others, as where the log-density of one scale was forgotten; that is looked for first, since few
    rays are of such latents alone.

    Where a log-density is dear fewer rays are asked, down to 16: they accuse as rarely, and what stays up
    along a fifth of all directions is met by both estimates with probability 0.94.
    """
    found = [*forgotten(flow, batch)]
    if found and not any(ends_there(flow, batch, *one) for one in found):
        return Residual(
            np.array([np.inf]),
            allowed=math.log(MASS),
            observed={"log of the mass": np.array([np.inf])},
            note="the log-density falls along some latents, and is the same however far others are moved",
        )
    # Samples that tell where the mass is are not drawn for nothing.
    cost = flow.facts.cost.of("log_prob")
    rays = max(FEW_RAYS, min(RAYS, fitting(cost)))
    means().foresee(f"log_prob of {rays} points, twice", 2 * cost.work.of(rays))
    center, spread = _place(flow, batch.seed)
    logs = [_log_mass(flow, center, spread, rays, batch, batch.seed + stage) for stage in range(2)]
    mass = min(logs)
    if mass > math.log(MASS) and _may_end(flow, batch):
        raise Undecidable(
            "the density stays up where no sample is; where its support ends can be declared "
            "(?support=)"
        )
    return Residual(
        np.array([max(0.0, mass)]),
        allowed=math.log(MASS),
        nats=np.array([mass]),
        observed={"log of the mass": np.array([mass])},
    )


def _place(flow: Density, seed: int) -> tuple[Array, Array]:
    """Where the mass is, and how wide: as samples tell, if there are any, else the origin and one."""
    size = math.prod(flow.density_shape)
    if offers(flow, SampledDensity):
        try:
            fits = fitting(flow.facts.cost.of("sample"))
            count = min(pilot(flow), max(BARELY if fits < BARELY else PLACED, fits))
            flat = drawn(flow, count, seed).flat
            spread = (np.quantile(flat, 0.75, axis=0) - np.quantile(flat, 0.25, axis=0)) / 1.349
            if (spread > 0).all():
                return np.median(flat, axis=0), spread
        except Exception:  # samples are the affair of other laws; the origin will do
            pass
    return np.zeros(size), np.ones(size)


def _may_end(flow: Density, batch: Batch) -> bool:
    """Whether samples gather at an end that is not declared, or the density repeats as that of angles
    does, or there are no samples to tell.
    """
    if not offers(flow, SampledDensity):
        return not flow.facts.declared and (
            repeats(flow, batch) or not any(True for _ in forgotten(flow, batch))
        )
    try:
        draws = drawn(flow, pilot(flow), batch.seed)
    except Exception:
        return True
    if periodic(flow, draws) or any(
        ends_there(flow, batch, *one) for one in forgotten(flow, batch)
    ):
        return True
    return not flow.facts.declared and gather(draws.flat)


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
    # What is no number is left out, which makes the mass no larger.
    log_p = elsewhere(flow, points, context, lost=1.0)
    terms = log_p + size * log_r + sphere + float(np.log(spread).sum())
    terms = terms[np.isfinite(terms)] + math.log(span) - math.log(rays)
    if not len(terms):
        return -math.inf
    return float(terms.max() + np.log(np.exp(terms - terms.max()).sum()))


@requires("its support has no ends, or is that of angles", waits=False)
def has_ends(flow: Flow) -> bool:
    """A support that points may lie outside of. Angles repeat, or are assumed to be given so."""
    low, high = flow.density_support.ends
    angles = np.isclose(high - low, 2 * math.pi).all()
    bounded = flow.density_support.bounded and not angles
    return bounded or flow.density_support.kind == "ordered"


@law(
    "density/support",
    about=VOLUME,
    points="data",
    force=ADVICE,  # some document that they assume points inside, or check them only if asked to
    tolerance=STATISTICAL,
    scales=(0.0,),
    size=1,
    effort=2,
    applies=has_ends & comparable,
    source="a density is zero outside its support: what it gives there is mass that no sample takes",
)
def support(flow: SampledDensity, batch: Batch) -> Residual:
    r"""Outside its declared support a density is $-\infty$ or refuses: it has no more mass there
    than the share of the samples that fall there.

    The mass is that of points about the samples, weighted by $p/r$, and stands out by five standard
    errors. With probability 0.99 a density that goes on beyond the end of its support is seen
    where that adds one part in fifty.
    """
    within = frame(flow, placing(flow, batch.seed + 1))
    count = min(LOOKED, number(flow))
    draws = drawn(flow, count, batch.seed)
    y = np.random.default_rng(batch.seed).standard_normal(draws.flat.shape)
    x = within.outward(y)
    shape = flow.density_shape
    outside = ~flow.density_support.holds(x.reshape(-1, *shape))
    edge = ~flow.density_support.holds(draws.flat.reshape(-1, *shape))
    contexts = None if draws.context is None else draws.context[outside]
    beyond = _beyond(flow, x[outside], contexts)
    if _repeats(flow, x[outside], contexts, beyond):
        raise Unsupported("it repeats itself, as densities of angles do", waits=False)
    weight = np.zeros(count)
    known = _normal(y[outside], within)
    weight[outside] = np.minimum(np.exp(np.minimum(beyond - known, 10.0)), WEIGHT)
    gap = float(weight.mean() - edge.mean())
    error = math.sqrt((weight.var() + edge.var()) / count + 1e-8)
    return Residual(
        np.array([max(0.0, gap) / error]),
        allowed=ERRORS,
        trivial=np.array([not outside.any()]),
        observed={
            "mass outside": np.array([float(weight.mean())]),
            "share of samples outside": np.array([float(edge.mean())]),
        },
    )


def _beyond(flow: Density, flat: Array, context: Array | None) -> Array:
    """The log-density outside, -inf where it refuses or gives no number."""
    if not len(flat):
        return np.zeros(0)
    x = flat.reshape(-1, *flow.density_shape)
    try:
        log_p = np.asarray(flow.log_prob(x, context), dtype=np.float64).reshape(len(x))
    except Exception:  # it refuses: some of them, or all
        return np.full(len(x), -np.inf)
    return np.where(np.isnan(log_p), -np.inf, log_p)


def _repeats(flow: Density, flat: Array, context: Array | None, log_p: Array) -> bool:
    """Whether the density outside is that of the point one period, the width of the support, off."""
    low, high = (np.broadcast_to(end, flat.shape[1:]) for end in flow.density_support.ends)
    closed = np.isfinite(low) & np.isfinite(high)
    if not closed.any() or not np.isfinite(log_p).any():
        return False
    width = np.where(closed, high - low, 1.0)
    wrapped = np.where(closed, low + np.mod(flat - low, width), flat)
    there = _beyond(flow, wrapped, context)
    return bool(np.mean(np.abs(there - log_p)[np.isfinite(log_p)] < 1e-6) > 0.9)


def _normal(y: Array, within: Frame) -> Array:
    constant = 0.5 * y.shape[1] * math.log(2 * math.pi) + within.log_volume
    return np.asarray(-0.5 * (y**2).sum(1) - constant)


SIZES = (1, 2, 3, 7)
# What rounding may do to log-densities of other batches.
CLOSE = 1e-4


@law(
    "density/log-prob-shape",
    about=VOLUME,
    points="data",
    tolerance=BOUND,
    local=False,
    scales=(0.0,),
    size=7,
    effort=2,
    version=3,
    source="a log-density is a number for each point; torch.distributions, shapes of batches and events",
)
def log_prob_shape(flow: Density, batch: Batch) -> Residual:
    """log_prob gives one number for each point of a batch, whatever its size.

    A trailing axis of one is understood; a number for each entry is not, nor one for the batch. What
    promises to take several batch axes gives those of the same points in a row, or refuses, and so it
    does for one point without an axis of its own.
    """
    wrong = in_other_axes(flow, batch) if flow.promises.get("batch-dims") else []
    if flow.promises.get("batch-sum"):
        wrong.append("log_prob returned one number for several points, which their own add up to")
    for size in SIZES:
        if size > len(batch.x):
            continue
        few = batch.rows(slice(0, size))
        shape = np.shape(flow.log_prob(few.x, few.context))
        if shape not in ((size,), (size, 1)):
            wrong.append(f"log_prob returned shape {shape} for {size} points; expected {(size,)}")
    return Residual(np.full(len(batch.x), float(bool(wrong))), note="; ".join(wrong[:2]))


def in_other_axes(flow: Density, batch: Batch) -> list[str]:
    """What is wrong with the log-densities of points in two batch axes, and of one point in none."""
    rows, shape, wrong = 6, flow.density_shape, []
    if len(batch.x) < rows or batch.context is not None:
        return []
    x = batch.x[:rows]
    flat = np.asarray(flow.log_prob(x, None), np.float64)
    if flat.shape != (rows,):
        return []
    for lead, points in (((2, 3), x), ((), x[:1])) if shape else (((2, 3), x),):
        told, refused = attempt(flow.log_prob, points.reshape(*lead, *shape), None)
        if refused:
            continue
        value, one = np.asarray(told, np.float64), flat[: len(points)].reshape(lead)
        given = (*lead, *shape)
        if value.shape != lead:
            wrong.append(f"log_prob returned shape {value.shape} for {given}; expected {lead}")
        elif not np.allclose(value, one, rtol=CLOSE, atol=CLOSE, equal_nan=True):
            wrong.append(f"log_prob of points in shape {given} is not that of the points in a row")
    return wrong


# Rows of a call, and of one that is dear.
ROWS, SHARE = 512, 0.05


@law(
    "sampling/rows-differ",
    points="data",
    tolerance=BOUND,
    local=False,
    scales=(0.0,),
    size=1,
    effort=2,
    applies=sampled,
    version=2,
    source="independent draws from a density: two of them are equal with probability zero",
)
def rows_differ(flow: SampledDensity, batch: Batch) -> Residual:
    """The samples of one call differ from each other: noise is drawn for each of them.

    Values that two calls share are those of a discrete distribution, of which nothing is said, nor
    of rows that stay as they were for a while, as those of a Markov chain do.
    """
    count = max(ALONE, min(ROWS, fitting(flow.facts.cost.of("sample"))))
    first = drawn(flow, count, batch.seed).flat
    dear = flow.facts.cost.of("sample").heavy
    if not dear or len(np.unique(first, axis=0)) < len(first):  # else there is nothing to excuse
        second = drawn(flow, count, batch.seed + 1).flat
        if np.isin(first, second).mean() > SHARE:
            raise Undecidable("two calls give the same values, as discrete distributions do")
    runs = np.flatnonzero(np.append(True, (np.diff(first, axis=0) != 0).any(1)))
    lengths = np.diff(np.append(runs, len(first)))
    if lengths.min() < lengths[:-1].max(initial=1):  # a chain, which stays where it is for a while
        first = first[runs]
    repeated = 1 - len(np.unique(first, axis=0)) / len(first)
    return Residual(
        np.array([repeated]),
        allowed=SHARE,
        observed={"share of samples that repeat another": np.array([repeated])},
    )
