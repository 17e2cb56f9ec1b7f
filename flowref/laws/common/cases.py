"""Cases: circumstances (train mode, no_grad, other sizes, ...) in which a law is measured a second
time.
"""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import numpy as np

from flowref.laws.common.amounts import sparing
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.probes import MAPS, Probe, probes, random
from flowref.model import (
    AWAY,
    GIVEN,
    NEARBY,
    REAL,
    Batch,
    Case,
    Mapped,
    NotJudged,
    Unsupported,
    draw_points,
    requires,
)
from flowref.model.abilities import Bijection, Flow, Living, Pulling, offers

# Points used to test whether rows depend on each other, and the relative difference up to which
# results count as equal.
ROWS, SAME = 6, {"float64": 1e-9, "float32": 1e-5}

# The relative difference up to which a cotangent pulled back through both directions counts as
# unchanged.
AROUND_OFF = 1e-6
# More points than the blocks in which some calls are evaluated; the operations of a round trip up
# to which these are affordable; and the number of calls that some laws make.
MANY_ROWS, ROW_OPERATIONS, OFTEN = 1025, 8_000_000, 12


class Differentiated(Bijection, Pulling, Protocol):
    """A map with vector-Jacobian products."""


@requires("its calls are too expensive to be made in this circumstance as well", blocked=True)
def affords_dozen_calls(flow: Flow) -> bool:
    """A case may make a dozen calls to decide whether it applies."""
    return not sparing(flow)


@requires("its calls do the same in both modes")
def mode_matters(flow: Flow) -> bool:
    """Flows that are the same in train and eval mode are not measured twice. Raises `Unsupported`
    if the framework has no mode to set.
    """
    if flow.mode_matters is None:
        raise Unsupported(
            "in its framework a mode is an argument of calls, which is not set", blocked=False
        )
    return flow.mode_matters()


# Results of `rows_alone` by subject and condition, which many laws share.
_ALONE: weakref.WeakKeyDictionary[Any, NotJudged | None] = weakref.WeakKeyDictionary()


@requires("in train mode the rows of a batch depend on each other")
def rows_alone(flow: Flow) -> bool:
    """In train mode each row has its own result, independent of the batch, its position and random
    numbers. Raises `Unsupported` if the call raises or draws random numbers.
    """
    key = flow.mode_matters
    if key is None:  # there are no modes, and nothing to keep it by
        _seen_alone.demand(flow)
        return True
    if key not in _ALONE:
        _ALONE[key] = _seen_alone.unmet(flow)
    if (seen := _ALONE[key]) is not None:
        raise Unsupported(seen.reason, blocked=seen.blocked)
    return True


@requires("in train mode the rows of a batch depend on each other")
def _seen_alone(flow: Flow) -> bool:
    batch = ordinary_batch(flow)
    probed = probes(flow, batch, complete=False, calls=MAPS)
    for probe in probed:
        if random(flow, probe):
            raise Unsupported(f"in train mode {probe.name} draws random numbers")
        whole, error = attempt(probe)
        if error:
            raise Unsupported(f"in train mode {probe.name} {error}")
        if changes_between_calls(flow, probe):
            raise Unsupported(
                f"in train mode a call of {probe.name} changes what the next one returns"
            )
        if not all(_row_independent(flow, probe, whole, rows) for rows in _row_selections()):
            return False
    refused = sorted({*MAPS} & {*flow.calls} - {probe.name for probe in probed})
    if refused:
        raise Unsupported(f"in train mode it refuses {', '.join(refused)}")
    return True


def changes_between_calls(flow: Flow, probe: Probe) -> bool:
    """Whether a second call of one object returns another result, as with a power iteration for a
    weight norm that continues at each call and is not differentiated.
    """
    if not offers(flow, Living):
        return False
    life, error = attempt(flow.play, [probe.step()] * 2)
    return bool(error) or not _close(flow, *life)


def _close(flow: Flow, one: Mapped, other: Mapped) -> bool:
    same = SAME[flow.dtype]
    return all(
        first is None
        or np.allclose(first, np.asarray(second), rtol=same, atol=same, equal_nan=True)
        for first, second in zip(one, other, strict=True)
    )


def ordinary_batch(flow: Flow, latents: bool = False) -> Batch:
    """A batch of `ROWS` points of the domain, or with ``latents`` of the codomain."""
    rng = np.random.default_rng(7)
    context = flow.context_shape
    contexts = None if context is None else rng.standard_normal((ROWS, *context))
    shape = flow.latent_shape if latents else flow.event_shape
    support = (flow.codomain or REAL) if latents else flow.domain
    return Batch(draw_points(support, (ROWS, *shape), rng), contexts, 7)


