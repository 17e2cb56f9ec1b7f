"""The mass of densities without a sampler in more than two dimensions: by importance sampling, and
with many entries by annealing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flowref.laws.common.amounts import measured_share
from flowref.laws.common.cases import CONTEXT
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import exact_density, exact_log_det
from flowref.laws.common.statistics import HEAVIEST, Finding, Guard, Look, Mean, two_stage
from flowref.laws.density.annealing import MILLION, PulledDensity, found_mass
from flowref.laws.density.pictures import density_map
from flowref.laws.density.value import promised_everywhere
from flowref.model import (
    NEARBY,
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

SMALLEST, LARGEST = 3, 1_024
# With more entries the proposals no longer fit.
FITTED = 10
# Points of a round of adaptation and of the estimate, for densities with this many operations.
ROUND, FINAL, OPERATIONS = 2_000, 20_000, 400
ROUNDS = 8
# Proposals are Student's t around the mass, and a share of them much wider.
FREEDOM, WIDENED, BROAD, BROAD_SHARE = 5.0, 1.3, 16.0, 0.2
START = 3.0
# The least effective number of points, and the required relative accuracy.
COUNTING, KNOWN = 500, 0.05
# Points that confirm a mass that is too small, on compact manifolds of at most this dimension,
# where this many uniform points miss nothing; and the share of uniform points.
EVERYWHERE, THREE, UNIFORM = 130_000, 3, 0.5
# The deviation that counts, in standard errors and absolutely.
ERRORS, LEAST = 7.0, 0.01


@requires(f"its events have two entries or fewer, or more than {LARGEST}")
def several_entries(flow: Flow) -> bool:
    """In fewer dimensions quadrature is used."""
    return SMALLEST <= math.prod(flow.density_shape) <= LARGEST


@requires("it is sampled, and laws of samples judge its mass")
def never_sampled(flow: Flow) -> bool:
    """With a sampler, stronger laws apply."""
    return "sample" not in flow.calls


@requires("its support is not the whole space", blocked=True)
def everywhere(flow: Flow) -> bool:
    """Proposals cover the whole space, or a manifold with finite area."""
    if compact(flow):
        return True
    return not flow.density_support.has_end and flow.density_support.kind == "real"


def compact(flow: Flow) -> bool:
    """Whether it is judged on a manifold with uniform points."""
    return flow.facts.surface is not None and bool(flow.facts.surface.kind)


@dataclass(frozen=True)
class Proposal:
    """A mixture of two Student's t distributions around one mean."""

    mean: Array
    axes: Array

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """Points ``(count, size)``."""
        size = len(self.mean)
        broad = rng.random(count) < BROAD_SHARE
        normal = rng.standard_normal((count, size)) @ self.axes.T
        scale = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, count)) * np.where(broad, BROAD**0.5, 1.0)
        return np.asarray(self.mean + scale[:, None] * normal)

    def log_prob(self, x: Array) -> Array:
        """The log-density, ``(n,)``."""
        size = len(self.mean)
        squares = (np.linalg.solve(self.axes, (x - self.mean).T) ** 2).sum(0)
        constant = (
            math.lgamma((FREEDOM + size) / 2)
            - math.lgamma(FREEDOM / 2)
            - size / 2 * math.log(FREEDOM * math.pi)
            - float(np.linalg.slogdet(self.axes)[1])
        )
        parts = [
            math.log(share)
            + constant
            - size / 2 * math.log(wide)
            - (FREEDOM + size) / 2 * np.log1p(squares / (FREEDOM * wide))
            for share, wide in ((1 - BROAD_SHARE, 1.0), (BROAD_SHARE, BROAD))
        ]
        return np.asarray(np.logaddexp(*parts))


@law(
    "density/mass[importance]",
    key="density/mass-at-most-one",
    about=VOLUME,
    points="data",
    picture=density_map,
    tolerance=STATISTICAL,
    local=False,
    scales=NEARBY,
    size=1,
    effort=2,
    applies=several_entries
    & never_sampled
    & everywhere
    & promised_everywhere
    & exact_log_det
    & exact_density,
    version=2,
    source="importance sampling: E[p(x) / q(x)] over x ~ q is the mass of p, whatever q is; "
    "Neal, Annealed importance sampling (arXiv:physics/9803008)",
    cases=(CONTEXT,),
)
def mass_at_most_one(flow: Density, batch: Batch) -> Residual:
    r"""The density has a mass of at most one: $E_{x \sim q}[p(x)/q(x)] \le 1$.

    The estimate is unbiased for every q (with more than ten entries, by annealed chains), but
    misses mass far from where it was found: a mass below one decides nothing, except on a sphere
    of three dimensions, of rotations and of three angles, where half of the points are uniform.
    """
    if math.prod(flow.density_shape) > FITTED:
        return annealed(flow, batch)
    surface = flow.facts.surface
    # On a simplex a density may be infinite in a corner that no point reaches.
    closed = surface is not None and surface.kind not in ("", "simplex")
    reached = closed and math.prod(flow.density_shape) <= THREE

    def mass(look: Look) -> Finding:
        found = estimate(flow, batch, look)
        if found.mean < 1 - found.room(LEAST, ERRORS) and not reached:
            raise Undecidable(f"importance sampling finds a mass of {found.mean:.3g} only")
        off = (found.mean - 1) / found.room(LEAST, ERRORS)
        return Finding(
            abs(off) if reached else max(off, 0.0),
            {"mass": found.mean, "standard error": found.error},
        )

    found = two_stage(mass, (FINAL, EVERYWHERE if reached else FINAL), batch.seed)
    return found.residual(nats=np.log(np.array([max(found.observed["mass"], 0.0)])))


