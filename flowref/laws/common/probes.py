"""Probes: the calls that a flow offers, each with points to make it at.

A law that speaks of every call is a statement about a `Probe`, judged for all that `probes` gives:
`agree` compares what calls returned, `absent` names what should not have been seen.
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

# After so many refused points in a row, a call counts as refusing all.
GIVE_UP = 6
# Outcomes of a probe that should be the same; None in place of one that was refused, which is loud
# and no wrong value.
Outcomes = Iterable[tuple[Mapped, Mapped | None]]


# Calls of points: what they return has a row for each.
POINTWISE = ("forward", "inverse", "log_prob", "base_log_prob", "cdf", "icdf")
# Calls of a batch of points, which return what they like.
BATCHED = ("bits_per_dim", "loss")
# Calls of a number, which draw so many points.
DRAWING = ("sample", "rsample")
EVERY = (*POINTWISE, *BATCHED, *DRAWING)
# Those of kernels start from the seed that they are given; other points in a batch may shift what they draw.
WITH_KERNELS = (*EVERY, *KERNELS)
# The calls that nothing flows without, by which rounding laws were always judged.
MAPS = ("forward", "inverse", "log_prob")
# So many points are drawn by a probe; as many where that is heavy, and where each is solved step by
# step, which takes as long again for each.
DRAWN, HEAVILY_DRAWN, DEARLY_DRAWN = 5, 2, 1
# The random state that the runs of a life start in, unless a law is about two of them.
HELD = 0


@dataclass(frozen=True)
class Probe:
    """One call of a flow, with inputs that it takes, in their order (see `Subject`).

    Arrays among the inputs have a row for each point. ``tolerance``: what an iterative call
    promises about its own error.
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
        """Whether what it returns has a row for each point."""
        return self.name in POINTWISE

    @property
    def draws(self) -> bool:
        """Whether it takes a number, and draws."""
        return self.name in DRAWING

    @property
    def points(self) -> Array:
        """The points of a call that takes some."""
        points: Array = self.inputs[0]
        return points

    def __call__(
        self, how: How = "plain", layout: Layout = "contiguous", dtype: str | None = None
    ) -> Mapped:
        """The call in a manner."""
        return self.call.under(*self.inputs, how=how, layout=layout, dtype=dtype)

    def observe(self, default: str = "float32", training: bool = False) -> Observation:
        """What the call does besides returning, under a default dtype, in either mode."""
        return self.call.observe(*self.inputs, default=default, training=training)

    def step(
        self, how: How = "plain", draws: int | None = HELD, held: bool = False, kept: bool = False
    ) -> Run:
        """The call as a step of a life (see `Run`)."""
        return Run(self.name, *self.inputs, how=how, draws=draws, held=held, kept=kept)

    def at(self, points: Array) -> Probe:
        """The call at other points, with the same contexts."""
        return replace(self, inputs=(points, *self.inputs[1:]))

    def mapped(self, change: Callable[[Array], Array]) -> Probe:
        """The call with every array among its inputs changed."""
        inputs = (change(one) if isinstance(one, np.ndarray) else one for one in self.inputs)
        return replace(self, inputs=tuple(inputs))

    def rows(self, index: Any) -> Probe:
        """The call at some of its points, with their contexts."""
        return self.mapped(lambda array: array[index])


def few(flow: Flow, which: str) -> int:
    """How many points a call draws where any number would do."""
    if stepwise(flow, which):
        return DEARLY_DRAWN
    return HEAVILY_DRAWN if sparing(flow, call=which) else DRAWN


def tolerance_of(flow: Flow, which: str) -> float:
    """What an iterative call promises about its own error; 0 for what is computed in closed form."""
    iterative = "forward" if flow.promises.get("iterative-forward") else "inverse"
    return flow.certainty.inverse if which == iterative else 0.0


def probe_of(flow: Flow, which: str, *inputs: Any) -> Probe:
    """One call of a flow, with inputs that it takes."""
    return Probe(flow.calls[which], inputs, tolerance_of(flow, which))


def probes(
    flow: Flow, batch: Batch, complete: bool = True, calls: Sequence[str] = EVERY
) -> list[Probe]:
    """Those of some calls that a flow offers, each with inputs to make it with: an inverse and a
    base are fed what ``forward`` produced.

    Points that a call other than ``forward`` refuses are replaced by points that it takes: that it
    refuses them is the business of other laws. Where it takes none the call is left out;
    `Undecidable` if the set is to be ``complete`` and it is one of `MAPS`, as rounding laws need
    it: a call that is there without noise and not under it would look like rounding.
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
        raise Unsupported("it offers no call that can be made here", waits=False)
    return ready


def rowless(out: Any, rows: int) -> str:
    """What is wrong with an outcome that has no row for each point; empty if nothing is."""
    shape = np.shape(out.value if isinstance(out, Mapped) else out)
    return "" if shape[:1] == (rows,) else f"returns shape {shape} for {rows} points"


def _calls_with_inputs(flow: Flow, batch: Batch, calls: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The calls that are there, each with its inputs."""
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
        # How a sampler takes contexts is a convention of its own.
        inputs |= {which: (few(flow, which), seed, None) for which in DRAWING}
    unfed = set() if maps else {"inverse", *(("base_log_prob",) if forwards else ())}
    unfed |= set() if kernel else set(KERNELS)
    for which, given in inputs.items():
        if which in flow.calls and which in calls and which not in unfed:
            yield which, *given


