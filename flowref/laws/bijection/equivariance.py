"""Maps and densities with a declared symmetry group: maps are equivariant, densities invariant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, reported, rows_max
from flowref.laws.common.requirements import exact_density, exact_log_det, not_estimator
from flowref.model import CONTRACT, VOLUME, Array, Batch, Residual, Unsupported, law
from flowref.model.abilities import Bijection, Density, Flow

SOURCE = (
    "an equivariant map of an invariant base has an invariant density: Kohler et al., Equivariant Flows "
    "(arXiv:2006.02425), theorem 1"
)


def element(flow: Flow, shape: tuple[int, ...], seed: int) -> Callable[[Array], Array]:
    """The action of a random element of the declared group on points ``(n, *event)``.

    Rotations act on the last axis of an event, permutations on its first, and the sign on all of
    it. Raises `Unsupported` if the group does not act on such events, or leaves the domain.
    """
    group, rng = flow.promises.get("equivariant"), np.random.default_rng(seed)
    if flow.domain.kind != "real":
        raise Unsupported(
            "its domain is not all of space, on which a group would act", blocked=False
        )
    if group == "sign":
        return lambda x: -x
    if not shape:
        raise Unsupported(f"no {group} acts on single numbers", blocked=False)
    if group == "permutation":
        cycle = rng.permutation(shape[0])
        order = np.empty_like(cycle)
        order[cycle] = np.roll(cycle, 1)  # a derangement: no entry stays in place
        return lambda x: x[:, order]
    matrix, upper = np.linalg.qr(rng.standard_normal((shape[-1], shape[-1])))
    matrix = matrix * np.sign(np.diagonal(upper))
    matrix[0] *= np.sign(np.linalg.det(matrix))
    return lambda x: x @ matrix


@law(
    "map/equivariant",
    force=CONTRACT,
    promise="equivariant",
    effort=2,
    size=16,
    applies=exact_log_det & not_estimator,
    source=SOURCE,
)
def equivariant(flow: Bijection, batch: Batch) -> Residual:
    r"""$f(gx) = g f(x)$ and $\log|\det J(gx)| = \log|\det J(x)|$ for the declared group:
    rotations, permutations or the sign.
    """
    if flow.latent_shape != flow.event_shape:
        raise Unsupported("its latents have another shape than its events")
    group, rows = element(flow, flow.event_shape, batch.seed), len(batch.x)
    out, moved = (flow.forward(x, batch.context) for x in (batch.x, group(batch.x)))
    expected = group(np.asarray(out.value))
    gap, scale = (np.asarray(moved.value) - expected).reshape(rows, -1), rows_max(expected)
    usable = finite_rows(expected, np.asarray(moved.value))
    if out.ladj is not None and moved.ladj is not None:
        here, there = reported(flow, out, rows), reported(flow, moved, rows)
        gap = np.concatenate([gap, (there - here)[:, None]], 1)
        scale = np.maximum(scale, 4 + np.nan_to_num(np.abs(here)))
        usable &= finite_rows(here, there)
    return Residual(
        gap,
        scale=scale,
        decidable=usable,
        observed={"f(gx)": moved.value, "g f(x)": expected},
    )


@law(
    "density/invariant",
    nats=True,
    about=VOLUME,
    force=CONTRACT,
    promise="equivariant",
    points="data",
    effort=2,
    size=16,
    applies=exact_log_det & exact_density,
    source=SOURCE,
)
def invariant(flow: Density, batch: Batch) -> Residual:
    r"""$\log p(gx) = \log p(x)$ for the declared group: rotations, permutations or the sign."""
    group, rows = element(flow, flow.density_shape, batch.seed), len(batch.x)
    here, there = (
        np.asarray(flow.log_prob(x, batch.context), dtype=np.float64).reshape(rows)
        for x in (batch.x, group(batch.x))
    )
    return Residual(
        there - here,
        scale=4 + np.nan_to_num(np.abs(here), posinf=0.0),
        decidable=finite_rows(here, there),
        observed={"log p(gx)": there, "log p(x)": here},
    )
