"""Defects of couplings in what they keep, transform and report, put into healthy subjects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import declared, ladj_added, wrapped

NFLOWS, ADDITIVE = "nflows:AffineCouplingTransform", "nflows:AdditiveCouplingTransform"
CHECKERBOARD, CHANNELS = (
    "reference:AffineCoupling[checkerboard]",
    "reference:AffineCoupling[channels]",
)
SPLINE = "nflows:PiecewiseRationalQuadraticCouplingTransform[tails,uncond]"
# Of the events of the checkerboard host.
PIXELS = (2, 4, 4)

# Changes flattened values and log-dets in place, given the flattened input and what is kept.
Change = Callable[[Array, Array, Array, Array], None]


def mask(subject: Subject) -> Array:
    """Which entries are kept."""
    return np.asarray(np.asarray(declared(subject.coupling).kept) == 1)


def changed(subject: Subject, which: str, change: Change) -> Subject:
    """The subject with one call changed."""
    return wrapped(subject, which, _changed, mask(subject), change)


def _changed(
    call: Callable[..., Mapped],
    kept: Array,
    change: Change,
    x: Array,
    context: Array | None = None,
) -> Mapped:
    out = call(x, context)
    value = np.array(out.value, dtype=np.float64).reshape(len(x), -1)
    ladj = np.array(np.broadcast_to(np.asarray(out.ladj, dtype=np.float64), (len(x),)))
    change(np.asarray(x, dtype=np.float64).reshape(len(x), -1), value, ladj, kept)
    return Mapped(value.reshape(np.shape(out.value)), ladj)


def masked(subject: Subject, kept: Array) -> Subject:
    """The subject with another mask."""
    flat = tuple(float(value) for value in np.asarray(kept).reshape(-1))
    return subject.with_facts(coupling=replace(declared(subject.coupling), kept=flat))


def _keeping(x: Array, y: Array, ladj: Array, kept: Array) -> None:
    y[:] = np.where(kept, x, 2 * x + 1)


def keeping(subject: Subject, kept: Array) -> Subject:
    """The subject that keeps other entries, by its mask and its forward call."""
    other = masked(subject, kept)
    return changed(other, "forward", _keeping)


def _nudged(x: Array, y: Array, ladj: Array, kept: Array) -> None:
    y[:, kept] = np.nextafter(y[:, kept], np.inf)


@mutant("coupling/pattern[kept-part]", host=NFLOWS)
def last_bit_of_the_kept_part(subject: Subject, size: float = 1.0) -> Subject:
    """Forward changes the last bit of what it keeps."""
    return changed(subject, "forward", _nudged)


@mutant("coupling/pattern[kept-part]", host=CHECKERBOARD)
def inverse_changes_the_kept_part(subject: Subject, size: float = 1.0) -> Subject:
    """Only the inverse changes the last bit of what is kept."""
    return changed(subject, "inverse", _nudged)


def _leaking(
    jacobian: Callable[..., Array],
    row: int,
    column: int,
    size: float,
    which: str,
    x: Array,
    context: Array | None = None,
) -> Array:
    matrix = np.array(jacobian(which, x, context))
    matrix[:, row, column] += size
    return matrix


def leaking(subject: Subject, row: int, column: int, size: float) -> Subject:
    """The subject with something added to one entry of its Jacobians."""
    return wrapped(subject, "jacobian", _leaking, row, column, size)


@mutant("coupling/pattern[conditioner]", host=CHECKERBOARD, sizes=(1e-15, 1e-3))
def conditioner_sees_all(subject: Subject, size: float = 1e-3) -> Subject:
    """A transformed entry enters the parameters of another one."""
    first, second = np.flatnonzero(~mask(subject))[:2]
    return leaking(subject, int(first), int(second), size)


@mutant("coupling/pattern[conditioner]", host=SPLINE, sizes=(1e-15, 1e-3))
def kept_part_is_conditioned(subject: Subject, size: float = 1e-3) -> Subject:
    """A transformed entry enters the map of one that is kept."""
    kept, moved = (int(np.flatnonzero(part)[0]) for part in (mask(subject), ~mask(subject)))
    return leaking(subject, kept, moved, size)


@mutant("coupling/closed-form", host=NFLOWS, sizes=(1e-10, 1e-3))
def log_det_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The log-det is off by a constant."""
    return ladj_added(subject, "forward", size)


def _averaged(x: Array, y: Array, ladj: Array, kept: Array) -> None:
    ladj /= (~kept).sum()


