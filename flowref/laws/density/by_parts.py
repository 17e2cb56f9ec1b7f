"""The log-density recomputed from the parts of a flow, each at the points that really reach it."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, reported, rows_max
from flowref.laws.common.requirements import exact_density, exact_log_det
from flowref.laws.composition.chain import has_parts
from flowref.laws.density.value import CHANGE, BasedDensity
from flowref.model import VOLUME, Array, Batch, Residual, Unsupported, law
from flowref.model.abilities import Composite


class ComposedDensity(BasedDensity, Composite, Protocol):
    """A density, that of its base, and the parts of the map between them."""


@law(
    "density/log-prob-by-parts",
    nats=True,
    about=VOLUME,
    points="data",
    applies=has_parts & exact_log_det & exact_density,
    effort=4,
    scales=(0.0, 0.3),
    source=f"{CHANGE}, and the chain rule for its layers",
)
def log_prob_by_parts(flow: ComposedDensity, batch: Batch) -> Residual:
    r"""The log-density is that of the base where the last part ends plus the log-dets of all parts,
    each at the point where it is reached: $\log p(x) = \log p_Z(z_n) + \sum_i \mathrm{ladj}_i(z_{i-1})$.
    """
    rows = len(batch.x)
    z, total, size = _through(flow, batch)
    density = np.asarray(flow.log_prob(batch.x, batch.context), dtype=np.float64).reshape(rows)
    base = np.asarray(flow.base_log_prob(z, batch.context), dtype=np.float64).reshape(rows)
    finite = finite_rows(base, total)
    # What reaches the base is as large as the sum of squares that its log-density takes.
    reach = np.where(finite, np.abs(base), 0.0) + rows_max(z)
    return Residual(
        density - base - total,
        scale=4 + reach + np.where(np.isfinite(size), size, 0.0),
        decidable=finite,
        observed={"log p(x)": density, "base + log-dets of the parts": base + total},
    )


def _through(flow: ComposedDensity, batch: Batch) -> tuple[Array, Array, Array]:
    """The latents to which the parts map the points one after the other, the sum of their log-dets,
    and that of their magnitudes.
    """
    rows = len(batch.x)
    z, total, size = batch.x, np.zeros(rows), np.zeros(rows)
    if flow.promises.get("direction") == "either":
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
