"""Sampling a density: from base noise to data, gradients through samples, and the latents of
samples.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from scipy.special import chdtr, kolmogi, ndtr

from flowref.laws.common.arithmetic import finite_rows, rows_max
from flowref.laws.common.requirements import exact_log_det
from flowref.laws.density.base import normal_base, normalizing_calls
from flowref.laws.density.value import LEVEL, STAGES, can_be_sampled
from flowref.model import (
    BOUND,
    CONTRACT,
    STATISTICAL,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
)
from flowref.model.abilities import BaseSampler, Bijection, Flow, Invertible, Living, Sampler
from flowref.model.steps import Draw, Nudge, Pathwise


class BaseSamplerInvertible(BaseSampler, Invertible, Protocol):
    """BaseSamplerInvertible."""


class BijectionSampler(Bijection, Sampler, Protocol):
    """BijectionSampler."""


class LivingSampler(Living, Sampler, Protocol):
    """LivingSampler."""


# Numbers of samples whose gradient is looked at, and step sizes of the differences that it is
# compared with.
PATHS, STEPS = 8, (1e-3, 1e-4, 1e-5)
PATH_ERROR, GAP_FACTOR = 1e-4, 10.0


def unconditional(flow: Flow) -> str | None:
    """The laws of samples look at unconditional flows whose maps are computed in closed form."""
    return "it is conditional" if flow.context_shape is not None else exact_log_det(flow)


def maps_of(flow: Flow) -> list[tuple[Any, Any]]:
    """The map from data to latents with the one back; both ways round where user code does not say
    which is which.
    """
    if flow.forward is None or flow.inverse is None:
        raise Unsupported("it maps in one direction only")
    calls = {
        "forward": (flow.forward, flow.inverse),
        "inverse": (flow.inverse, flow.forward),
    }
    return [calls[which] for which in normalizing_calls(flow)]


@law(
    "sampling/sample-then-inverse",
    given="data",
    force=CONTRACT,
    promise="samples-from-base",
    local=False,
    size=16,
    scales=(0.0, 0.3),
    effort=3,
    applies=unconditional,
    source="Dinh et al., Real NVP (arXiv:1605.08803), section 3.1: samples are z ~ p_Z taken through the inverse",
)
def sample_then_inverse(flow: BaseSamplerInvertible, batch: Batch) -> Residual:
    r"""Samples are the base noise taken through the inverse: with noise $z$ the sample is
    $f^{-1}(z)$, and $f$ of it is $z$.

    Noise and samples are drawn from the same random state.
    """

    count = len(batch.x)
    z = np.asarray(flow.base_sample(count, batch.seed, None), dtype=np.float64)
    x = np.asarray(flow.sample(count, batch.seed, None), dtype=np.float64)
    found = []
    for to_latents, to_data in maps_of(flow):
        made = np.asarray(to_data(z, None).value, dtype=np.float64).reshape(count, -1)
        values = [x.reshape(count, -1) - made]
        if not flow.promises.get("inverse_tolerance"):
            # What an iterative inverse leaves open, the map back may enlarge.
            back = np.asarray(to_latents(x, None).value, dtype=np.float64).reshape(count, -1)
            values.append(back - z.reshape(count, -1))
        found.append((np.concatenate(values, 1), made))
    gaps, made = min(
        found, key=lambda one: float(np.nan_to_num(np.abs(one[0]), nan=np.inf).max(initial=0.0))
    )
    return Residual(
        gaps,
        scale=1 + rows_max(x) + rows_max(z),
        decidable=finite_rows(z, made),
        observed={"sample": x, "inverse of the base noise": made.reshape(x.shape)},
    )


def differentiable(flow: Flow) -> str | None:
    """Gradients of samples are those with respect to parameters."""
    if not flow.trainable:
        return "it has no trainable parameters"
    return unconditional(flow)


@law(
    "sampling/rsample-grad",
    given="data",
    force=CONTRACT,
    promise="rsample",
    tolerance=BOUND,
    local=False,
    size=1,
    scales=(0.0, 0.3),
    effort=2,
    applies=differentiable,
    source="Kingma and Welling, Auto-Encoding Variational Bayes (arXiv:1312.6114), section 2.4, on reparameterization",
)
def rsample_grad(flow: LivingSampler, batch: Batch) -> Residual:
    r"""Reparameterized samples carry the gradient of $f_\theta^{-1}(z)$ with $z$ held fixed, and
    plain samples carry none.

    The gradient is compared with differences of samples that are drawn from the same random state
    with moved parameters.
    """

    seed = batch.seed
    weights = np.random.default_rng(seed).standard_normal((PATHS, *flow.density_shape))
    plain = flow.play([Draw(PATHS)])[0]
    path = flow.play([Pathwise(PATHS, weights, seed)])[0]
    if not np.isfinite(path["value"]).all() or not np.isfinite(path["slope"]):
        raise Undecidable("its samples or their gradients are not finite")

    def moved(t: float) -> float:
        steps = [Nudge(seed, t), Pathwise(PATHS, weights, seed)]
        return float((weights * flow.play(steps)[1]["value"]).sum())  # type: ignore[misc]  # asserted above

    slopes = [(moved(t) - moved(-t)) / (2 * t) for t in STEPS]
    gaps = [abs(a - b) for a, b in pairwise(slopes)]
    best = int(np.argmin(gaps))
    slope, gap = slopes[best + 1], gaps[best]
    size = abs(slope) + abs(path["slope"])
    allowed = GAP_FACTOR * gap + PATH_ERROR * size
    if not np.isfinite(allowed) or gap > 0.1 * max(size, 1e-6):
        raise Undecidable("differences of its samples do not settle")
    note, ratio = "", abs(slope - path["slope"]) / allowed if allowed else 0.0
    if plain["graph"]:
        note, ratio = "sample() carries gradients, which rsample is there for", 2.0
    elif not path["graph"] and slope:
        note = "reparameterized samples carry no gradient"
    return Residual(
        np.array([ratio]),
        allowed=1.0,
        trivial=np.array([not slope and not path["slope"]]),
        observed={"autograd": np.array([path["slope"]]), "differences": np.array([slope])},
        note=note,
    )


def has_normal_latents(flow: Flow) -> str | None:
    """The transform of samples is looked at where the base is a standard normal and the map is
    exact.
    """
    if float(flow.promises.get("inverse_tolerance", 0.0)) > 1e-4:
        return "its inverse is approximate"
    return normal_base(flow) or can_be_sampled(flow)


@law(
    "sampling/pit-uniform",
    given="data",
    tolerance=STATISTICAL,
    scales=(0.0, 0.3),
    size=1,
    effort=2,
    applies=has_normal_latents,
    source="the probability integral transform; Kolmogorov's distribution of the largest deviation",
)
def pit_uniform(flow: BijectionSampler, batch: Batch) -> Residual:
    r"""The latents of samples are uniform after the base's distribution function: $\Phi(f(x))$ is,
    entry by entry.

    Their squared norm and two random projections are compared as well. Two stages at level 1e-3
    each; violated only if fresh and larger samples confirm the first.
    """
    worst: float = 0.0
    told: dict[str, float] = {}
    if normal_base(flow):
        raise Unsupported(normal_base(flow))
    for stage, count in enumerate(STAGES):
        every = [
            deviations(flow, which, count, batch.seed + 1000 * stage)
            for which in normalizing_calls(flow)
        ]
        told = min(every, key=lambda found: max(found.values()))
        worst = max(told.values()) * math.sqrt(count) / float(kolmogi(LEVEL / len(told)))
        if worst <= 1:
            break
    place = max(told, key=lambda name: told[name])
    observed: dict[str, Any] = {"largest deviation from uniform": np.array([told[place]])}
    return Residual(
        np.array([worst]), allowed=1.0, observed=observed, note=f"of {place}" if worst > 1 else ""
    )


def deviations(flow: Flow, which: str, count: int, seed: int) -> dict[str, float]:
    """Kolmogorov's distance from uniform of the latents' entries, of projections of them and of
    their norm.
    """

    to_latents = getattr(flow, which)
    x = np.asarray(flow.sample(count, seed, None), dtype=np.float64)
    if x.shape != (count, *flow.density_shape):
        raise Unsupported(
            f"sample({count}) returned shape {x.shape}; expected {(count, *flow.density_shape)}"
        )
    z = np.asarray(to_latents(x, None).value, dtype=np.float64).reshape(count, -1)
    kept = np.isfinite(z).all(1)
    if kept.mean() < 0.9999:
        raise Undecidable("more than one latent in ten thousand is not finite")
    z = z[kept]
    found = {f"entry {place}": distance(ndtr(column)) for place, column in enumerate(z.T)}
    directions = np.random.default_rng(seed).standard_normal((2, z.shape[1]))
    for place, direction in enumerate(directions):
        found[f"projection {place}"] = distance(ndtr(z @ direction / np.linalg.norm(direction)))
    found["the squared norm"] = distance(chdtr(z.shape[1], (z**2).sum(1)))
    return found


def distance(u: Array) -> float:
    """The largest difference of the empirical distribution function from the uniform one."""
    ordered, places = np.sort(u), np.arange(len(u) + 1) / len(u)
    return float(max((places[1:] - ordered).max(), (ordered - places[:-1]).max()))
