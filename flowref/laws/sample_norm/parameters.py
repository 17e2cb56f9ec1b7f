"""Weight and bias of sample norms: the entries they act on, and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from flowref.laws.batch_norm.normalizer import normal_batch
from flowref.laws.common.outcomes import attempt
from flowref.laws.sample_norm.formula import BA, ROWS, WU
from flowref.laws.sample_norm.groups import (
    at_no_threshold,
    normalizes_samples,
    spread_over,
    values_together,
)
from flowref.model import Array, Batch, Residual, Unsupported, law, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Eval, Normalize, Roles, Step, Train
from flowref.model.structure.forms import FORMS

# The two steps of a parameter, and the relative change of an output that counts as none.
STEPS, STAYS = (0.5, 1.1), 1e-6
# Relative distance up to which a factor is the root of the number of values.
SUMS = 1e-2
# A weight that is applied twice acts as a square; other forms keep a weight positive, or at one.
TWICE = "square"


@requires("it names neither weight nor bias", blocked=True)
def names_parameters(flow: BatchNormal) -> bool:
    """A weight or a bias is known by its name."""
    return bool({"weight", "bias"} & set(flow.normalizer.roles))


@law(
    "sample-norm/formula[parameters]",
    key="sample-norm/parameters",
    version=2,
    applies=normalizes_samples & names_parameters,
    size=1,
    local=False,
    effort=2,
    source=f"{BA}, section 3; {WU}, section 3: a weight and a bias for each channel, or each entry",
)
def parameters(flow: BatchNormal, batch: Batch) -> Residual:
    """In both modes each number of the weight multiplies the standardized entries of its own
    channel, once, and each number of the bias is added to them; it affects no others.
    """
    rng = np.random.default_rng(batch.seed)
    x = normal_batch(flow, rng, ROWS)
    found = [
        fault
        for mode, name in ((Train(), "train"), (Eval(), "eval"))
        for role in ("weight", "bias")
        if role in flow.normalizer.roles
        for fault in wrong(flow, x, mode, role, rng)
        for fault in [f"in {name} mode {fault}"]
    ]
    return Residual(np.array([[float(bool(found))]]), allowed=0.0, note=found[0] if found else "")


def wrong(
    flow: BatchNormal, x: Array, mode: Step[Any], role: str, rng: np.random.Generator
) -> Iterator[str]:
    """Error messages for a parameter; empty if it cannot be set."""
    step = Roles()
    held = np.asarray(flow.play([step]).of(step)[role], dtype=np.float64)
    axes = [axis for axis, size in enumerate(flow.event_shape) if size == held.size]
    whole = held.size == int(np.prod(flow.event_shape))
    if held.size < 2 or not (axes or whole):
        raise Unsupported(f"its {role} is no number for each channel")
    start = held.reshape(-1) + rng.uniform(0.2, 0.4, held.size)

    def y_at(values: Array) -> Array:
        assign = Assign(role, values.reshape(held.shape))
        played, error = attempt(flow.play, [mode, assign, Normalize(x)])
        if error:
            raise Unsupported(f"its {role} cannot be set", blocked=False)
        return np.asarray(played[-1], dtype=np.float64)

    before = y_at(start)
    moved = [y_at(start + step) for step in STEPS]
    free = np.all([at_no_threshold(flow, y) for y in (before, *moved)], axis=0)
    seen = free.any(0)
    size = max(float(np.abs(y).max()) for y in (before, *moved))
    if np.abs(moved[0] - before).max() <= STAYS * size:
        yield f"its {role} moves nothing"
        return
    for index in (0, held.size - 1):
        one = start.copy()
        one[index] += STEPS[1]
        acts = (np.abs(y_at(one) - before) > STAYS * size).any(0)
        if not any((acts == own)[seen].all() for own in places(flow, held.size, index)):
            yield f"number {index} of its {role} does not act on the entries of channel {index} alone"
            return
    one, two = (np.where(free, y - before, 0.0) for y in moved)
    if role == "bias":
        off = [
            np.abs(y - step)[free].max(initial=0.0)
            for y, step in zip((one, two), STEPS, strict=True)
        ]
        if max(off) > STAYS * size:
            yield "its bias is not added unchanged"
        return
    forms = [
        kind
        for kind, form in FORMS.items()
        if grows(form.number, start, one, two, list(channel_numbers(flow, held.size)), STAYS * size)
    ]
    if not forms or forms == [TWICE]:
        yield "its weight does not multiply the standardized entries once"
    elif flow.normalizer.declared.get("mean") and by_sums(flow, x, start, one, forms):
        yield "its input is divided by a sum, where its name implies a mean"


def by_sums(flow: BatchNormal, x: Array, start: Array, moved: Array, forms: Sequence[str]) -> bool:
    """Whether the output is divided by the root of a sum of squares instead of a mean: off by the
    root of their number.
    """
    _, square = spread_over(flow, x)
    root, hat = np.sqrt(values_together(flow)), x / np.sqrt(square)
    factors = []
    for kind in forms:
        step = FORMS[kind].number(start + STEPS[0]) - FORMS[kind].number(start)
        for own in channel_numbers(flow, start.size):
            expected = step[own] * hat
            factors.append(
                float((moved * expected).sum() / (expected * expected * (moved != 0)).sum())
            )
    return not any(abs(one - 1) < 0.1 for one in factors) and any(
        abs(one * factor - 1) < SUMS for one in factors for factor in (root, 1 / root)
    )


def places(flow: BatchNormal, count: int, index: int) -> Iterator[Array]:
    """The entries of an event that number ``index`` of ``count`` may act on, for each way to
    assign them.
    """
    for numbers in channel_numbers(flow, count):
        yield numbers == index


def channel_numbers(flow: BatchNormal, count: int) -> Iterator[Array]:
    """The channel of each entry of an event, for each way to count channels."""
    shape = flow.event_shape
    if int(np.prod(shape)) == count:
        yield np.arange(count).reshape(shape)
        return
    for axis, size in enumerate(shape):
        if size == count:
            yield np.broadcast_to(
                np.arange(count).reshape([-1 if at == axis else 1 for at in range(len(shape))]),
                shape,
            )


def grows(
    function: Any, start: Array, one: Array, two: Array, counted: list[Array], allowed: float
) -> bool:
    """Whether an output changes in proportion to a function of the weight of its channel."""
    with np.errstate(all="ignore"):
        short, long = (function(start + step) - function(start) for step in STEPS)
    if not (np.isfinite(short).all() and np.isfinite(long).all()):
        return False
    return any(
        bool((np.abs(one * long[own] - two * short[own]) <= 4 * allowed).all()) for own in counted
    )