@mutant("coupling/closed-form", host=CHECKERBOARD)
def log_det_averaged(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det is the mean over the transformed entries."""
    return changed(subject, "forward", _averaged)


def _lost(x: Array, y: Array, ladj: Array, kept: Array) -> None:
    ladj[x[:, ~kept][:, 0] > 0.5] = np.nan


@mutant("map/log-det", host=NFLOWS)
def log_det_lost(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det is nan at some points at which the Jacobian is regular."""
    return changed(subject, "forward", _lost)


@mutant("coupling/closed-form", host=NFLOWS)
def log_det_lost_in_closed_form(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det is nan at some points of a line."""
    return changed(subject, "forward", _lost)


def _curved(size: float, x: Array, y: Array, ladj: Array, kept: Array) -> None:
    y[:, ~kept] += size * np.tanh(x[:, ~kept]) ** 2


@mutant("coupling/closed-form", host=NFLOWS, sizes=(1e-8, 1e-2))
def slightly_curved(subject: Subject, size: float = 1e-2) -> Subject:
    """What is transformed depends on itself otherwise than by a line."""
    return changed(subject, "forward", partial(_curved, size))


def _stretched(size: float, x: Array, y: Array, ladj: Array, kept: Array) -> None:
    y[:, ~kept] *= 1 + size


@mutant("coupling/closed-form", host=ADDITIVE, sizes=(1e-8, 1e-2))
def additive_with_a_scale(subject: Subject, size: float = 1e-2) -> Subject:
    """An additive coupling stretches."""
    return changed(subject, "forward", partial(_stretched, size))


@mutant("coupling/scale-bounded", host=CHECKERBOARD)
def scale_not_squashed(subject: Subject, size: float = 1e3) -> Subject:
    """The scale is a thousand times what it may be."""
    return changed(subject, "forward", partial(_stretched, size))


def _odd_end_forgotten(x: Array, y: Array, ladj: Array, kept: Array) -> None:
    if x.shape[1] % 2:
        last = int(np.flatnonzero(~kept)[-1])
        y[:, last] = x[:, last]


@mutant("coupling/closed-form[odd-features]", host=NFLOWS)
def odd_one_out(subject: Subject, size: float = 1.0) -> Subject:
    """Of an odd number of features one is passed by, and its scale counted."""
    return changed(subject, "forward", _odd_end_forgotten)


@mutant("coupling/closed-form[odd-features]", host=SPLINE)
def odd_part_empty(subject: Subject, size: float = 1.0) -> Subject:
    """Of an odd number of features everything is transformed."""
    return masked(subject, mask(subject) & (len(mask(subject)) % 2 == 0))


@mutant("coupling/masks[partition]", host=NFLOWS)
def mask_of_ones(subject: Subject, size: float = 1.0) -> Subject:
    """Everything is kept."""
    return masked(subject, np.ones(len(mask(subject))))


@mutant("coupling/masks[partition]", host="normflows:MaskedAffineFlow")
def mask_of_halves(subject: Subject, size: float = 1.0) -> Subject:
    """The mask holds a number between 0 and 1."""
    return masked(subject, np.where(mask(subject), 1.0, 0.5))


@mutant("coupling/masks[alternating]", host="reference:AffineCoupling[alternating]")
def halves_for_alternating(subject: Subject, size: float = 1.0) -> Subject:
    """The first half is kept."""
    return keeping(subject, np.arange(4) < 2)


@mutant("coupling/masks[checkerboard]", host=CHECKERBOARD)
def nothing_kept(subject: Subject, size: float = 1.0) -> Subject:
    """No entry comes out as it went in."""
    return changed(subject, "forward", _nudged)


@mutant("coupling/masks[checkerboard]", host=CHECKERBOARD)
def stripes(subject: Subject, size: float = 1.0) -> Subject:
    """Every second entry of a flattened image of even width is kept: columns (torchflows)."""
    return keeping(subject, np.arange(np.prod(PIXELS)) % 2 == 0)


@mutant("coupling/masks[checkerboard]", host=CHECKERBOARD)
def rows_for_a_board(subject: Subject, size: float = 1.0) -> Subject:
    """Every second row is kept."""
    return keeping(subject, np.broadcast_to(np.arange(4)[:, None] % 2 == 0, PIXELS))


@mutant("coupling/masks[channels]", host=CHANNELS)
def alternating_channels(subject: Subject, size: float = 1.0) -> Subject:
    """Every second channel is kept."""
    return keeping(
        subject, np.broadcast_to(np.arange(4)[:, None, None] % 2 == 0, subject.event_shape)
    )


@mutant("coupling/masks[channels]", host=CHANNELS)
def one_channel_too_many(subject: Subject, size: float = 1.0) -> Subject:
    """Three channels of four are kept."""
    return keeping(subject, np.broadcast_to(np.arange(4)[:, None, None] < 3, subject.event_shape))


def _corners(x: Array, context: Array | None = None, which: str = "forward") -> Mapped:
    """A coupling that keeps the first and the last of four channels."""
    value = np.array(x)
    value[:, 1:3] = 2 * value[:, 1:3] + 1
    return Mapped(value, np.full(len(x), x[0, 1:3].size * np.log(2.0)))


@mutant("coupling/stack[squeeze]", host="reference:Chain[squeeze]")
def same_entries_after_the_squeeze(subject: Subject, size: float = 1.0) -> Subject:
    """The channels kept after the squeeze are those of the checkerboard before it."""
    maps = list(subject.part_maps)
    maps[3] = _corners
    return replace(subject, part_maps=tuple(maps))


def _one_hot(
    jacobian: Callable[..., Array], which: str, x: Array, context: Array | None = None
) -> Array:
    matrix = np.array(jacobian(which, x, context))
    matrix[:, 0], matrix[:, 0, 0] = 0.0, 1.0
    return matrix


def never_transformed(subject: Subject) -> Subject:
    """The subject with an entry that is copied from end to end."""
    return wrapped(subject, "jacobian", _one_hot)


@mutant("coupling/stack[promise]", host="reference:VectorRealNVP[norm=None]")
def same_mask_twice(subject: Subject, size: float = 1.0) -> Subject:
    """No coupling of the stack transforms the first entry."""
    return never_transformed(subject)


@mutant("coupling/stack", host="reference:Chain[squeeze]")
def same_mask_in_every_coupling(subject: Subject, size: float = 1.0) -> Subject:
    """The first entry is kept by every coupling."""
    return never_transformed(subject)
