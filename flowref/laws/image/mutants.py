"""Defects of squeezes and of multi-scale maps, put into healthy subjects: entries lost, moved,
counted twice or passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant

SQUEEZE, UNNAMED, LEVELS = "reference:Squeeze", "nflows:SqueezeTransform", "reference:MultiScale"
Steps = Sequence[tuple[Any, ...]]
# A step, its outcome and a size -> another outcome.
Change = Callable[[tuple[Any, ...], Any, float], Any]


def _changed(
    call: Callable[..., Mapped],
    change: Callable[[Array], Array],
    x: Array,
    context: Array | None = None,
) -> Mapped:
    out = call(x, context)
    return Mapped(change(out.value), out.ladj)


def _reshaped(call: Callable[..., Mapped], x: Array, context: Array | None = None) -> Mapped:
    out = call(x, context)
    return Mapped(x.reshape(out.value.shape), out.ladj)


def _cropped(call: Callable[..., Mapped], x: Array, context: Array | None = None) -> Mapped:
    rows, columns = x.shape[2] // 2 * 2, x.shape[3] // 2 * 2
    return call(np.ascontiguousarray(x[:, :, :rows, :columns]), context)


def _first_twice(value: Array) -> Array:
    return np.concatenate([value[:, :1], value[:, :1], value[:, 2:]], axis=1)


def _two_swapped(value: Array) -> Array:
    return np.concatenate([value[:, 1:2], value[:, :1], value[:, 2:]], axis=1)


def _columns_turned(value: Array) -> Array:
    return np.ascontiguousarray(np.swapaxes(value, 2, 3))


def _corners_turned(value: Array) -> Array:
    return np.concatenate([value[:, :, ::-1][:, :1], value[:, 1:]], axis=1)


def _forward(subject: Subject, change: Callable[[Array], Array]) -> Subject:
    return subject.with_call("forward", partial(_changed, subject.forward, change))


@mutant("squeeze/permutes", host=SQUEEZE)
def first_channel_twice(subject: Subject, size: float = 1.0) -> Subject:
    """A channel is put out twice, and another one lost."""
    return _forward(subject, _first_twice)


@mutant("squeeze/permutes", host=UNNAMED, sizes=(1e-6, 1.0))
def entries_moved(subject: Subject, size: float = 1e-6) -> Subject:
    """The entries are off by a little."""
    return _forward(subject, partial(np.add, size))


@mutant("squeeze/windows-stay", host=SQUEEZE)
def reshaped_only(subject: Subject, size: float = 1.0) -> Subject:
    """The image is reshaped, without moving an axis."""
    return subject.with_call("forward", partial(_reshaped, subject.forward))


@mutant("squeeze/windows-stay", host=SQUEEZE)
def columns_for_rows(subject: Subject, size: float = 1.0) -> Subject:
    """Every window stays one, and goes to the position mirrored at the diagonal."""
    return _forward(subject, _columns_turned)


@mutant("squeeze/windows-stay", host=SQUEEZE)
def one_corner_elsewhere(subject: Subject, size: float = 1.0) -> Subject:
    """One corner comes from the window at the other end."""
    return _forward(subject, _corners_turned)


@mutant("squeeze/declared-order", host=SQUEEZE)
def two_corners_swapped(subject: Subject, size: float = 1.0) -> Subject:
    """Two corners of the first channel are swapped."""
    return _forward(subject, _two_swapped)


@mutant("squeeze/declared-order", host="reference:Squeeze[space_to_depth]")
def weights_of_another_order(subject: Subject, size: float = 1.0) -> Subject:
    """The documentation tells another order that is in use."""
    return subject.with_facts(squeezing=replace(subject.squeezing, order="pixel_unshuffle"))


@mutant("squeeze/known-order", host=UNNAMED)
def order_without_name(subject: Subject, size: float = 1.0) -> Subject:
    """Two corners of the first channel only are swapped."""
    return _forward(subject, _two_swapped)


@mutant("squeeze/odd-sizes", host=UNNAMED)
def odd_row_dropped(subject: Subject, size: float = 1.0) -> Subject:
    """The last row or column of an odd image is dropped in silence."""
    return subject.with_call("forward", partial(_cropped, subject.forward))


def _played(
    play: Callable[..., list[Any]],
    name: str,
    change: Change,
    size: float,
    steps: Steps,
    fresh: bool = False,
) -> list[Any]:
    pairs = zip(steps, play(steps, fresh), strict=True)
    return [change(step, outcome, size) if step[0] == name else outcome for step, outcome in pairs]


def _at(subject: Subject, name: str, change: Change, size: float) -> Subject:
    """The subject with the outcomes of one step changed."""
    return replace(subject, play=partial(_played, subject.play, name, change, size))


@mutant("multi-scale/dims-conserved", host=LEVELS)
def channel_not_counted(subject: Subject, size: float = 1.0) -> Subject:
    """The shape of the first level misses a channel."""
    (channels, *rest), *others = subject.multi_scale.shapes
    shapes = ((channels - 1, *rest), *others)
    return subject.with_facts(multi_scale=replace(subject.multi_scale, shapes=shapes))


def _narrowed(step: tuple[Any, ...], outcome: Any, size: float) -> Any:
    *runs, (name, given, value, ladj) = outcome
    return [*runs, (name, given, value.reshape(len(value), -1)[:, :-1], ladj)]


@mutant("multi-scale/dims-conserved", host="nflows:MultiscaleCompositeTransform")
def last_latent_lost(subject: Subject, size: float = 1.0) -> Subject:
    """The last latent is left out."""
    return _at(subject, "trace", _narrowed, size)


def _first_latent_moved(step: tuple[Any, ...], outcome: Any, size: float) -> Any:
    *runs, (name, given, value, ladj) = outcome
    moved = value.copy()
    moved.reshape(len(moved), -1)[:, 0] *= 1 + size
    return [*runs, (name, given, moved, ladj)]


@mutant("multi-scale/split-exact", host=LEVELS, sizes=(1e-12, 1e-3))
def latent_moved(subject: Subject, size: float = 1e-12) -> Subject:
    """One entry is not what the level gave when it leaves."""
    return _at(subject, "trace", _first_latent_moved, size)


def _same_half(step: tuple[Any, ...], outcome: Any, size: float) -> Any:
    first, (name, given, value, ladj), whole = outcome
    half = first[2].reshape(len(given), 2, *given.shape[1:])[:, 1]
    return [first, (name, half.copy(), value, ladj), whole] if step[1] == "forward" else outcome


@mutant("multi-scale/split-exact", host=LEVELS)
def same_half_goes_on(subject: Subject, size: float = 1.0) -> Subject:
    """The half that leaves goes on as well."""
    return _at(subject, "trace", _same_half, size)


def _last_level_only(step: tuple[Any, ...], outcome: Any, size: float) -> Any:
    *runs, (name, given, value, _) = outcome
    return [*runs, (name, given, value, runs[-1][3])]


@mutant("multi-scale/log-det-total", host="nflows:MultiscaleCompositeTransform")
def log_det_overwritten(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det of the last level takes the place of the sum (tensorflow/models #7465)."""
    return _at(subject, "trace", _last_level_only, size)


