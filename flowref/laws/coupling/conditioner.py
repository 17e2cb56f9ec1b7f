"""Conditioners: any function of each single sample is valid; its outputs for kept entries are
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from flowref.laws.bijection.round_trip_exemptions import Trip, flattened
from flowref.laws.bijection.roundtrip import inverse_tolerance
from flowref.laws.common.arithmetic import finite_rows, invertible_images, reported, rows_max
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import has_modules
from flowref.laws.coupling.parts import (
    DINH,
    LivingCoupling,
    conditioned,
    flat_entries,
    kept_and_transformed,
    level_and_slope,
)
from flowref.laws.coupling.structure import copying, straight
from flowref.model import (
    ADVICE,
    EXACT,
    NEARBY,
    Array,
    Batch,
    Mapped,
    Residual,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Coupled, Invertible, Living
from flowref.model.steps import Bend, Eval, Learn, Parameters, Run, State, Step, Train, Trained


class InvertibleCoupling(LivingCoupling, Invertible, Protocol):
    """An invertible coupling whose conditioner can be replaced."""


# Added to the parameters of kept entries: its exponential overflows float64.
HUGE = 1e3
# Rows that are also evaluated on their own.
ALONE = 3
# The factor by which the error of a round trip may grow with another conditioner.
ANYWAY = 1e3
# A larger difference of two equal calls means random numbers.
RANDOM = 1e-6
UNBOUNDED = "no bound of its scales is documented"


def call_with_altered_conditioner(
    flow: Living, which: str, how: str, size: float = 0.0
) -> Callable[..., Mapped]:
    """A call of the coupling with its conditioner altered."""

    def call(x: Array, context: Array | None = None) -> Mapped:
        run = Run(which, x, context)
        return flow.play([Bend(how, size), run]).of(run)

    return call


@law(
    "map/inverse[conditioner]",
    key="coupling/any-conditioner",
    effort=4,
    local=False,
    applies=conditioned & copying,
    source=f"{DINH}, section 3.3: neither direction inverts or differentiates the conditioner",
)
def any_conditioner(flow: InvertibleCoupling, batch: Batch) -> Residual:
    r"""$f^{-1}(f(x)) = x$ also with a conditioner that is neither injective nor differentiable:
    $|\theta|$ in place of $\theta$.
    """
    forward, inverse = (
        call_with_altered_conditioner(flow, "forward", "folded"),
        call_with_altered_conditioner(flow, "inverse", "folded"),
    )
    y = np.asarray(forward(batch.x, batch.context).value)
    image, usable = invertible_images(flow, y)
    x = np.asarray(inverse(image, batch.context).value)
    # An error of the round trip with its own conditioner is reported by map/inverse.
    own, _ = invertible_images(flow, flow.forward(batch.x, batch.context).value)
    gap = rows_max(flow.inverse(own, batch.context).value - batch.x) / (1 + rows_max(batch.x))
    lost = gap[np.isfinite(gap)].max(initial=0.0)
    return Residual(
        x - batch.x,
        scale=rows_max(batch.x),
        allowed=inverse_tolerance(flow, batch.x) + ANYWAY * lost * (1 + rows_max(batch.x)),
        decidable=usable & finite_rows(x),
        exempt=flattened(Trip(forward, batch.x, x, y, batch.context)),
        observed={"x": batch.x, "f(x)": y, "inverse(f(x))": x},
    )


def conditioner_rows_residual(flow: Living, batch: Batch, before: Sequence[Step[Any]]) -> Residual:
    """The difference of the conditioner's outputs for some rows in their batch, and alone."""
    asked = Parameters("forward", batch.x, batch.context)
    together = np.asarray(flow.play([*before, asked]).of(asked), dtype=np.float64)
    if len(together) != len(batch.x):
        raise Unsupported("its conditioner does not return one row per sample")
    gaps, chosen = np.zeros(len(batch.x)), np.zeros(len(batch.x), dtype=bool)
    for row in range(min(ALONE, len(batch.x))):
        for count in (1, 2):  # a batch of one sample may be rejected
            start = min(row, len(batch.x) - count)
            few = slice(start, start + count)
            context = None if batch.context is None else batch.context[few]
            asked = Parameters("forward", batch.x[few], context)
            life, error = attempt(flow.play, [*before, asked])
            if not error:
                break
        if error or count == len(batch.x):
            raise Undecidable(f"it refuses a smaller batch: {error}")
        alone = np.asarray(life.of(asked), dtype=np.float64)[row - start]
        gaps[row] = np.abs(alone - together[row]).max(initial=0.0)
        chosen[row] = True
    note = (
        "the conditioner returns different parameters for a sample alone and in its batch"
        if gaps.any()
        else ""
    )
    return Residual(
        gaps, scale=rows_max(together), decidable=chosen & finite_rows(together), note=note
    )


@law(
    "same/rows[conditioner]",
    key="coupling/conditioner-batch-free",
    effort=4,
    local=False,
    applies=conditioned,
    source="a log-likelihood is that of one sample; statistics of a batch in the conditioner make it that of a batch",
)
def conditioner_batch_free(flow: LivingCoupling, batch: Batch) -> Residual:
    """In eval mode the parameters that the conditioner returns for a sample do not depend on the
    rest of its batch.
    """
    if len(batch.x) < 2:
        raise Undecidable("there is only one point")
    return conditioner_rows_residual(flow, batch, [Eval()] if flow.stateful else [])


