"""A call as a chain of maps, for code of any form: it is cut wherever the number of values still
needed equals that of an event.

That the pieces make up the whole is verified: one after the other they must pull cotangents back as
the whole does (`Pieces.chained`).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
import torch

from flowref.backends.torch.arrays import array
from flowref.backends.torch.call_cost import Measuring
from flowref.backends.torch.stages import FEW, MapCall, tensor_like
from flowref.backends.torch.tape import Cut, Done, Tape
from flowref.model import Array, Stage
from flowref.model.cost import BACKWARD

# The largest number of traced functions; cotangents per batched backward pass.
LONGEST, TOGETHER = 100_000, 64


@dataclass(frozen=True)
class Piece:
    """The part of a call between two cuts: numbers of its inputs and outputs, these tensors, and
    the work of one cotangent of one point. ``next``: whether it is a single function.
    """

    given: tuple[int, ...]
    taken: tuple[int, ...]
    sources: Sequence[torch.Tensor]
    sinks: Sequence[torch.Tensor]
    work: float
    next: bool

    def pull(self, cotangents: Array, wanted: Sequence[bool] | None = None) -> Array:
        """See `Stage.pull`, for all inputs and outputs; sources that are not ``wanted`` get zeros,
        since their backward passes may be most of the work.
        """
        if cotangents.shape[1] > FEW:
            with contextlib.suppress(Exception):  # a function without batched backward passes
                return np.concatenate(
                    [
                        self._pulled(cotangents[:, start : start + TOGETHER], wanted, True)
                        for start in range(0, cotangents.shape[1], TOGETHER)
                    ],
                    axis=1,
                )
        rows = [
            self._pulled(cotangents[:, probe : probe + 1], wanted)
            for probe in range(len(cotangents[0]))
        ]
        return np.concatenate(rows, 1)

    def _pulled(
        self, cotangents: Array, wanted: Sequence[bool] | None, together: bool = False
    ) -> Array:
        """Pulls one cotangent back, or several ``together``."""
        every = [True] * len(self.sources) if wanted is None else wanted
        sources = [source for source, one in zip(self.sources, every, strict=True) if one]
        pieces = np.split(cotangents, np.cumsum([sink[0].numel() for sink in self.sinks])[:-1], 2)
        moving = [one for one in zip(self.sinks, pieces, strict=True) if one[0].requires_grad]
        found: Sequence[torch.Tensor | None] = [None] * len(sources)
        if moving:
            found = torch.autograd.grad(
                [sink for sink, _ in moving],
                sources,
                [given(piece, sink, together) for sink, piece in moving],
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=together,
            )
        left = iter(found)
        gradients = [next(left) if one else None for one in every]
        batch, count = cotangents.shape[:2]
        flat = [
            np.zeros((batch, count, source[0].numel()))
            if one is None
            else np.asarray(array(one)).reshape(count, batch, -1).swapaxes(0, 1)
            for one, source in zip(gradients, self.sources, strict=True)
        ]
        return np.concatenate(flat, 2)


class Pieces(tuple[Piece, ...]):
    """See `flowref.model.stages.Pieces`."""

    @property
    def runs(self) -> Sequence[range]:
        """See `Pieces`."""
        one = [piece.next for piece in self]
        starts = [at for at in range(len(self)) if not (at and one[at] and one[at - 1])]
        return [range(*ends) for ends in itertools.pairwise([*starts, len(self)])]

    seen = False

    @property
    def chained(self) -> Stage | None:
        """See `Pieces`."""
        return None if self.seen else _stage(self, set())

    def rest(self, run: range) -> Stage | None:
        """See `Pieces`."""
        some = self[run.start : run.stop]
        passing = {*some[0].given} & {*some[-1].taken}
        return _stage(some, passing) if {*some[0].given} - passing else None


def _stage(run: Sequence[Piece], passing: Set[int]) -> Stage:
    """Consecutive pieces as a stage; the values numbered ``passing`` bypass them."""
    first, last = run[0], run[-1]
    into = [number not in passing for number in first.given]
    out = [number not in passing for number in last.taken]
    inputs = np.repeat(into, [one[0].numel() for one in first.sources])
    outputs = np.repeat(out, [one[0].numel() for one in last.sinks])
    sources = [one for one, moves in zip(first.sources, into, strict=True) if moves]
    sinks = [one for one, moves in zip(last.sinks, out, strict=True) if moves]

    def pull(cotangents: Array) -> Array:
        every = np.zeros((*cotangents.shape[:2], len(outputs)))
        every[..., outputs] = cotangents
        for piece in reversed(run):
            every = piece.pull(every, into if piece is first else None)
        return every[..., inputs]

    x, y = concatenated_numbers(sources), concatenated_numbers(sinks)
    shape = tuple(sources[0].shape[1:]) if len(sources) == 1 else x.shape[1:]
    return Stage(shape, x, y, pull, work=lambda: sum(piece.work for piece in run))


def pieces(asked: MapCall, x: torch.Tensor, seen: bool = False) -> Pieces | None:
    """The pieces of a call at ``x`` ``(n, *event)``, in order of application; None if it cannot be
    cut, or fails. ``seen``: whether they were already verified.
    """
    with contextlib.suppress(Exception):
        found = Pieces(_pieces(asked, x))
        found.seen = seen
        return found if len(found) > 1 else None
    return None


def _pieces(asked: MapCall, x: torch.Tensor) -> list[Piece]:
    leaf = x.detach().requires_grad_(True)
    with torch.enable_grad(), Measuring() as measuring, Tape(leaf, (), measuring) as tape:
        end = tape.value(asked.at(leaf))
    if end is None or len(tape.done) > LONGEST:
        return []
    cuts = cuts_of(tape, end, leaf)
    if not cuts:
        return []
    leaf = x.detach().requires_grad_(True)
    with torch.enable_grad(), Tape(leaf, cuts) as again:
        value = again.current(asked.at(leaf))
    if [done.made for done in again.done] != [done.made for done in tape.done]:
        return []  # the second run took another branch
    return _pieces_between_cuts(cuts, again, leaf, value, end, tape.done)


def _pieces_between_cuts(
    cuts: Sequence[Cut],
    tape: Tape,
    leaf: torch.Tensor,
    value: torch.Tensor,
    end: int,
    done: Sequence[Done],
) -> list[Piece]:
    given: tuple[int, ...] = (0,)
    sources, before, found = [leaf], 0, []
    ends = [
        (cut.values, stop.sinks, stop.sources) for cut, stop in zip(cuts, tape.ends, strict=True)
    ]
    stops = [cut.after for cut in cuts]
    if cuts[-1].values != (end,):
        ends.append(((end,), [value], []))
        stops.append(len(done))
    for (taken, sinks, following), after in zip(ends, stops, strict=True):
        work = work_between(done, before, after, len(leaf))
        found.append(Piece(given, taken, sources, sinks, work, after == before + 1))
        given, sources, before = taken, following, after
    return found


def work_between(done: Sequence[Done], before: int, after: int, batch: int) -> float:
    """The work of a backward pass through functions, per point and cotangent of many."""
    some = done[before:after]
    bulk, dispatched = sum(one.bulk for one in some), sum(one.dispatched for one in some)
    return BACKWARD * (bulk / batch + dispatched / TOGETHER)


def cuts_of(tape: Tape, end: int, x: torch.Tensor) -> list[Cut]:
    """The cuts of a call: where as many numbers are still needed as it has inputs, in tensors with
    a row per point.
    """
    batch, needed, last = len(x), {end}, {end: len(tape.done)}
    matter = []
    for index in range(len(tape.done) - 1, -1, -1):
        done = tape.done[index]
        if needed.intersection(done.made):
            matter.append(index)
            needed.update(done.read)
            for number in done.read:
                last.setdefault(number, index)
    alive, found = {0} & needed, []
    for index in reversed(matter):
        done = tape.done[index]
        alive |= needed.intersection(done.made)
        alive = {number for number in alive if last[number] > index}
        holders = [tape.holders[number] for number in sorted(alive)]
        rows = all(holder.dim() and len(holder) == batch for holder in holders)
        if rows and sum(holder.numel() for holder in holders) == x.numel():
            found.append(Cut(index + 1, tuple(sorted(alive))))
    if found and found[-1].values == (end,) and len(found) == 1:
        return []  # a cut at the end only
    return found


def concatenated_numbers(tensors: Sequence[torch.Tensor]) -> Array:
    """The entries of several tensors, ``(batch, numbers)``."""
    return np.concatenate([np.asarray(array(one)).reshape(len(one), -1) for one in tensors], 1)


def given(piece: Array, sink: torch.Tensor, together: bool) -> torch.Tensor:
    """Cotangents ``(batch, probes, numbers)`` reshaped for a tensor; with several ``together``,
    ``(probes, *shape)``.
    """
    if not together:
        return tensor_like(piece[:, 0], sink)
    probes = torch.from_numpy(np.ascontiguousarray(piece.swapaxes(0, 1))).to(sink.dtype)
    return probes.reshape(-1, *sink.shape)