def _total_moved(step: tuple[Any, ...], outcome: Any, size: float) -> Any:
    *runs, (name, given, value, ladj) = outcome
    return [*runs, (name, given, value, ladj + size)]


@mutant("multi-scale/log-det-total", host="reference:RealNVP", sizes=(1e-9, 1e-3))
def log_det_moved(subject: Subject, size: float = 1e-9) -> Subject:
    """The log-det is off by a constant."""
    return _at(subject, "trace", _total_moved, size)


def _leaking(step: tuple[Any, ...], outcome: Any, size: float) -> Any:
    leaves, goes_on = outcome
    return [leaves, goes_on + size * leaves]


@mutant("multi-scale/factored-inert", host=LEVELS, sizes=(1e-12, 1.0))
def later_level_looks_back(subject: Subject, size: float = 1e-12) -> Subject:
    """Later latents change with what has left."""
    return _at(subject, "cut", _leaking, size)


def _halves_swapped(step: tuple[Any, ...], outcome: Any, size: float) -> Any:
    if step[1] == "forward":
        return outcome
    swapped = []
    for name, given, value, ladj in outcome:
        order = (
            np.roll(np.arange(given.shape[1]), given.shape[1] // 2) if given is not None else None
        )
        swapped.append((name, None if given is None else given[:, order], value, ladj))
    return swapped


@mutant("multi-scale/recombines", host=LEVELS)
def joined_the_other_way(subject: Subject, size: float = 1.0) -> Subject:
    """The inverse joins the two halves in the other order."""
    return _at(subject, "trace", _halves_swapped, size)


def _inverse_moved(step: tuple[Any, ...], outcome: Any, size: float) -> Any:
    if step[1] == "forward":
        return outcome
    (name, given, value, ladj), *others = outcome
    return [(name, given * (1 + size), value, ladj), *others]


@mutant("multi-scale/recombines", host=LEVELS, sizes=(1e-10, 1e-3))
def joined_inexactly(subject: Subject, size: float = 1e-10) -> Subject:
    """A level is given a little more in the inverse than it gave."""
    return _at(subject, "trace", _inverse_moved, size)


def _plus(
    log_prob: Callable[..., Array], size: float, x: Array, context: Array | None = None
) -> Array:
    return log_prob(x, context) + size


@mutant("multi-scale/split-is-slice", host="reference:Flow[RealNVP]", sizes=(1e-9, 1.0))
def level_left_out(subject: Subject, size: float = 1.0) -> Subject:
    """What left does not count in full."""
    return subject.with_call("log_prob", partial(_plus, subject.log_prob, size))


def _one_idle(step: tuple[Any, ...], outcome: Any, size: float) -> Any:
    idle = max(outcome)
    return {**outcome, idle: 0}


@mutant("multi-scale/all-layers-run", host="reference:RealNVP")
def final_coupling_left_out(subject: Subject, size: float = 1.0) -> Subject:
    """The last layer never runs."""
    return _at(subject, "layers", _one_idle, size)


def _skipped_back(step: tuple[Any, ...], outcome: Any, size: float) -> Any:
    return _one_idle(step, outcome, size) if step[1] == "inverse" else outcome


@mutant("multi-scale/all-layers-run", host="reference:RealNVP")
def final_coupling_skipped_back(subject: Subject, size: float = 1.0) -> Subject:
    """The last layer does not run in the inverse."""
    return _at(subject, "layers", _skipped_back, size)


@mutant("multi-scale/real-nvp-architecture", host="reference:RealNVP[as published]")
def arguments_swapped(subject: Subject, size: float = 1.0) -> Subject:
    """The hidden width is given as the number of couplings, and the other way round."""
    levels = tuple(
        tuple((kind, len(level)) for kind, width in level for _ in range(max(width, 1)))
        for level in subject.multi_scale.architecture
    )
    return subject.with_facts(multi_scale=replace(subject.multi_scale, architecture=levels))


@mutant("multi-scale/real-nvp-architecture", host="reference:RealNVP[as published]")
def width_not_doubled(subject: Subject, size: float = 1.0) -> Subject:
    """The hidden width stays the same after a squeeze."""
    levels = tuple(
        tuple((kind, 4 if width else 0) for kind, width in level)
        for level in subject.multi_scale.architecture
    )
    return subject.with_facts(multi_scale=replace(subject.multi_scale, architecture=levels))
