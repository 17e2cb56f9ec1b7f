"""The form of log-determinants: one finite number per point, and what a class of flows promises
about its value.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, inside, reported, rows_max
from flowref.laws.common.outcomes import attempt
from flowref.model import CONTRACT, EXACT, Batch, Residual, Unsupported, law
from flowref.model.abilities import Bijection


@law("bijection/log-det-shape", tolerance=EXACT, effort=10, size=7, scales=(0.0,))
def log_det_shape(flow: Bijection, batch: Batch) -> Residual:
    """A log-det comes back as one number per point, in the batch shape (plus the event axes of an
    elementwise transform).
    """
    wrong = []
    for which in ("forward", "inverse"):
        call = getattr(flow, which)
        if call is None:
            continue
        x = batch.x
        if which == "inverse":
            x, _ = inside(flow, flow.forward(batch.x, batch.context).value)
        ladj = call(x, batch.context).ladj
        if ladj is None:
            continue
        shape, expected = np.shape(ladj), (len(batch.x), *flow.facts.ladj_event)
        constant = np.size(ladj) == 1 and (flow.promises.get("scalar-ladj") or not np.any(ladj))
        if shape != expected and not (constant and len(shape) <= 1):
            wrong.append(
                f"{which} returned a log-det of shape {shape} for {len(batch.x)} points; expected "
                f"{expected}"
            )
    if not wrong and flow.forward is not None and flow.forward(batch.x, batch.context).ladj is None:
        raise Unsupported("it returns no log-det")
    return Residual(np.full(len(batch.x), float(bool(wrong))), note="; ".join(wrong))


@law(
    "bijection/volume-preserving",
    force=CONTRACT,
    promise="volume-preserving",
    effort=6,
)
def volume_preserving(flow: Bijection, batch: Batch) -> Residual:
    r"""A map that promises to preserve volume has log-det 0."""
    claimed = reported(flow, flow.forward(batch.x, batch.context), len(batch.x))
    return Residual(claimed, scale=1.0, observed={"reported": claimed})


@law(
    "bijection/constant-jacobian",
    force=CONTRACT,
    promise="constant-jacobian",
    effort=6,
)
def constant_jacobian(flow: Bijection, batch: Batch) -> Residual:
    r"""A linear map has the same log-det everywhere."""
    claimed = reported(flow, flow.forward(batch.x, batch.context), len(batch.x))
    if batch.context is not None:
        raise Unsupported("its Jacobian depends on the context")
    return Residual(
        claimed - claimed[:1], scale=4 + np.abs(claimed), observed={"reported": claimed}
    )


@law("bijection/log-det-additive", force=CONTRACT, promise="elementwise", effort=4)
def log_det_additive(flow: Bijection, batch: Batch) -> Residual:
    r"""The log-det of an elementwise map is a sum over coordinates: swapping coordinates between
    two points keeps the total.
    """
    other = np.roll(batch.x, 1, axis=0)
    swap = np.zeros(batch.x[0].size, dtype=bool)
    swap[: max(1, swap.size // 2)] = True
    swap = swap.reshape(batch.x.shape[1:])
    if batch.context is not None or batch.x[0].size < 2:
        raise Unsupported("it has a context or a single coordinate", waits=False)
    points = (batch.x, other, np.where(swap, batch.x, other), np.where(swap, other, batch.x))
    first, second, mixed, rest = (reported(flow, flow.forward(p, None), len(p)) for p in points)
    return Residual(
        first + second - mixed - rest,
        scale=4 + np.abs(first) + np.abs(second),
        decidable=finite_rows(first, second, mixed, rest),
    )


@law(
    "bijection/log-det-wide",
    tolerance=EXACT,
    effort=2,
    size=3,
    scales=(0.0, 0.1),
    rebuild="wide",
)
def log_det_wide(flow: Bijection, batch: Batch) -> Residual:
    """In several hundred dimensions the log-det is still finite wherever the value is: it is no
    logarithm of a product.

    Source: a determinant of 400 factors of 0.1 underflows, while its logarithm is -921.
    """
    # The graph of several hundred sequential steps takes gigabytes; solvers that differentiate
    # inside may need one.
    out, _ = attempt(flow.forward.under, batch.x, batch.context, how="no_grad")
    out = out or flow.forward.under(batch.x, batch.context)
    claimed = reported(flow, out, len(batch.x))
    ordinary = finite_rows(out.value) & (rows_max(batch.x) <= 16)
    return Residual(
        (~np.isfinite(claimed)).astype(float),
        decidable=ordinary,
        observed={"reported": claimed},
        note="the log-det is not finite in many dimensions",
    )
