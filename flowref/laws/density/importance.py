"""The mass of densities that nobody can sample, beyond two dimensions: importance sampling, and of many
entries what is annealed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flowref.laws.common.amounts import share_of
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
# Beyond so many entries the proposals fit no density any more.
FITTED = 10
# Points of a round of adaptation and of the estimate, for densities of so many operations.
ROUND, FINAL, OPERATIONS = 2_000, 20_000, 400
ROUNDS = 8
# Proposals are Student's t around the mass and, for a share, many times as wide.
FREEDOM, WIDENED, BROAD, BROAD_SHARE = 5.0, 1.3, 16.0, 0.2
START = 3.0
# So many points are to count, and the mean is to be as well known.
COUNTING, KNOWN = 500, 0.05
# In standard errors, and by itself.
ERRORS, LEAST = 7.0, 0.01


@requires(f"its events have two entries or fewer, or more than {LARGEST}")
def several_entries(flow: Flow) -> bool:
    """In fewer dimensions there is quadrature."""
    return SMALLEST <= math.prod(flow.density_shape) <= LARGEST


@requires("it is sampled, and laws of samples judge its mass")
def never_sampled(flow: Flow) -> bool:
    """Samples would tell more."""
    return "sample" not in flow.calls


@requires("its support is not the whole space", waits=True)
def everywhere(flow: Flow) -> bool:
    """The proposals are spread over the whole space."""
    return not flow.density_support.bounded and flow.density_support.kind == "real"


@dataclass(frozen=True)
class Proposal:
    """Points of a mixture of two distributions of Student around a mean."""

    mean: Array
    axes: Array

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """So many points."""
        size = len(self.mean)
        broad = rng.random(count) < BROAD_SHARE
        normal = rng.standard_normal((count, size)) @ self.axes.T
        scale = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, count)) * np.where(broad, BROAD**0.5, 1.0)
        return np.asarray(self.mean + scale[:, None] * normal)

    def log_prob(self, x: Array) -> Array:
        """The log-density at points."""
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
    r"""The density has a mass of one, and no more: $E_{x \sim q}[p(x)/q(x)] \le 1$.

    The estimate is unbiased whatever q is (beyond ten entries chains that are annealed), but misses
    mass far from where it was found: a mass that seems too small decides nothing.
    """
    if math.prod(flow.density_shape) > FITTED:
        return annealed(flow, batch)

    def mass(look: Look) -> Finding:
        found = estimate(flow, batch, look)
        if found.mean < 1 - found.room(LEAST, ERRORS):
            raise Undecidable(f"importance sampling finds a mass of {found.mean:.3g} only")
        return Finding(
            max((found.mean - 1) / found.room(LEAST, ERRORS), 0.0),
            {"mass": found.mean, "standard error": found.error},
        )

    found = two_stage(mass, (FINAL, FINAL), batch.seed)
    return found.residual(nats=np.log(np.array([max(found.observed["mass"], 0.0)])))


def annealed(flow: Density, batch: Batch) -> Residual:
    """The same of events of many entries: what independent runs find accuses where their product is a
    million.
    """
    if not offers(flow, PulledDensity):
        raise Unsupported(
            "it has no gradients, by which mass is found among many entries", waits=True
        )
    total, mean = found_mass(flow, batch)
    return Residual(
        np.array([max(total, 0.0)]),
        allowed=MILLION,
        nats=np.array([mean]),
        observed={"log of the mass": np.array([mean])},
    )


def estimate(flow: Density, batch: Batch, look: Look) -> Mean:
    """The mass. Raises `Undecidable` where a few points decide."""
    rng = np.random.default_rng(look.seed)
    size = math.prod(flow.density_shape)
    part = share_of(flow, OPERATIONS)
    proposal = Proposal(np.zeros(size), START * np.eye(size))
    for _ in range(ROUNDS):
        x = proposal.draw(max(50 * size, int(part * ROUND)), rng)
        proposal = moved(x, log_ratios(flow, proposal, x, batch))
    x = proposal.draw(max(4 * COUNTING, int(part * look.count)), rng)
    log_w = log_ratios(flow, proposal, x, batch)
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
    """log p/q at points, -inf where p is no number."""
    context = None if batch.context is None else batch.context[:1].repeat(len(x), 0)
    out, error = attempt(flow.log_prob, x.reshape(len(x), *flow.density_shape), context)
    if error or np.size(out) != len(x):
        raise Undecidable(f"log_prob refuses points ({error or np.shape(out)})")
    log_p = np.asarray(out, dtype=np.float64).reshape(len(x))
    log_w = log_p - proposal.log_prob(x)
    return np.where(np.isfinite(log_w), log_w, -np.inf)


def moved(x: Array, log_w: Array) -> Proposal:
    """The proposal around the mass that points tell of; tempered as long as few of them do."""
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
