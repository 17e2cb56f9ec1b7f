"""Sampling a density: from base noise to data, gradients through samples, and the latents of
samples.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Protocol

import numpy as np

from flowref.laws.common.amounts import call_work, stepwise
from flowref.laws.common.arithmetic import finite_rows, rows_max
from flowref.laws.common.requirements import exact_log_det, has_parameters, repeatable
from flowref.laws.common.statistics import APART, LEVEL, Finding, Look, two_stage
from flowref.laws.density.base import demand_unmoved_base, normal_base, normalizing_calls
from flowref.laws.density.consistency import (
    STAGES,
    can_be_sampled,
    context_for_sampler,
    draws,
    same_context_rows,
    unconditional,
)
from flowref.laws.density.pictures import latent_histogram
from flowref.model import (
    BOUND,
    CONTRACT,
    NEARBY,
    OPPOSITE,
    STATISTICAL,
    Array,
    Batch,
    Call,
    Mapped,
    Residual,
    Undecidable,
    law,
    requires,
)
from flowref.model.abilities import (
    BaseSampler,
    Bijection,
    Flow,
    Invertible,
    Living,
    Pulling,
    Sampler,
    offers,
)
from flowref.model.budget import current_budget
from flowref.model.steps import Draw, Nudge, Pathwise


class InvertibleSampler(BaseSampler, Invertible, Protocol):
    """Samples with their base noise, and the map between both in both directions."""


class MappedSampler(Bijection, Sampler, Protocol):
    """Samples, and a map between them and latents."""


class PulledMap(Invertible, Pulling, Protocol):
    """An invertible map with vector-Jacobian products."""


class LivingSampler(Living, Sampler, Protocol):
    """A sampler with parameters that can be moved."""


# Samples whose gradient is compared, and step sizes of the differences.
PATHS, STEPS = 8, (1e-3, 1e-4, 1e-5)
PATH_ERROR, GAP_FACTOR = 1e-4, 10.0
# Finer steps, which must not lead from the differences that contradict autograd towards autograd,
# and the share of that way that is too much.
FINER, LEAVING = (1e-6, 1e-7, 1e-8), 0.25
# The share of the gap from which on the derivative of the map itself disagrees with differences.
INHERITED = 0.01
# Draws besides the differences, as a multiple of one draw: without a graph, with one, and the
# backward pass.
ONCE = 4
# Latents this far apart are different.
LOST = 1e-3
DEVIATION = "largest deviation from uniform"


# Sampling laws need unconditional flows with maps in closed form.
closed_form = unconditional & exact_log_det


def maps_of(flow: Invertible) -> list[tuple[Call[Mapped], Call[Mapped]]]:
    """Pairs of the map from data to latents and its inverse; both orders if user code does not
    declare it.
    """
    calls = {
        "forward": (flow.forward, flow.inverse),
        "inverse": (flow.inverse, flow.forward),
    }
    return [calls[which] for which in normalizing_calls(flow)]


def unresolved_latents(to_latents: Call[Mapped], x: Array, context: Array | None = None) -> Array:
    """Where the neighbouring floating-point numbers of a sample have other latents, ``(n,)``, as
    behind many nearly flat bins: such an error is bounded by the box, so noise does not reveal it.
    """
    beside = (np.nextafter(x, np.inf), np.nextafter(x, -np.inf))
    one, other = (np.asarray(to_latents(at, context).value, dtype=np.float64) for at in beside)
    with np.errstate(invalid="ignore"):  # both may be infinite
        return np.asarray(rows_max(one - other) > LOST)


@law(
    "sampling/base-through-inverse",
    key="sampling/sample-then-inverse",
    points="data",
    force=CONTRACT,
    promise="samples-from-base",
    local=False,
    size=16,
    scales=NEARBY,
    effort=4,
    applies=unconditional & repeatable,
    source="Dinh et al., Real NVP (arXiv:1605.08803), section 3.1: samples are z ~ p_Z taken through the inverse",
)
def sample_then_inverse(flow: InvertibleSampler, batch: Batch) -> Residual:
    """Samples are the base noise mapped by the inverse: with noise $z$ the sample is $f^{-1}(z)$,
    and $f$ of it is $z$.

    Noise and samples are drawn from the same random state.
    """
    count = len(batch.x)
    z = np.asarray(flow.base_sample(count, batch.seed, None), dtype=np.float64)
    x = np.asarray(flow.sample(count, batch.seed, None), dtype=np.float64)
    ways = []
    for to_latents, to_data in maps_of(flow):
        made = np.asarray(to_data(z, None).value, dtype=np.float64).reshape(count, -1)
        values = [x.reshape(count, -1) - made]
        if not flow.certainty.inverse:
            # The map back may amplify the error of an iterative inverse.
            back = np.asarray(to_latents(x, None).value, dtype=np.float64).reshape(count, -1)
            off = back - z.reshape(count, -1)
            if (
                np.nan_to_num(np.abs(off)).max(initial=0.0) > LOST
                and unresolved_latents(to_latents, x).any()
            ):
                raise Undecidable("rounding a sample alone moves its latents")
            values.append(off)
        ways.append((np.concatenate(values, 1), made))
    gaps, made = min(
        ways, key=lambda one: float(np.nan_to_num(np.abs(one[0]), nan=np.inf).max(initial=0.0))
    )
    return Residual(
        gaps,
        scale=1 + rows_max(x) + rows_max(z),
        decidable=finite_rows(z, made),
        observed={"sample": x, "inverse of the base noise": made.reshape(x.shape)},
    )


@law(
    "gradient/of-samples",
    key="sampling/rsample-grad",
    version=2,
    points="data",
    force=CONTRACT,
    promise="rsample",
    tolerance=BOUND,
    local=False,
    size=1,
    scales=NEARBY,
    effort=2,
    applies=has_parameters & closed_form,
    source="Kingma and Welling, Auto-Encoding Variational Bayes (arXiv:1312.6114), section 2.4, on reparameterization",
)
def rsample_grad(flow: LivingSampler, batch: Batch) -> Residual:
    r"""Reparameterized samples carry the gradient of $f_\theta^{-1}(z)$ with $z$ held fixed, and
    plain samples carry none.

    The gradient is compared with differences of samples drawn from the same random state with
    moved parameters.
    """
    seed = batch.seed
    if stepwise(flow, "rsample"):  # before the first of them is drawn
        work = call_work(flow, "rsample", PATHS, 2 * len(STEPS) + ONCE)
        current_budget().foresee("comparing its gradients with differences", work)
    weights = np.random.default_rng(seed).standard_normal((PATHS, *flow.density_shape))
    draw, reparameterized = Draw(PATHS), Pathwise(PATHS, weights, seed)
    alone = Pathwise(PATHS, weights, seed, alone=True)
    plain = flow.play([draw]).of(draw)
    path = flow.play([reparameterized]).of(reparameterized)
    if not np.isfinite(path.value).all():
        raise Undecidable("its samples are not finite")
    if not np.isfinite(path.slope):
        if flow.scale:
            raise Undecidable("the gradients of its samples are not finite")
        note = "samples are finite, and their gradient is not"
        return Residual(np.array([np.inf]), allowed=1.0, note=note)

    def moved(t: float) -> float:
        samples = flow.play([Nudge(seed, t), alone]).of(alone)
        return float((weights * samples.value).sum())

    slopes = [(moved(t) - moved(-t)) / (2 * t) for t in STEPS]
    gaps = [abs(a - b) for a, b in pairwise(slopes)]
    best = int(np.argmin(gaps))
    slope, gap = slopes[best + 1], gaps[best]
    size = abs(slope) + abs(path.slope)
    allowed = GAP_FACTOR * gap + PATH_ERROR * size
    if not np.isfinite(allowed) or gap > 0.1 * max(size, 1e-6):
        raise Undecidable("differences of its samples do not converge")
    note, off = "", abs(slope - path.slope)
    ratio = off / allowed if allowed else 0.0
    if ratio > 1:
        # Quotients of a function that varies within one step may agree by chance.
        finer = [*slopes[best + 2 :], *((moved(t) - moved(-t)) / (2 * t) for t in FINER)]
        if not all(abs(each - slope) <= LEAVING * off for each in finer):
            raise Undecidable("differences of its samples do not converge")
        if path.graph and _passed_on(flow, weights, seed):
            raise Undecidable(
                "autograd's derivative of the map from latents to data is another one, too, as of clamps that "
                "pass gradients on: see gradient/input[value]"
            )
    if plain.graph:
        note, ratio = "sample() carries gradients, which only rsample should", 2.0
    elif not path.graph and slope:
        note = "reparameterized samples carry no gradient"
    return Residual(
        np.array([ratio]),
        allowed=1.0,
        trivial=np.array([not slope and not path.slope]),
        observed={"autograd": np.array([path.slope]), "differences": np.array([slope])},
        note=note,
    )


def _passed_on(flow: LivingSampler, weights: Array, seed: int) -> bool:
    """Whether autograd's derivative of the map from latents to data differs from its differences:
    another law reports an error that samples inherit.
    """
    if not offers(flow, PulledMap) or flow.context_shape is not None:
        return False
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((PATHS, *flow.latent_shape))
    along = rng.choice((-1.0, 1.0), z.shape)
    which = OPPOSITE[normalizing_calls(flow)[0]]
    call = flow.calls[which]

    def moved(t: float) -> float:
        return float((weights * call(z + t * along, None).value.reshape(weights.shape)).sum())

    claimed = float((flow.vjp(which, z, None, weights, None) * along).sum())
    slopes = [(moved(t) - moved(-t)) / (2 * t) for t in STEPS]
    gap = min(abs(a - b) for a, b in pairwise(slopes))
    off = min(abs(claimed - one) for one in slopes)
    return bool(off > GAP_FACTOR * gap + INHERITED * max(abs(claimed), *map(abs, slopes)))


@requires("its inverse is approximate", blocked=True)
def exact_inverse(flow: Flow) -> bool:
    """The inverse is exact, so latents are those of the samples."""
    return flow.certainty.inverse <= 1e-4


@law(
    "sampling/follows-density[pit]",
    key="sampling/pit-uniform",
    points="data",
    tolerance=STATISTICAL,
    scales=NEARBY,
    size=1,
    effort=2,
    picture=latent_histogram,
    applies=exact_inverse & normal_base & can_be_sampled,
    source="the probability integral transform; Kolmogorov's distribution of the largest deviation",
)
def pit_uniform(flow: MappedSampler, batch: Batch) -> Residual:
    r"""The latents of samples are uniform after the base's distribution function: $\Phi(f(x))$,
    entry by entry.

    Their squared norm and two random projections are compared as well. Two stages at level 1e-3
    each; violated only if fresh and larger samples confirm the first.
    """
    demand_unmoved_base(flow)
    given = context_for_sampler(flow, batch)
    found = two_stage(lambda look: _farthest(flow, look, given), STAGES, batch.seed)
    if found.violates:
        # This share of latents is unknown, and may move a distribution function by as much.
        count, seed = STAGES[-1], batch.seed + APART * (len(STAGES) - 1)
        x, context = draws(flow, count, seed, given), same_context_rows(given, count)
        share = max(
            unresolved_latents(flow.calls[which], x, context).mean()
            for which in normalizing_calls(flow)
        )
        if float(found.excess) * (1 - share / found.observed[DEVIATION]) <= 1:
            raise Undecidable(f"rounding a sample alone moves the latents of {share:.0%} of them")
    return found.residual()


def _farthest(flow: MappedSampler, look: Look, given: Array | None) -> Finding:
    """The largest deviation, for the call (forward or inverse) with the smallest one."""
    from scipy.special import kolmogi

    every = [
        deviations(flow, which, look.count, look.seed, given) for which in normalizing_calls(flow)
    ]
    distances = min(every, key=lambda one: max(one.values()))
    name, largest = max(distances.items(), key=lambda item: item[1])
    limit = float(kolmogi(LEVEL / len(distances)))
    return Finding(largest * math.sqrt(look.count) / limit, {DEVIATION: largest}, f"of {name}")


def deviations(
    flow: Sampler, which: str, count: int, seed: int, given: Array | None
) -> dict[str, float]:
    """Kolmogorov's distance from uniform for the latents' entries, their projections and their
    norm, by name.
    """
    from scipy.special import chdtr, ndtr

    x = draws(flow, count, seed, given)
    out = flow.calls[which](x, same_context_rows(given, count))
    z = np.asarray(out.value, dtype=np.float64).reshape(count, -1)
    kept = np.isfinite(z).all(1)
    if kept.mean() < 0.9999:
        raise Undecidable("more than one latent in ten thousand is not finite")
    z = z[kept]
    distances = {f"entry {index}": distance(ndtr(column)) for index, column in enumerate(z.T)}
    directions = np.random.default_rng(seed).standard_normal((2, z.shape[1]))
    for index, direction in enumerate(directions):
        projected = z @ direction / np.linalg.norm(direction)
        distances[f"projection {index}"] = distance(ndtr(projected))
    distances["the squared norm"] = distance(chdtr(z.shape[1], (z**2).sum(1)))
    return distances


def distance(u: Array) -> float:
    """The largest difference of the empirical distribution function from the uniform one."""
    ordered, steps = np.sort(u), np.arange(len(u) + 1) / len(u)
    return float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))
