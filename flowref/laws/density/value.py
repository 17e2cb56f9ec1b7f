"""Densities: the change of variables of the whole map and of its parts; log-densities returned
with samples, and of expanded distributions; and total mass one.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, reported, rows_max
from flowref.laws.common.cases import CONTEXT, TRAIN
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.quadrature import MASS_FLOOR, total_mass
from flowref.laws.common.requirements import exact_density, exact_log_det
from flowref.laws.common.truncation import mass_of_steps
from flowref.laws.composition.chain import has_parts
from flowref.laws.density.base import normalizing_call, open_direction
from flowref.laws.density.draws import atoms
from flowref.laws.density.pictures import density_map
from flowref.model import (
    BOUND,
    NEARBY,
    VOLUME,
    Array,
    Batch,
    Call,
    Mapped,
    Residual,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import (
    Based,
    Bijection,
    Composite,
    Density,
    Expanding,
    Flow,
    LabelledSampler,
)


class BasedDensity(Based, Density, Protocol):
    """A density with its base."""


class MappedDensity(BasedDensity, Bijection, Protocol):
    """A density with its base and the map between them."""


class ComposedDensity(BasedDensity, Composite, Protocol):
    """A density with its base and the parts of its map."""


class LabelledDensity(Density, LabelledSampler, Protocol):
    """A density whose sampler also returns log-densities."""


class ExpandingDensity(Density, Expanding, Protocol):
    """A density that can be expanded."""


CHANGE = "log p(x) = log p_Z(f(x)) + log|det df/dx|; Dinh et al., Real NVP (arXiv:1605.08803), section 3.1"
QUADRATURE_FACTOR = 20.0
# A deviation that no usable solver has.
GROSS = 0.5
# The factor by which the log-density may amplify the error of an iterative inverse.
GROWTH = 16.0
# The message with which torch.distributions rejects points outside the support.
OUTSIDE = "ValueError: Expected value argument"
LOW_DIMENSIONAL = "quadrature is done in one and two dimensions"


def change(
    flow: BasedDensity, x: Array, context: Array | None, call: Call[Mapped]
) -> tuple[Array, Array, Array]:
    """The reported log p(x), the base log-density at the latent, and the log-det of the map to it,
    ``(n,)`` each.
    """
    out = call(x, context)
    base = np.asarray(flow.base_log_prob(out.value, context), dtype=np.float64).reshape(len(x))
    return (
        np.asarray(flow.log_prob(x, context), dtype=np.float64).reshape(len(x)),
        base,
        reported(flow, out, len(x)),
    )


@law(
    "density/change-of-variables",
    nats=True,
    about=VOLUME,
    points="data",
    applies=exact_log_det & exact_density,
    source=CHANGE,
    cases=(TRAIN, CONTEXT),
)
def change_of_variables(flow: MappedDensity, batch: Batch) -> Residual:
    r"""The log-density is that of the base at the latent plus the log-det:
    $\log p(x) = \log p_Z(f(x)) + \mathrm{ladj}(x)$.
    """
    density, base, ladj = change(flow, batch.x, batch.context, normalizing_call(flow))
    gap = density - base - ladj
    if open_direction(flow) and "inverse" in flow.calls:  # the identity may hold with either call
        _, other, back = change(flow, batch.x, batch.context, flow.calls["inverse"])
        opposite = density - other - back
        if np.nanmax(np.abs(opposite), initial=0.0) < 1e-6 * (
            1 + np.nanmax(np.abs(density), initial=0.0)
        ):
            gap = opposite
    size = np.where(np.isfinite(base), np.abs(base), 0.0) + np.where(
        np.isfinite(ladj), np.abs(ladj), 0.0
    )
    return Residual(
        gap,
        scale=4 + size,
        decidable=finite_rows(base, ladj),
        observed={"log p(x)": density, "base + log-det": base + ladj},
    )


@law(
    "density/change-of-variables[parts]",
    key="density/log-prob-by-parts",
    nats=True,
    about=VOLUME,
    points="data",
    applies=has_parts & exact_log_det & exact_density,
    effort=4,
    scales=NEARBY,
    source=f"{CHANGE}, and the chain rule for its layers",
)
def log_prob_by_parts(flow: ComposedDensity, batch: Batch) -> Residual:
    r"""The log-density is that of the base at the output of the last part plus the log-dets of all
    parts, each at its own input: $\log p(x) = \log p_Z(z_n) + \sum_i \mathrm{ladj}_i(z_{i-1})$.
    """
    rows = len(batch.x)
    z, total, size = _latents_through_parts(flow, batch)
    density = np.asarray(flow.log_prob(batch.x, batch.context), dtype=np.float64).reshape(rows)
    base = np.asarray(flow.base_log_prob(z, batch.context), dtype=np.float64).reshape(rows)
    finite = finite_rows(base, total)
    # The rounding of the base is that of the sum of squares in its log-density.
    reach = np.where(finite, np.abs(base), 0.0) + rows_max(z)
    return Residual(
        density - base - total,
        scale=4 + reach + np.where(np.isfinite(size), size, 0.0),
        decidable=finite,
        observed={"log p(x)": density, "base + log-dets of the parts": base + total},
    )


def _latents_through_parts(flow: ComposedDensity, batch: Batch) -> tuple[Array, Array, Array]:
    """The latents after all parts, the sum of their log-dets, and the sum of magnitudes of these.
    Raises `Unsupported` if the parts do not compose.
    """
    rows = len(batch.x)
    z, total, size = batch.x, np.zeros(rows), np.zeros(rows)
    if open_direction(flow):
        raise Unsupported("it is not known which call maps data to latents")
    forwards = flow.normalizing == "forward"
    for part in flow.part_maps if forwards else reversed(flow.part_maps):
        out = part(z, batch.context, flow.normalizing)
        ladj = reported(flow, out, rows)
        z, total, size = np.asarray(out.value), total + ladj, size + np.abs(ladj)
    whole = flow.calls.get(flow.normalizing)
    if whole is not None and np.shape(whole(batch.x, batch.context).value) != np.shape(z):
        raise Unsupported("its parts do not act one after the other on the whole event")
    return z, total, size


# Samples per context that show their order.
SEVERAL = 2


@law(
    "density/change-of-variables[samples]",
    key="density/beside-samples",
    nats=True,
    about=VOLUME,
    points="data",
    local=False,
    size=16,
    effort=4,
    version=2,
    applies=exact_log_det & exact_density,
    source="a sampler that returns log-densities saves a second pass: log q(x) = log p_Z(z) - log|det dx/dz|",
)
def beside_samples(flow: LabelledDensity, batch: Batch) -> Residual:
    """The log-densities returned with samples are those of these samples, each under its own
    context.
    """
    rows, each = len(batch.x), SEVERAL
    out = None if batch.context is None else _drawn_for_each(flow, batch, each)
    if out is None:
        each, out = 1, flow.sample_log_prob(rows, batch.seed, batch.context)
    x, beside = np.asarray(out[0], np.float64), np.asarray(out[1], np.float64)
    count = rows * each
    context = None if batch.context is None else np.repeat(batch.context, each, 0)
    if x.shape != (count, *flow.density_shape):
        raise Unsupported(f"{count} samples come in shape {x.shape}")
    if beside.size != count:
        note = f"{beside.size} log-densities come with {count} samples"
        return Residual(np.full(rows, np.inf), note=note)
    density = np.asarray(flow.log_prob(x, context), np.float64).reshape(rows, each)
    allowed = left_open(flow, x, context, density.reshape(count), batch.seed)
    beside = beside.reshape(rows, each)
    worst = np.arange(rows), np.abs(beside - density).argmax(1)
    return Residual(
        beside - density,
        scale=4 + math.prod(flow.density_shape) + np.nan_to_num(np.abs(density)).max(1),
        allowed=np.broadcast_to(allowed, count).reshape(rows, each).max(1),
        decidable=finite_rows(x.reshape(rows, -1), density),
        observed={
            "log-density beside the sample": beside[worst],
            "log p(x)": density[worst],
        },
    )


def _drawn_for_each(flow: LabelledDensity, batch: Batch, each: int) -> Mapped | None:
    """``each`` samples per context, those of the first one first; None if only one is drawn."""
    count = len(batch.x) * each
    out, _ = attempt(flow.sample_log_prob, count, batch.seed, batch.context)
    fits = out is not None and np.shape(out[0]) == (count, *flow.density_shape)
    return out if fits else None


def left_open(
    flow: Density, x: Array, context: Array | None, density: Array, seed: int
) -> Array | float:
    """The possible change within the tolerance of an iterative inverse, ``(n,)``, or 0."""
    tolerance = flow.certainty.inverse
    if not tolerance:
        return 0.0
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), x.shape)
    beside = np.asarray(flow.log_prob(x + tolerance * signs, context), np.float64)
    moved = np.nan_to_num(np.abs(beside.reshape(len(x)) - density), nan=np.inf)
    return np.asarray(GROWTH * (moved + tolerance * math.prod(flow.density_shape)))


@law(
    "same/manner[expanded]",
    key="density/expanded",
    nats=True,
    about=VOLUME,
    points="data",
    local=False,
    effort=2,
    size=7,
    scales=NEARBY,
    applies=exact_density,
    source="torch.distributions: expand returns the same distribution with its batch dimensions expanded",
)
def expanded(flow: ExpandingDensity, batch: Batch) -> Residual:
    """Each copy of an expanded distribution has the log-density of the distribution, and accepts
    the same points.
    """
    several, error = attempt(flow.expanded, batch.x, batch.context)
    rows = len(batch.x)
    plain, refused = attempt(flow.log_prob, batch.x, batch.context)
    if refused:
        raise Undecidable(f"it refuses these points ({refused})")
    density = np.asarray(plain, np.float64).reshape(rows)
    if error.startswith(OUTSIDE) and finite_rows(density).all():
        note = f"two copies refuse what the distribution takes: {error}"
        return Residual(np.full(rows, np.inf), note=note)
    if error:
        raise Unsupported(f"it refuses to be expanded ({error})", blocked=False)
    several = np.asarray(several, np.float64)
    if several.shape != (rows, 2):
        note = f"two copies give {several.shape} log-densities for {rows} points"
        return Residual(np.full(rows, np.inf), note=note)
    return Residual(
        several - density[:, None],
        scale=4 + np.nan_to_num(np.abs(density), posinf=0.0),
        decidable=finite_rows(density),
        observed={"log p(x)": density, "of the first copy": several[:, 0]},
    )


@requires(
    "quadrature is done in few dimensions; sampling/follows-density judges the mass of what is sampled"
)
def unsampled(flow: Flow) -> bool:
    """In many dimensions sampling laws judge the mass."""
    return math.prod(flow.density_shape) <= 2 or "sample" not in flow.calls


@requires(LOW_DIMENSIONAL, blocked=True)
def low_dimensional(flow: Flow) -> bool:
    """A product grid needs few dimensions; the reason names their number."""
    size = math.prod(flow.density_shape)
    if size > 2:
        raise Unsupported(f"{LOW_DIMENSIONAL}; it has {size}")
    return True


@requires("its support is no box", blocked=True)
def on_a_box(flow: Flow) -> bool:
    """A product grid covers the support."""
    kind = flow.density_support.kind
    return kind not in ("simplex", "ordered") or math.prod(flow.density_shape) <= 1


@requires("its formulas are promised on a part of the support only")
def promised_everywhere(flow: Flow) -> bool:
    """The mass is that of the whole support."""
    return not flow.promises.get("truncated-domain")


@law(
    "density/mass",
    key="density/normalises",
    about=VOLUME,
    points="data",
    tolerance=BOUND,
    scales=NEARBY,
    size=1,
    effort=2,
    picture=density_map,
    applies=unsampled
    & low_dimensional
    & on_a_box
    & promised_everywhere
    & exact_log_det
    & exact_density,
    version=3,
    source="a density integrates to one",
    cases=(CONTEXT,),
)
def normalizes(flow: Density, batch: Batch) -> Residual:
    r"""The density integrates to one: $\int e^{\log p(x)}\,dx = 1$ (quadrature, one and two
    dimensions), including the masses of atoms.
    """
    mass, error = total_mass(flow, batch)
    if len(points := atoms(flow, batch.seed)):  # a mass, not a density
        more = np.exp(np.asarray(flow.log_prob(points.reshape(-1, *flow.density_shape), None)))
        mass = min(mass, mass + float(more.sum()), key=lambda one: abs(one - 1))
    allowed = (
        QUADRATURE_FACTOR * error
        + MASS_FLOOR
        + float(flow.promises.get("normalization-tolerance", 0.0))
        + flow.certainty.log_det
    )
    if not np.isfinite(mass) or allowed > 0.05:
        raise Undecidable(
            f"the quadrature does not converge (estimate {mass:.4g}, error {error:.1g})"
        )
    if allowed < abs(mass - 1) < GROSS and mass_of_steps(flow, batch, mass - 1):
        raise Undecidable(
            f"the mass is {mass:.4g}, and comes nearer to one with the steps of its solver: it is the error "
            "of these"
        )
    return Residual(
        np.array([mass - 1.0]),
        allowed=allowed,
        nats=np.log(np.array([max(mass, 0.0)])),
        observed={"integral": np.array([mass])},
    )
