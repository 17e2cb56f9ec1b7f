"""The images of a map and its declared codomain."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.arithmetic import finite_rows
from flowref.model import EXACT, NEARBY, Batch, Residual, law, requires
from flowref.model.abilities import Bijection, Flow

# How far rounding may move an image past an end, relative to 1 + |end|, or the sum of a simplex.
EDGE = {"float64": 1e-6, "float32": 1e-3}


@requires("its codomain is not declared, or is the whole space")
def has_codomain(flow: Flow) -> bool:
    """The codomain is declared, and not the whole space."""
    return flow.codomain is not None and (
        flow.codomain.has_end or flow.codomain.kind in ("ordered", "simplex")
    )


@law(
    "map/domain[image]",
    key="bijection/image-in-codomain",
    tolerance=EXACT,
    local=False,
    effort=4,
    size=48,
    scales=NEARBY,
    applies=has_codomain,
    source="torch.distributions: Transform.codomain, by which supports of densities are known",
)
def image_in_codomain(flow: Bijection, batch: Batch) -> Residual:
    """$f(x)$ lies in the declared codomain, or on its edge, for every $x$ in the domain."""
    codomain = flow.codomain
    assert codomain is not None
    rows = len(batch.x)
    out = np.asarray(flow.forward(batch.x, batch.context).value, dtype=np.float64)
    known = finite_rows(out) & flow.domain.holds(batch.x)
    flat, (low, high) = out.reshape(rows, -1), codomain.ends
    with np.errstate(invalid="ignore"):
        margins = [EDGE[flow.dtype] * (1 + np.abs(np.nan_to_num(end))) for end in (low, high)]
        wrong = ((flat < low - margins[0]) | (flat > high + margins[1])).any(1)
        if codomain.kind == "ordered":
            steps = np.diff(out, axis=-1).reshape(rows, -1)
            wrong |= (steps < -EDGE[flow.dtype] * (1 + np.abs(flat).max(1, keepdims=True))).any(1)
    note = ""
    if (known & wrong).any():
        row = int(np.flatnonzero(known & wrong)[0])
        values = ", ".join(f"{value:.4g}" for value in flat[row][:4])
        note = f"an image is ({values}), outside of the declared codomain {codomain}"
    return Residual((known & wrong).astype(float), decidable=known, note=note)