@law(
    "same/rows-in-train[conditioner]",
    key="coupling/conditioner-batch-free-in-train",
    force=ADVICE,
    effort=2,
    scales=NEARBY,
    local=False,
    applies=has_modules & conditioned,
    source="batch normalization inside the conditioner couples the samples of a batch in train mode",
)
def conditioner_batch_free_in_train(flow: LivingCoupling, batch: Batch) -> Residual:
    """In train mode the parameters that the conditioner returns for a sample do not depend on the
    rest of its batch either.
    """
    if len(batch.x) < 2:
        raise Undecidable("there is only one point")
    asked = Parameters("forward", batch.x, batch.context)
    life, error = attempt(flow.play, [Train(), asked, asked])
    if error:
        raise Unsupported(f"it refuses to run in train mode ({error})")
    first, second = (np.asarray(out, dtype=np.float64) for out in life[1:])
    if first.shape != second.shape or not np.allclose(
        first, second, rtol=RANDOM, atol=RANDOM, equal_nan=True
    ):
        raise Undecidable("its conditioner is random in train mode")
    return conditioner_rows_residual(flow, batch, [Train()])


@requires("its conditioner gives parameters for transformed entries only")
def gives_kept_parameters(flow: Coupled) -> bool:
    """The conditioner has outputs for kept entries as well."""
    return flow.coupling.masked


@law(
    "coupling/pattern[kept-parameters]",
    key="coupling/kept-parameters-inert",
    force=ADVICE,
    tolerance=EXACT,
    effort=4,
    local=False,
    applies=gives_kept_parameters & conditioned,
    source=f"{DINH}, equation 9; what is masked after the exponential is 0 times inf, and a gradient of nan",
)
def kept_parameters_inert(flow: LivingCoupling, batch: Batch) -> Residual:
    """The conditioner's outputs for kept entries affect neither values nor log-dets, and make no
    gradient nan, however large.
    """
    plain = flow.forward(batch.x, batch.context)
    other = call_with_altered_conditioner(flow, "forward", "kept", HUGE)(batch.x, batch.context)
    rows = len(batch.x)
    seen = [
        np.concatenate([flat_entries(out.value), reported(flow, out, rows)[:, None]], 1)
        for out in (plain, other)
    ]
    good = finite_rows(seen[0])
    wrong = (seen[0] != seen[1]).any(1)
    note = "parameters of kept entries change the output" if (wrong & good).any() else ""
    if not note and flow.trainable:
        learn = Learn(batch.x, batch.context)
        life, error = attempt(flow.play, [learn])
        bad = [] if error else unsound(life.of(learn))
        if not error and not bad:
            bad = unsound(flow.play([Bend("kept", HUGE), learn]).of(learn))
            if bad:
                wrong, note = np.ones(rows, dtype=bool), f"the gradient of {bad[0]} is not finite"
    return Residual(wrong.astype(float), decidable=good, note=note)


def unsound(trained: Trained) -> list[str]:
    """The parameters whose gradient is not finite."""
    return [
        name
        for name, gradient in trained.gradients.items()
        if gradient is not None and not np.isfinite(gradient).all()
    ]


@requires(UNBOUNDED)
def bounds_scales(flow: Coupled) -> bool:
    """The scales are documented to be bounded."""
    return flow.coupling.log_scale is not None


@requires("it is no affine coupling")
def affine(flow: Coupled) -> bool:
    """The coupling has scales."""
    return flow.coupling.kind == "affine"


def log_scale_bounds(flow: LivingCoupling) -> tuple[float, float]:
    """The documented bounds of the log-scales; if a parameter bounds them, its largest entry."""
    bounds = flow.coupling.log_scale
    if bounds is None:
        raise Unsupported(UNBOUNDED)
    if isinstance(bounds, str):
        state = State()
        end = float(np.abs(flow.play([state]).of(state)[bounds]).max())
        return -end, end
    return bounds


@law(
    "coupling/scale-bounded",
    effort=4,
    local=False,
    applies=bounds_scales & affine & straight,
    source=f"{DINH}, section 4.1: the log-scale is a learned scale times a hyperbolic tangent",
)
def scale_bounded(flow: LivingCoupling, batch: Batch) -> Residual:
    r"""The log-scales of an affine coupling keep the documented bounds, $|s| \le |c|$ for $s = c
    \tanh r$.
    """
    low, high = log_scale_bounds(flow)
    _, slope, lost = level_and_slope(flow, batch.x, batch.context)
    with np.errstate(all="ignore"):
        logs = np.log(np.abs(slope))
        beyond = np.maximum(np.maximum(logs - high, low - logs), 0.0)
        scale = (1 + np.abs(logs) + lost / np.abs(slope)).max(1)
    decidable = finite_rows(logs, scale)
    return Residual(
        np.where(decidable[:, None], beyond, 0.0),
        scale=np.where(decidable, scale, 1.0),
        decidable=decidable,
        observed={
            "log-scales": logs,
            "log-det bound": np.full(len(logs), kept_and_transformed(flow)[1].sum() * high),
        },
    )
