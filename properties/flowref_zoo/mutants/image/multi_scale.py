"""Defects of multi-scale maps, put into healthy subjects: entries lost, moved, counted twice or
passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Subject, mutant
from flowref.model.steps import Cut, Layers, Passed, Trace
from flowref_zoo.mutants.combinators import Steps, added, at, declared, living

LEVELS = "reference:MultiScale"


def in_direction(
    subject: Subject, kind: type[Trace] | type[Layers], call: str, change: Callable[[Any], Any]
) -> Subject:
    """The subject with the outcome of every step of a kind changed that looks into one call."""
    return living(subject, partial(_in_direction, kind, call, change))


def _in_direction(
    kind: type[Trace] | type[Layers],
    call: str,
    change: Callable[[Any], Any],
    steps: Steps,
    outcomes: list[Any],
) -> list[Any]:
    return [
        change(out) if isinstance(step, kind) and step.call == call else out
        for step, out in zip(steps, outcomes, strict=True)
    ]


def whole(subject: Subject, change: Callable[[Passed, Sequence[Passed]], Passed]) -> Subject:
    """The subject with the outcome of a traced call changed, given the runs of its modules."""
    return at(subject, Trace, lambda trace: [*trace[:-1], change(trace[-1], trace[:-1])])


def declaring(subject: Subject, **changes: Any) -> Subject:
    """The subject with something else declared of its levels."""
    return subject.with_facts(multi_scale=replace(declared(subject.multi_scale), **changes))


@mutant("multi-scale/split[sizes]", host=LEVELS)
def channel_not_counted(subject: Subject, size: float = 1.0) -> Subject:
    """The shape of the first level misses a channel."""
    (channels, *rest), *others = declared(subject.multi_scale).shapes
    return declaring(subject, shapes=((channels - 1, *rest), *others))


def _narrowed(out: Passed, runs: Sequence[Passed]) -> Passed:
    return replace(out, value=out.value.reshape(len(out.value), -1)[:, :-1])


@mutant("multi-scale/split[sizes]", host="nflows:MultiscaleCompositeTransform")
def last_latent_lost(subject: Subject, size: float = 1.0) -> Subject:
    """The last latent is left out."""
    return whole(subject, _narrowed)


def _first_latent_moved(size: float, out: Passed, runs: Sequence[Passed]) -> Passed:
    moved = out.value.copy()
    moved.reshape(len(moved), -1)[:, 0] *= 1 + size
    return replace(out, value=moved)


@mutant("multi-scale/split", host=LEVELS, sizes=(1e-12, 1e-3))
def latent_moved(subject: Subject, size: float = 1e-12) -> Subject:
    """One entry is not what the level gave when it leaves."""
    return whole(subject, partial(_first_latent_moved, size))


def _same_half(trace: Sequence[Passed]) -> list[Passed]:
    first, second, out = trace
    entered = np.asarray(second.entered)
    half = first.value.reshape(len(entered), 2, *entered.shape[1:])[:, 1]
    return [first, replace(second, entered=half.copy()), out]


@mutant("multi-scale/split", host=LEVELS)
def same_half_goes_on(subject: Subject, size: float = 1.0) -> Subject:
    """The half that leaves goes on as well."""
    return in_direction(subject, Trace, "forward", _same_half)


@mutant("density/change-of-variables[levels]", host="nflows:MultiscaleCompositeTransform")
def log_det_overwritten(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det of the last level takes the place of the sum (tensorflow/models #7465)."""
    return whole(subject, lambda out, runs: replace(out, ladj=runs[-1].ladj))


@mutant("density/change-of-variables[levels]", host="reference:RealNVP", sizes=(1e-9, 1e-3))
def log_det_moved(subject: Subject, size: float = 1e-9) -> Subject:
    """The log-det is off by a constant."""
    return whole(subject, lambda out, runs: replace(out, ladj=out.ladj + size))


def _leaking(size: float, gradients: Sequence[Array]) -> list[Array]:
    leaves, goes_on = gradients
    return [leaves, goes_on + size * leaves]


@mutant("multi-scale/factored-inert", host=LEVELS, sizes=(1e-12, 1.0))
def later_level_looks_back(subject: Subject, size: float = 1e-12) -> Subject:
    """Later latents change with what has left."""
    return at(subject, Cut, partial(_leaking, size))


def _halves_swapped(trace: Sequence[Passed]) -> list[Passed]:
    return [
        run if run.entered is None else replace(run, entered=_rolled(run.entered)) for run in trace
    ]


def _rolled(value: Array) -> Array:
    return np.roll(value, value.shape[1] // 2, axis=1)


@mutant("multi-scale/split[inverse]", host=LEVELS)
def joined_the_other_way(subject: Subject, size: float = 1.0) -> Subject:
    """The inverse joins the two halves in the other order."""
    return in_direction(subject, Trace, "inverse", _halves_swapped)


def _first_scaled(size: float, trace: Sequence[Passed]) -> list[Passed]:
    first, *others = trace
    return [replace(first, entered=np.asarray(first.entered) * (1 + size)), *others]


@mutant("multi-scale/split[inverse]", host=LEVELS, sizes=(1e-10, 1e-3))
def joined_inexactly(subject: Subject, size: float = 1e-10) -> Subject:
    """A level is given a little more in the inverse than it gave."""
    return in_direction(subject, Trace, "inverse", partial(_first_scaled, size))


@mutant("density/change-of-variables", host="reference:Flow[RealNVP]", sizes=(1e-9, 1.0))
def level_left_out(subject: Subject, size: float = 1.0) -> Subject:
    """What left does not count in full."""
    return added(subject, "log_prob", size)


def _one_idle(counts: Mapping[str, int]) -> dict[str, int]:
    return {**counts, max(counts): 0}


@mutant("multi-scale/all-layers-run", host="reference:RealNVP")
def final_coupling_left_out(subject: Subject, size: float = 1.0) -> Subject:
    """The last layer never runs."""
    return at(subject, Layers, _one_idle)


@mutant("multi-scale/all-layers-run", host="reference:RealNVP")
def final_coupling_skipped_back(subject: Subject, size: float = 1.0) -> Subject:
    """The last layer does not run in the inverse."""
    return in_direction(subject, Layers, "inverse", _one_idle)


@mutant("multi-scale/real-nvp-architecture", host="reference:RealNVP[as published]")
def arguments_swapped(subject: Subject, size: float = 1.0) -> Subject:
    """The hidden width is given as the number of couplings, and the other way round."""
    levels = declared(subject.multi_scale).architecture
    swapped = tuple(
        tuple((kind, len(level)) for kind, width in level for _ in range(max(width, 1)))
        for level in levels
    )
    return declaring(subject, architecture=swapped)


@mutant("multi-scale/real-nvp-architecture", host="reference:RealNVP[as published]")
def width_not_doubled(subject: Subject, size: float = 1.0) -> Subject:
    """The hidden width stays the same after a squeeze."""
    levels = declared(subject.multi_scale).architecture
    narrow = tuple(tuple((kind, 4 if width else 0) for kind, width in level) for level in levels)
    return declaring(subject, architecture=narrow)