def accepted(call: Callable[..., Any], points: Array, *others: Any) -> tuple[Array | None, str]:
    """The points, with those that a call refuses replaced by one that it takes; None and the error
    if it takes none. ``others``: its other inputs, arrays among them a row for each point.
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
    """The call that training makes, with points for it."""
    if "forward" in flow.calls and flow.normalizing == "forward":
        # What it refuses raises here, so that the other rows are measured.
        flow.calls["forward"](batch.x, batch.context)
        return probe_of(flow, "forward", batch.x, batch.context)
    offered = {one.name: one for one in probes(flow, batch, complete=False, calls=MAPS)}
    return offered.get(flow.normalizing) or next(iter(offered.values()))


def random(flow: Flow, probe: Probe) -> bool:
    """Whether what a call returns depends on the random state that it is made in. Of a random call
    one law says so; the others hold the state.
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
    """Points on the data side, which densities and training steps take."""
    forward = flow.calls.get("forward")
    if forward is None or flow.normalizing == "forward" or "inverse" not in flow.calls:
        return batch.x
    return np.asarray(forward(batch.x, batch.context).value)


# Statements about every probe


def agree(
    probed: Sequence[Probe],
    outcomes: Callable[[Probe], Outcomes],
    note: str,
    all_refused: str = "",
) -> Residual:
    """The rounding residual of a law by which the outcomes of each probe are the same.

    ``all_refused``: the reason to say nothing where every second outcome was refused.
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
    """The rounding residual of two outcomes of each probe that should agree, named where one does
    not. What has no row for each point concerns every row; ``extra`` does too.
    """
    pairs: list[tuple[Mapped, Mapped, float]] = []
    apart: list[str] = []
    for one, first, second in seen:
        if one.name not in (*MAPS, *KERNELS):
            first, second = (_row_per_point(out, rows, one.pointwise) for out in (first, second))
            # What is not finite says nothing of the other calls.
            good = np.asarray(np.isfinite(first.value).reshape(rows, -1).all(1))
            first, second = _where(good, first), _where(good, second)
        pairs.append((first, second, one.tolerance))
        if (np.nan_to_num(outcome_gap(first, second, rows, one.tolerance)) > 0).any():
            apart.append(one.name)
    named = f"{note} ({listed_names(sorted(set(apart)))})" if set(apart) - set(MAPS) else note
    return agreement_residual(pairs, rows, named, extra)


def _row_per_point(out: Mapped, rows: int, pointwise: bool) -> Mapped:
    """An outcome with a row for each point; one that has none is repeated for each."""
    value = np.asarray(out.value, dtype=np.float64)
    if pointwise and len(value) == rows:
        return Mapped(value, None)
    return Mapped(np.broadcast_to(value.reshape(1, -1), (rows, value.size)), None)


def _where(good: Array, out: Mapped) -> Mapped:
    """An outcome with zeros in place of some rows."""
    if len(out.value) != len(good):
        return out
    shape = (-1, *[1] * (out.value.ndim - 1))
    return Mapped(np.where(good.reshape(shape), out.value, 0.0), None)


def echo_of(calls: Sequence[str], complete: bool = True) -> Echo:
    """The echo (`Law.echo`) of a law that compares some calls with themselves: how far each is from
    itself under noise, times the root of two, since under noise both that it compares would move.
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
    """How far a call is now from what it returned before, ``(rows,)``; nan at points that it refuses
    now. A point of which it returned nothing finite is not looked at.
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
    """Some rows of an outcome."""
    ladj = out.ladj
    if ladj is not None and np.ndim(ladj) and len(np.asarray(ladj)) == rows:
        ladj = np.asarray(ladj)[index]
    return Mapped(out.value[index], ladj)


def absent(seen: Sequence[str], rows: int, note: str, **details: Any) -> Residual:
    """The exact residual of a law by which nothing of a kind is seen: ``note`` takes the names of
    what was.
    """
    return flags(bool(seen), rows, note.format(listed_names(seen)), **details)


def lived(flow: Living, steps: Sequence[Step[Any]], refusal: str, fresh: bool = False) -> Life:
    """A life; `Unsupported`, for a reason that ends in the error, where it is refused."""
    life, error = attempt(flow.play, steps, fresh)
    if error:
        raise Unsupported(f"{refusal} ({error})")
    return life
