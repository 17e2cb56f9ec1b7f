"""Probes: the calls that a flow offers, each with inputs.

A law about every call is stated for one `Probe` and measured for all that `probes` returns:
`agree` compares results, `absent` reports observations that should not occur.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flowref.laws.common.amounts import sparing, stepwise
from flowref.laws.common.outcomes import (
    agreement_residual,
    attempt,
    flags,
    listed_names,
    outcome_gap,
)
from flowref.model import (
    Array,
    Batch,
    Call,
    Life,
    Mapped,
    Observation,
    Residual,
    Undecidable,
    Unsupported,
)
from flowref.model.abilities import Flow, Living, offers
from flowref.model.call import KERNELS, How, Layout
from flowref.model.law import Echo
from flowref.model.steps import Run, Step

# After this many rejected points in a row, a call counts as rejecting all.
GIVE_UP = 6
# Pairs of outcomes that should be equal; None for a call that raised, which is an error and no
# wrong value.
Outcomes = Iterable[tuple[Mapped, Mapped | None]]


# Calls with points as input, which return one row per point.
POINTWISE = ("forward", "inverse", "log_prob", "base_log_prob", "cdf", "icdf")
# Calls with a batch as input, which return any shape.
BATCHED = ("bits_per_dim", "loss")
# Calls with a number as input, which draw as many points.
DRAWING = ("sample", "rsample")
EVERY = (*POINTWISE, *BATCHED, *DRAWING)
# Kernels take their seed as an argument; other points in the batch may shift their random numbers.
WITH_KERNELS = (*EVERY, *KERNELS)
# The calls needed by every flow; rounding laws compare these.
MAPS = ("forward", "inverse", "log_prob")
# Number of points drawn by a probe: usually, if drawing is heavy, and if each point is solved step
# by step.
DRAWN, HEAVILY_DRAWN, DEARLY_DRAWN = 5, 2, 1
# The random state of the calls of a history, unless a law compares two states.
HELD = 0


@dataclass(frozen=True)
class Probe:
    """One call of a flow with its inputs, in their order (see `Subject`).

    Arrays among the inputs have one row per point. ``tolerance``: the error that an iterative call
    declares.
    """

    call: Call[Any]
    inputs: tuple[Any, ...]
    tolerance: float = 0.0

    @property
    def name(self) -> str:
        """The name of the call."""
        return self.call.name

    @property
    def pointwise(self) -> bool:
        """Whether the result has one row per point."""
        return self.name in POINTWISE

    @property
    def draws(self) -> bool:
        """Whether the call samples a number of points."""
        return self.name in DRAWING

    @property
    def points(self) -> Array:
        """The points ``(n, ...)``, the first input of a pointwise or batched call."""
        points: Array = self.inputs[0]
        return points

    def __call__(
        self, how: How = "plain", layout: Layout = "contiguous", dtype: str | None = None
    ) -> Mapped:
        """The call with its inputs in a manner ``how``, memory layout and dtype."""
        return self.call.under(*self.inputs, how=how, layout=layout, dtype=dtype)

    def observe(self, default: str = "float32", training: bool = False) -> Observation:
        """Side effects of the call under a default dtype, in train or eval mode."""
        return self.call.observe(*self.inputs, default=default, training=training)

    def step(
        self, how: How = "plain", draws: int | None = HELD, held: bool = False, kept: bool = False
    ) -> Run:
        """The call as a step of a history (see `Run`)."""
        return Run(self.name, *self.inputs, how=how, draws=draws, held=held, kept=kept)

    def at(self, points: Array) -> Probe:
        """The call at other points, with the same contexts."""
        return replace(self, inputs=(points, *self.inputs[1:]))

    def mapped(self, change: Callable[[Array], Array]) -> Probe:
        """The call with ``change`` applied to every input array."""
        inputs = (change(one) if isinstance(one, np.ndarray) else one for one in self.inputs)
        return replace(self, inputs=tuple(inputs))

    def rows(self, index: Any) -> Probe:
        """The call at the rows ``index`` of its points and contexts."""
        return self.mapped(lambda array: array[index])


def few(flow: Flow, which: str) -> int:
    """The number of points to draw if any number would do; fewer for expensive calls."""
    if stepwise(flow, which):
        return DEARLY_DRAWN
    return HEAVILY_DRAWN if sparing(flow, call=which) else DRAWN


def tolerance_of(flow: Flow, which: str) -> float:
    """The declared error of an iterative call; 0 for closed forms."""
    iterative = "forward" if flow.promises.get("iterative-forward") else "inverse"
    return flow.certainty.inverse if which == iterative else 0.0


def probe_of(flow: Flow, which: str, *inputs: Any) -> Probe:
    """The named call with these inputs and its declared tolerance."""
    return Probe(flow.calls[which], inputs, tolerance_of(flow, which))


def probes(
    flow: Flow, batch: Batch, complete: bool = True, calls: Sequence[str] = EVERY
) -> list[Probe]:
    """The named calls that a flow offers, each with inputs: images of forward for the inverse and
    the base.

    Points that a call other than ``forward`` rejects are replaced by accepted ones; rejections are
    tested by other laws. A call that accepts none is left out; raises `Undecidable` if the set
    must be ``complete`` and it is one of `MAPS`, since a call that is missing only under noise
    would look like rounding. Raises `Unsupported` if no call is left.
    """
    ready: list[Probe] = []
    for which, *inputs in _calls_with_inputs(flow, batch, calls):
        if which == "forward":
            ready.append(probe_of(flow, which, *inputs))
            continue
        if which in DRAWING:
            error = attempt(flow.calls[which], *inputs)[1]
            ready += [] if error else [probe_of(flow, which, *inputs)]
            continue
        taken, error = accepted(flow.calls[which], *inputs)
        if taken is not None and which in (*POINTWISE, *KERNELS):
            error = rowless(flow.calls[which](taken, *inputs[1:]), len(taken))
        if taken is not None and not error:
            ready.append(probe_of(flow, which, taken, *inputs[1:]))
        elif complete and which in MAPS:
            raise Undecidable(
                f"{which} {error}" if taken is not None else f"{which} raises {error}"
            )
    if not ready:
        raise Unsupported("it offers no call that can be made here", blocked=False)
    return ready


def rowless(out: Any, rows: int) -> str:
    """The error message for an outcome without one row per point; empty if it has them."""
    shape = np.shape(out.value if isinstance(out, Mapped) else out)
    return "" if shape[:1] == (rows,) else f"returns shape {shape} for {rows} points"


def _calls_with_inputs(flow: Flow, batch: Batch, calls: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    x, context = batch.x, batch.context
    maps, forwards = "forward" in flow.calls, flow.normalizing == "forward"
    images = x
    if maps and {"inverse", "base_log_prob"} & set(flow.calls):
        images = np.asarray(flow.calls["forward"](x, context).value)
    data, latents = (x, images) if forwards else (images, x)
    seed = batch.seed % 2**31
    drawn, kernel = images, "push" in flow.calls and "push" in calls
    if kernel:
        points, _ = accepted(flow.calls["push"], x, seed, context)
        kernel = points is not None
        drawn = images if points is None else flow.calls["push"](points, seed, context).value
    u = np.random.default_rng(batch.seed).uniform(0.01, 0.99, x.shape)
    inputs: dict[str, tuple[Any, ...]] = {
        "forward": (x, context),
        "inverse": (images, context),
        "log_prob": (data, context),
        "base_log_prob": (latents, context),
        "cdf": (data,),
        "icdf": (u,),
        "bits_per_dim": (data, context),
        "loss": (data, context),
        "push": (x, seed, context),
        "pull": (np.asarray(drawn), seed, context),
    }
    if context is None:
        # Samplers differ in how they take contexts.
        inputs |= {which: (few(flow, which), seed, None) for which in DRAWING}
    unfed = set() if maps else {"inverse", *(("base_log_prob",) if forwards else ())}
    unfed |= set() if kernel else set(KERNELS)
    for which, given in inputs.items():
        if which in flow.calls and which in calls and which not in unfed:
            yield which, *given


def accepted(call: Callable[..., Any], points: Array, *others: Any) -> tuple[Array | None, str]:
    """The points ``(n, ...)`` with rejected ones replaced by an accepted one, and an empty string;
    None and the error if all are rejected. ``others``: further inputs, whose arrays have one row
    per point.
    """
    _, error = attempt(call, points, *others)
    if not error:
        return points, ""
    good: list[int] = []
    for row in range(len(points)):
        index = np.array([row])
        some = (one[index] if isinstance(one, np.ndarray) else one for one in others)
        if not attempt(call, points[index], *some)[1]:
            good.append(row)
        elif not good and row >= GIVE_UP:
            break
    if not good:
        return None, error
    replaced = np.repeat(points[good[:1]], len(points), 0)
    replaced[good] = points[good]
    return (None, error) if attempt(call, replaced, *others)[1] else (replaced, "")


def normalizing_probe(flow: Flow, batch: Batch) -> Probe:
    """The call that training makes (``log_prob`` or ``forward``), with points."""
    if "forward" in flow.calls and flow.normalizing == "forward":
        # A rejected point raises here, so that the other rows are still measured.
        flow.calls["forward"](batch.x, batch.context)
        return probe_of(flow, "forward", batch.x, batch.context)
    offered = {one.name: one for one in probes(flow, batch, complete=False, calls=MAPS)}
    return offered.get(flow.normalizing) or next(iter(offered.values()))


def random(flow: Flow, probe: Probe) -> bool:
    """Whether the result of a call depends on the random state. One law reports random calls; all
    others fix the state.
    """
    if not offers(flow, Living):
        return False
    life, error = attempt(flow.play, [probe.step(draws=draws) for draws in (1, 1, 2)])
    if error:
        return False
    first, again, other = life
    rows = len(probe.points)
    steady = np.nan_to_num(outcome_gap(first, again, rows), nan=0.0).max(initial=0.0)
    return bool(
        np.nan_to_num(outcome_gap(first, other, rows), nan=0.0).max(initial=0.0) > 1e3 * steady
    )


def data(flow: Flow, batch: Batch) -> Array:
    """Points on the data side, ``(n, *event)``, as densities and training steps take them."""
    forward = flow.calls.get("forward")
    if forward is None or flow.normalizing == "forward" or "inverse" not in flow.calls:
        return batch.x
    return np.asarray(forward(batch.x, batch.context).value)


def agree(
    probed: Sequence[Probe],
    outcomes: Callable[[Probe], Outcomes],
    note: str,
    all_refused: str = "",
) -> Residual:
    """The rounding residual of a law by which all outcomes of each probe are equal.

    ``all_refused``: the reason for `Unsupported` if every second call raised.
    """
    seen = [(one, first, second) for one in probed for first, second in outcomes(one)]
    if all_refused and all(second is None for _, _, second in seen):
        raise Unsupported(all_refused)
    rows = max(len(one.points) for one in probed if not one.draws)
    return probe_agreement_residual(
        ((one, first, second or first) for one, first, second in seen), rows, note
    )


def probe_agreement_residual(
    seen: Iterable[tuple[Probe, Mapped, Mapped]], rows: int, note: str, extra: float = 0.0
) -> Residual:
    """The rounding residual of two outcomes of each probe that should agree; the note lists probes
    that differ. Outcomes without one row per point, and ``extra``, count for every row.
    """
    pairs: list[tuple[Mapped, Mapped, float]] = []
    apart: list[str] = []
    for one, first, second in seen:
        if one.name not in (*MAPS, *KERNELS):
            first, second = (_row_per_point(out, rows, one.pointwise) for out in (first, second))
            # Non-finite rows of one call do not affect the comparison of others.
            good = np.asarray(np.isfinite(first.value).reshape(rows, -1).all(1))
            first, second = _where(good, first), _where(good, second)
        pairs.append((first, second, one.tolerance))
        if (np.nan_to_num(outcome_gap(first, second, rows, one.tolerance)) > 0).any():
            apart.append(one.name)
    named = f"{note} ({listed_names(sorted(set(apart)))})" if set(apart) - set(MAPS) else note
    return agreement_residual(pairs, rows, named, extra)


def _row_per_point(out: Mapped, rows: int, pointwise: bool) -> Mapped:
    """The outcome, repeated for each row if it has no row per point."""
    value = np.asarray(out.value, dtype=np.float64)
    if pointwise and len(value) == rows:
        return Mapped(value, None)
    return Mapped(np.broadcast_to(value.reshape(1, -1), (rows, value.size)), None)


def _where(good: Array, out: Mapped) -> Mapped:
    """The outcome with zeros in the rows that are not ``good``."""
    if len(out.value) != len(good):
        return out
    shape = (-1, *[1] * (out.value.ndim - 1))
    return Mapped(np.where(good.reshape(shape), out.value, 0.0), None)


def echo_of(calls: Sequence[str], complete: bool = True) -> Echo:
    r"""The self-comparison noise (`Law.echo`) of a law that compares calls with themselves: the
    change of each under noise times $\sqrt 2$, since both sides of the comparison would move.
    """

    def echo(flow: Flow, batch: Batch) -> Callable[[], Array]:
        rows = len(batch.x)
        probed = probes(flow, batch, complete, calls)
        clean = [probe() for probe in probed]

        def moved() -> Array:
            columns = [np.zeros(rows)]
            for probe, before in zip(probed, clean, strict=True):
                columns.append(_change_since_call(probe, before, rows))
            return np.asarray(math.sqrt(2) * np.stack(columns).max(0))

        return moved

    return echo


def _change_since_call(probe: Probe, before: Mapped, rows: int) -> Array:
    """The change of a call since its result ``before``, ``(rows,)``: nan for points that it now
    rejects, 0 for points that were not finite before.
    """
    out, refused = attempt(probe)
    if refused and (rows == 1 or not probe.pointwise or len(before.value) != rows):
        return np.full(rows, np.nan)
    if refused:
        halves = np.array_split(np.arange(rows), 2)
        return np.concatenate(
            [
                _change_since_call(probe.rows(half), _outcome_rows(before, half, rows), len(half))
                for half in halves
            ]
        )
    if probe.name not in MAPS:
        before, out = (_row_per_point(one, rows, probe.pointwise) for one in (before, out))
    apart = outcome_gap(before, out, rows, probe.tolerance)
    return np.asarray(np.nan_to_num(apart, nan=0.0, posinf=np.nan).max(1))


def _outcome_rows(out: Mapped, index: Array, rows: int) -> Mapped:
    ladj = out.ladj
    if ladj is not None and np.ndim(ladj) and len(np.asarray(ladj)) == rows:
        ladj = np.asarray(ladj)[index]
    return Mapped(out.value[index], ladj)


def absent(seen: Sequence[str], rows: int, note: str, **details: Any) -> Residual:
    """An exact residual: a violation if anything was ``seen``; ``note`` is formatted with the
    names.
    """
    return flags(bool(seen), rows, note.format(listed_names(seen)), **details)


def lived(flow: Living, steps: Sequence[Step[Any]], refusal: str, fresh: bool = False) -> Life:
    """The history of an object after ``steps``. Raises `Unsupported` with reason ``refusal`` and
    the error if a step raises.
    """
    life, error = attempt(flow.play, steps, fresh)
    if error:
        raise Unsupported(f"{refusal} ({error})")
    return life
