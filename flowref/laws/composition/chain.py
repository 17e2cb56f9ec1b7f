"""Composition: a composite applies its parts one after the other."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, invertible_images, returned, rows_max
from flowref.model import GIVEN, NEARBY, Array, Batch, Mapped, Residual, Unsupported, law, requires
from flowref.model.abilities import Arranged, Bijection, Composite, Flow, Invertible


class ArrangedBijection(Arranged, Bijection, Protocol):
    """A map that its library can chain."""


class ArrangedComposite(Arranged, Composite, Protocol):
    """A composite whose parts its library can chain again."""


class CompositeInvertible(Composite, Invertible, Protocol):
    """An invertible composite."""


# Values are the same if they differ by less than this share of what their log-dets differ by.
NEGLIGIBLE = 1e-6
CHAIN_RULE = "chain rule: log|det J(g o f)(x)| = log|det J g(f(x))| + log|det J f(x)|"


@requires("it has no parts that can be called one by one")
def has_parts(flow: Composite) -> bool:
    """Only composites have parts."""
    return len(flow.parts) > 1


def differing(first: Mapped, second: Mapped, x: Array) -> Residual:
    """The residual of two calls that should be the same map, value and log-det together."""
    value = np.asarray(first.value) - np.asarray(second.value)
    gap = value.reshape(len(x), -1)
    decidable = finite_rows(first.value, second.value)
    if first.ladj is not None and second.ladj is not None:
        ladjs = [returned(out, len(x)) for out in (first, second)]
        gap = np.concatenate([gap, (ladjs[0] - ladjs[1])[:, None]], axis=1)
        decidable &= finite_rows(*ladjs)
    return Residual(gap, scale=4 + rows_max(first.value), decidable=decidable)


def composed_call(flow: Arranged, expression: Any, batch: Batch, which: str = "forward") -> Mapped:
    """The result of the library's own composition of the subject's parts."""
    return flow.arrange(expression, batch.x, batch.context, which)


@law(
    "composition/parts",
    key="composition/additive",
    applies=has_parts,
    effort=4,
    source=CHAIN_RULE,
    pointwise=True,
)
def additive(flow: Composite, batch: Batch) -> Residual:
    """A composite applies its parts in order, and its log-det is the sum of theirs, each at its
    own input.
    """
    whole = flow.forward(batch.x, batch.context)
    x, outs = batch.x, [whole]
    for part in flow.part_maps:
        outs.append(part(x, batch.context))
        x = outs[-1].value
    if x.shape != whole.value.shape:
        raise Unsupported("its parts do not act one after the other on the whole event")
    # Only values are compared if some part returns no log-det, or log-dets are estimates with other
    # random numbers than in the whole.
    silent = any(out.ladj is None for out in outs) or flow.certainty.estimate
    ladjs = [np.zeros(len(x)) if silent else returned(out, len(x)) for out in outs]
    claimed, total = ladjs[0], np.sum(ladjs[1:], axis=0)
    moved, missing = (whole.value - x).reshape(len(x), -1), claimed - total
    decidable = finite_rows(whole.value, x, total)
    # Log-dets of two different maps do not measure an error in nats.
    same = rows_max(moved)[decidable].max(initial=0.0) <= NEGLIGIBLE * np.abs(
        missing[decidable]
    ).max(initial=0.0)
    return Residual(
        np.concatenate([moved, missing[:, None]], axis=1),
        scale=4 + rows_max(x) + np.where(np.isfinite(total), np.abs(total), 0.0),
        decidable=decidable,
        nats=missing if same and not silent else None,
        observed={"composite": claimed, "sum over parts": total},
    )


@law(
    "composition/algebra[inverse]",
    key="composition/inverse-reverses",
    applies=has_parts,
    effort=4,
    source=CHAIN_RULE,
    pointwise=True,
)
def inverse_reverses(flow: CompositeInvertible, batch: Batch) -> Residual:
    """The inverse of a composite applies the inverses of its parts in reverse order."""
    z, usable = invertible_images(flow, flow.forward(batch.x, batch.context).value)
    whole = flow.inverse(z, batch.context).value
    x = z + 0.0
    for part in reversed(flow.part_maps):
        x = part(x, batch.context, "inverse").value
    if x.shape != whole.shape:
        raise Unsupported("its parts do not act one after the other on the whole event")
    return Residual(
        whole - x, scale=rows_max(z) + rows_max(x), decidable=usable & finite_rows(whole, x)
    )


@law(
    "composition/algebra[nesting]",
    key="composition/associative",
    applies=has_parts,
    effort=2,
    scales=NEARBY,
    source=CHAIN_RULE,
)
def associative(flow: ArrangedComposite, batch: Batch) -> Residual:
    """Nesting does not matter: chain(f, chain(g, h)) = chain(chain(f, g), h) = chain(f, g, h)."""
    count = len(flow.parts)
    flat = composed_call(flow, ("chain", *range(count)), batch)
    right = composed_call(flow, ("chain", 0, ("chain", *range(1, count))), batch)
    left = composed_call(flow, ("chain", ("chain", *range(count - 1)), count - 1), batch)
    first, second = differing(flat, right, batch.x), differing(flat, left, batch.x)
    return Residual(
        np.concatenate([first.value, second.value], axis=1),
        scale=first.scale,
        decidable=np.asarray(first.decidable) & np.asarray(second.decidable),
    )


@law(
    "composition/algebra[order]",
    key="composition/in-order",
    applies=has_parts,
    effort=2,
    scales=NEARBY,
    source=CHAIN_RULE,
)
def in_order(flow: ArrangedComposite, batch: Batch) -> Residual:
    """A chain applies its first element first: chain(f, g)(x) = g(f(x))."""
    first, second = flow.part_maps[0], flow.part_maps[1]
    nested = second(first(batch.x, batch.context).value, batch.context).value
    chained = composed_call(flow, ("chain", 0, 1), batch)
    return differing(Mapped(chained.value, None), Mapped(nested, None), batch.x)


@requires("it is a density, which its library does not compose")
def single_map(flow: Flow) -> bool:
    """Densities are no elements of a chain, even with a map inside."""
    return "log_prob" not in flow.calls


@law(
    "composition/algebra[empty]",
    key="composition/empty-is-identity",
    effort=2,
    scales=GIVEN,
    source="the identity is neutral",
)
def empty_is_identity(flow: Arranged, batch: Batch) -> Residual:
    """The empty chain is the identity, with log-det 0."""
    try:
        out = composed_call(flow, ("chain",), batch)
    except Unsupported:
        raise
    except Exception as error:  # rejecting an empty chain is permitted
        reason = f"its library refuses an empty chain: {type(error).__name__}"
        raise Unsupported(reason, blocked=False) from error
    return differing(out, Mapped(batch.x, np.zeros(len(batch.x))), batch.x)


@law(
    "composition/algebra[single]",
    key="composition/single-is-itself",
    applies=single_map,
    effort=2,
    scales=NEARBY,
    source="the identity is neutral",
)
def single_is_itself(flow: ArrangedBijection, batch: Batch) -> Residual:
    """A chain of one element is that element: chain(f)(x) = f(x), value and log-det."""
    return differing(
        composed_call(flow, ("chain", "self"), batch),
        flow.forward(batch.x, batch.context),
        batch.x,
    )