def _row_selections() -> list[np.ndarray]:
    """Index arrays: some of the rows, and a permutation of all."""
    return [np.arange(ROWS // 2), np.arange(ROWS)[::-1]]


def _row_independent(flow: Flow, probe: Probe, whole: Mapped, rows: np.ndarray) -> bool:
    """Whether the selected rows alone give what they give within the batch."""
    some, error = attempt(probe.rows(rows))
    if some is None or error:
        return False
    same = SAME[flow.dtype]
    return all(
        np.allclose(np.asarray(one)[rows], np.asarray(other), rtol=same, atol=same, equal_nan=True)
        for one, other in ((whole.value, some.value), (whole.ladj, some.ladj))
        if one is not None and np.shape(one)[:1] == (ROWS,)
    )


@requires("its framework records gradients on request")
def records_on_request(flow: Flow) -> bool:
    """Calls can be made without an autograd graph."""
    return flow.mode_matters is not None


@requires("its calls are too expensive to be made at a thousand points at once", blocked=True)
def light(flow: Flow) -> bool:
    """A call with a thousand points costs no more than a heavy call with one batch."""
    return not sparing(flow, ROW_OPERATIONS // MANY_ROWS)


@requires("its calls are too expensive to be made at a thousand points many times", blocked=True)
def lighter(flow: Flow) -> bool:
    """A dozen calls with a thousand points cost no more than that."""
    return not sparing(flow, ROW_OPERATIONS // (MANY_ROWS * OFTEN))


TRAIN = Case(
    "train",
    "In train mode",
    {"mode": "train", "effort": 1, "scales": NEARBY, "scanned": False},
    affords_dozen_calls & mode_matters & rows_alone,
)


@requires("its inverse records no graph")
def records(flow: Differentiated) -> bool:
    """The inverse, here measured as the map, accepts images of forward and records a graph. Raises
    `Unsupported` if it raises.
    """
    points, context, _ = ordinary_batch(flow, latents=True)
    images = attempt(flow.calls["inverse"], points, context)[0]
    if images is None:
        return True  # A forward that raises is reported by other laws.
    out, error = attempt(flow.forward, images.value, context)
    if out is None:
        raise Unsupported(f"its inverse raises {error}, which map/inverse reports")
    weights = np.random.default_rng(8).standard_normal(np.shape(out.value))
    try:
        back, refused = attempt(flow.vjp, "forward", images.value, context, weights, None)
        there, too = attempt(flow.vjp, "inverse", points, context, back, None)
    except Unsupported:
        return False
    if refused or too or not np.allclose(there, weights, rtol=AROUND_OFF, atol=AROUND_OFF):
        # Lost in an in-place loop, or wrong: map/inverse-jacobian already reports this derivative.
        raise Unsupported("its derivatives are those that map/inverse-jacobian judges")
    return True


AROUND = {
    "direction": "inverse",
    "effort": 2,
    "scales": NEARBY,
    "scanned": False,
    "localize_in_parts": False,
}
INVERSE = Case("inverse", "The other way round", AROUND, affords_dozen_calls & records)
# Cached inverse weights may be detached; in train mode they must not be.
INVERSE_IN_TRAINING = Case(
    "inverse",
    "The other way round, in train mode",
    {**AROUND, "mode": "train"},
    affords_dozen_calls & records & rows_alone,
)
TRAINED = Case(
    "trained",
    "After training by its own gradients",
    {"history": "trained", "effort": 1, "scales": GIVEN},
)
NO_GRAD = Case(
    "no-grad",
    "Under no_grad, as for inference",
    {"grad": False, "effort": 1, "scales": AWAY},
    records_on_request,
)
CONTEXT = Case(
    "context",
    "Given a context, which may be left out",
    {"contextual": True, "effort": 2, "scales": NEARBY, "scanned": False},
)
# For one fixed context, a conditional density is an ordinary density.
ONE_CONTEXT = Case(
    "one-context", "At one context", {"one_context": True, "effort": 1, "scanned": False}
)
# Values cached for inference may depend on the context.
CONTEXT_NO_GRAD = Case(
    "context",
    "Given a context, which may be left out, under no_grad",
    {"contextual": True, "grad": False, "effort": 1, "scales": AWAY},
    records_on_request,
)
RESIZED = Case(
    "other-size",
    "At events of another size",
    {"resized": True, "effort": 1, "scales": NEARBY, "scanned": False, "localize_in_parts": False},
    affords_dozen_calls,
)
MANY = Case(
    "many",
    "Of a thousand points at once",
    {
        "rows": MANY_ROWS,
        "size": MANY_ROWS,
        "effort": 1,
        "scales": NEARBY,
        "localize_in_parts": False,
    },
    light,
)
# With weights that make steep maps.
MANY_AWAY = Case(
    "many",
    "Of a thousand points at once",
    {**MANY.changes, "scales": AWAY, "effort": 2, "scanned": False},
    light,
)
# For laws that make a dozen calls.
MANY_OFTEN = Case("many", "Of a thousand points at once", MANY.changes, lighter)
