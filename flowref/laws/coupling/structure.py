"""Couplings: one part of an event is kept, the other is transformed by functions of the kept part."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, reported
from flowref.laws.common.structure import LARGE
from flowref.laws.coupling.parts import (
    DINH,
    NICE,
    flat_entries,
    in_two_parts,
    kept_and_transformed,
    level_and_slope,
)
from flowref.model import EXACT, REAL, Array, Batch, Residual, law, requires
from flowref.model.abilities import Coupled, Differentiable, Pulling, offers


class DifferentiableCoupling(Coupled, Differentiable, Protocol):
    """A coupling with Jacobians by autograd."""


class PulledCoupling(DifferentiableCoupling, Pulling, Protocol):
    """A coupling with vector-Jacobian products."""


@requires("its kept entries pass a map of their own")
def copies_kept(flow: Coupled) -> bool:
    """It is declared to copy one part."""
    return flow.coupling.copied


@requires("it is no affine or additive coupling")
def linear_kind(flow: Coupled) -> bool:
    """Each transformed entry is an affine function, given the kept part."""
    return flow.coupling.kind in ("affine", "additive")


@requires("it does not take all reals")
def takes_reals(flow: Coupled) -> bool:
    """Points on a line through two others are in its domain."""
    return flow.domain == REAL


copying = copies_kept & in_two_parts
straight = linear_kind & takes_reals & in_two_parts


@law(
    "coupling/pattern[kept-part]",
    key="coupling/identity-part",
    tolerance=EXACT,
    effort=4,
    local=False,
    applies=copying,
    source=f"{DINH}, equation 4 and section 3.3; {NICE}",
)
def identity_part(flow: Coupled, batch: Batch) -> Residual:
    """The kept part is copied bitwise in both directions: $y_a = x_a$."""
    y = np.asarray(flow.forward(batch.x, batch.context).value)
    rows, seen = altered(flow, batch.x, y), finite_rows(y)
    inverse = flow.calls.get("inverse")
    if inverse is not None and seen.any():
        image = np.where(seen.reshape(-1, *[1] * (y.ndim - 1)), y, y[seen][0]) + 0.0
        x = np.asarray(inverse(image, batch.context).value)
        back = finite_rows(x) & seen
        rows |= altered(flow, image, x) & back[:, None]
    note = "an entry that is kept comes out changed" if (rows.any(1) & seen).any() else ""
    return Residual(rows.astype(float), decidable=seen, note=note)


def altered(flow: Coupled, x: Array, out: Array) -> Array:
    """The kept entries that change, ``(n, kept)``."""
    kept = kept_and_transformed(flow)[0]
    before = x.astype(out.dtype) if out.dtype == np.float32 else x
    return np.asarray(flat_entries(before)[:, kept] != flat_entries(out)[:, kept])


@law(
    "coupling/pattern[conditioner]",
    key="coupling/conditioner-blind",
    tolerance=EXACT,
    effort=4,
    applies=in_two_parts,
    source=f"{DINH}, section 3.2: the Jacobian is triangular, with a diagonal block",
)
def conditioner_blind(flow: DifferentiableCoupling, batch: Batch) -> Residual:
    r"""The conditioner does not depend on the transformed part: $\partial y_b / \partial x_b$ is
    diagonal, and $\partial y_a / \partial x_b = 0$.
    """
    if len(flow.coupling.kept) > LARGE and offers(flow, PulledCoupling):
        return leaks_at_size(flow, batch)
    jacobian = np.asarray(flow.jacobian("forward", batch.x, batch.context))
    leaks = np.where(flow.coupling.zeros[None], jacobian, 0.0)
    rows = np.abs(leaks).reshape(len(batch.x), -1)
    note = (
        "a transformed entry enters the parameters, or an entry that is kept"
        if np.nan_to_num(rows).any()
        else ""
    )
    return Residual(
        rows,
        decidable=finite_rows(jacobian),
        note=note,
        observed={"largest entry off": rows.max(1)},
    )


def leaks_at_size(flow: PulledCoupling, batch: Batch) -> Residual:
    """The same zeros for events too large for a Jacobian: the entries of a part are divided in two
    by each binary digit of their index, so that any two are separated by one. A random cotangent
    of one half must not pull back to the other.
    """
    kept, moved = kept_and_transformed(flow)
    tests = [(kept, moved)]
    for part, joint in ((kept, flow.coupling.copied), (moved, flow.coupling.kind == "joint")):
        if joint:
            continue
        rank = np.cumsum(part) - 1
        for digit in range(int(part.sum() - 1).bit_length()):
            one = (rank >> digit) % 2 == 1
            for half in (one, ~one):
                tests.append((part & half, part & ~half))
    rng = np.random.default_rng(batch.seed)
    rows = np.zeros((len(batch.x), len(tests)))
    for index, (pulled, silent) in enumerate(tests):
        weights = rng.standard_normal((len(batch.x), len(kept))) * pulled
        back = flat_entries(
            flow.vjp("forward", batch.x, batch.context, weights.reshape(batch.x.shape), None)
        )
        rows[:, index] = np.abs(np.where(silent, back, 0.0)).max(1)
    note = "a transformed entry enters the parameters, or an entry that is kept"
    return Residual(
        rows,
        decidable=finite_rows(rows),
        note=note if np.nan_to_num(rows).any() else "",
        observed={"largest entry off": rows.max(1)},
        method=f"on {len(tests)} random cotangents, by binary digits",
    )


def off_the_line(flow: Coupled, batch: Batch) -> Residual:
    """The deviation of transformed entries from a line through two others, and of the log-det from
    that of its slope.
    """
    moved = kept_and_transformed(flow)[1]
    out = flow.forward(batch.x, batch.context)
    x, y = flat_entries(batch.x)[:, moved], flat_entries(out.value)[:, moved]
    level, slope, lost = level_and_slope(flow, batch.x, batch.context)
    additive = flow.coupling.kind == "additive"
    # An additive coupling need not return a log-det.
    claimed = (
        np.zeros(len(x)) if additive and out.ladj is None else reported(flow, out, len(batch.x))
    )
    with np.errstate(all="ignore"):
        logs = np.log(np.abs(slope))
        expected = level + (x if additive else slope * x)
        terms = np.abs(y) + np.abs(level) + np.abs(slope * x) + lost * (1 + np.abs(x))
        straightness = (y - expected) / terms
        size = 4 + np.abs(logs).sum(1) + (lost / np.abs(slope)).sum(1)
        ladj = (claimed - (0.0 if additive else logs.sum(1))) / (1.0 if additive else size)
    gap = np.concatenate([straightness, ladj[:, None]], axis=1)
    # Where the line is finite, the output must be.
    decidable = finite_rows(expected, logs, lost)
    return Residual(
        np.where(decidable[:, None], gap, 0.0),
        decidable=decidable,
        observed={
            "y_b": y,
            "s x_b + t": expected,
            "log-det": claimed,
            "sum of log|s|": logs.sum(1),
        },
    )


@law(
    "coupling/closed-form",
    effort=4,
    local=False,
    applies=straight,
    source=f"{DINH}, equations 4 to 6; {NICE}",
)
def closed_form(flow: Coupled, batch: Batch) -> Residual:
    r"""Given the kept part, an affine coupling is $y_b = s\,x_b + t$ with log-det $\sum \log|s|$;
    an additive one has $s = 1$.
    """
    return off_the_line(flow, batch)