def annealed(flow: Density, batch: Batch) -> Residual:
    """The same with many entries: violated if the product of independent runs exceeds a million."""
    if not offers(flow, PulledDensity):
        raise Unsupported(
            "it has no gradients, by which mass is found among many entries", blocked=True
        )
    total, mean = found_mass(flow, batch)
    return Residual(
        np.array([max(total, 0.0)]),
        allowed=MILLION,
        nats=np.array([mean]),
        observed={"log of the mass": np.array([mean])},
    )


def estimate(flow: Density, batch: Batch, look: Look) -> Mean:
    """The mass with its standard error. Raises `Undecidable` if a few points dominate."""
    rng = np.random.default_rng(look.seed)
    size, surface = math.prod(flow.density_shape), flow.facts.surface if compact(flow) else None
    part = measured_share(flow, OPERATIONS)
    proposal = Proposal(np.zeros(size), START * np.eye(size))
    for turn in range(ROUNDS):
        count = max(50 * size, int(part * ROUND))
        x = proposal.draw(count, rng)
        if surface is not None and not turn:
            u, log_q = surface.uniform(count, rng)
            x = u.reshape(count, size)
            log_w = log_densities(flow, x, batch) - log_q
        else:
            log_w = log_ratios(flow, proposal, x, batch)
        proposal = fitted_proposal(x, log_w)
    count = max(4 * COUNTING, int(part * look.count))
    x = proposal.draw(count, rng)
    if surface is None:
        log_w = log_ratios(flow, proposal, x, batch)
    else:
        even = rng.random(count) < UNIFORM
        x[even] = surface.uniform(count, rng)[0].reshape(count, size)[even]
        with np.errstate(divide="ignore", invalid="ignore"):
            uniform = surface.log_area(x.reshape(count, *surface.shape)) - surface.log_volume
        inside = flow.density_support.holds(x.reshape(count, *flow.density_shape))
        log_q = np.logaddexp(
            math.log(UNIFORM) + np.where(inside, uniform, -np.inf),
            math.log(1 - UNIFORM) + proposal.log_prob(x),
        )
        log_w = np.where(inside, log_densities(flow, x, batch) - log_q, -np.inf)
    top = float(log_w.max())
    if not math.isfinite(top):
        raise Undecidable("no point was found at which the density is finite and positive")
    w = np.exp(log_w - top)
    mean, error, _ = Mean.of(w)
    if not Guard(HEAVIEST, COUNTING).passes(w) or error > KNOWN * mean:
        raise Undecidable("its mass is spread too unevenly for importance sampling")
    mass = math.exp(min(top + math.log(mean), 600.0))
    return Mean(mass, error / mean * mass)


def log_ratios(flow: Density, proposal: Proposal, x: Array, batch: Batch) -> Array:
    """log p/q, ``(n,)``, -inf outside of the support or if p is not a number."""
    log_w = log_densities(flow, x, batch) - proposal.log_prob(x)
    inside = flow.density_support.holds(x.reshape(len(x), *flow.density_shape))
    return np.where(np.isfinite(log_w) & inside, log_w, -np.inf)


def log_densities(flow: Density, x: Array, batch: Batch) -> Array:
    """log p, ``(n,)``. Raises `Undecidable` if points are rejected."""
    context = None if batch.context is None else batch.context[:1].repeat(len(x), 0)
    out, error = attempt(flow.log_prob, x.reshape(len(x), *flow.density_shape), context)
    if error or np.size(out) != len(x):
        raise Undecidable(f"log_prob refuses points ({error or np.shape(out)})")
    return np.nan_to_num(
        np.asarray(out, dtype=np.float64).reshape(len(x)),
        nan=-np.inf,
        posinf=-np.inf,
        neginf=-np.inf,
    )


def fitted_proposal(x: Array, log_w: Array) -> Proposal:
    """A proposal fitted to weighted points, with tempered weights while few points dominate.
    Raises `Undecidable` if the mass is not found or too thin.
    """
    size = x.shape[1]
    if not np.isfinite(log_w).any():
        raise Undecidable("no point was found at which the density is finite and positive")
    log_w = log_w - log_w.max()
    power = 1.0
    w = np.exp(power * log_w)
    while w.sum() ** 2 / (w**2).sum() < 8 * size and power > 1e-3:
        power *= 0.7
        w = np.exp(power * log_w)
    w = w / w.sum()
    mean = w @ x
    covariance = (w[:, None] * (x - mean)).T @ (x - mean)
    covariance += 1e-6 * np.trace(covariance) / size * np.eye(size)
    try:
        return Proposal(mean, np.linalg.cholesky(WIDENED * covariance))
    except np.linalg.LinAlgError as error:
        raise Undecidable("its mass lies in too thin a set") from error
