"""Masks of couplings: two parts, named patterns, and their relation to squeezes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from flowref.laws.common.outcomes import flags
from flowref.laws.coupling.parts import DINH, NICE, Masked, binary
from flowref.laws.coupling.structure import copying
from flowref.model import (
    ADVICE,
    AWAY,
    CONTRACT,
    EXACT,
    GIVEN,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Composite, Coupled

PATTERNS = f"{DINH}, section 3.4 and figure 3"
# Points that decide which entries a part of a composite keeps.
ENOUGH = 8


def kept_entries(flow: Coupled, batch: Batch) -> Array:
    """The entries that the map copies at all of many points, bool ``(*event)``. Raises
    `Unsupported` if that is unknown.
    """
    if len(batch.x) < ENOUGH:
        raise Undecidable("there are too few points to see which entries are kept")
    y = np.asarray(flow.forward(batch.x, batch.context).value)
    if y.shape != batch.x.shape:
        raise Unsupported("it changes the shape of an event")
    same = np.asarray((y == batch.x.astype(y.dtype)).all(0))
    if same.all():
        raise Undecidable("it copies every entry")
    return same  # possibly none, which is no named mask


@law(
    "coupling/masks[partition]",
    key="coupling/mask-partition",
    tolerance=EXACT,
    effort=1,
    scales=GIVEN,
    source=f"{DINH}, section 3.3; {NICE}",
)
def mask_partition(flow: Masked, batch: Batch) -> Residual:
    """A mask consists of zeros and ones, and neither the kept nor the transformed part is empty."""
    kept = flow.coupling.kept
    if not binary(flow):
        return flags(True, len(batch.x), "the mask holds other numbers than 0 and 1")
    note = "every entry is kept" if kept[0] else "no entry is kept"
    return flags(len(set(kept)) < 2, len(batch.x), note)


@law(
    "coupling/masks[alternating]",
    key="coupling/alternating-mask",
    force=CONTRACT,
    promise="alternating-mask",
    tolerance=EXACT,
    effort=1,
    scales=AWAY,
    applies=copying,
    source=NICE,
)
def alternating_mask(flow: Coupled, batch: Batch) -> Residual:
    """Of two neighboring entries of a vector one is kept and the other transformed."""
    mask = kept_entries(flow, batch).reshape(-1)
    return flags((mask[1:] == mask[:-1]).any(), len(batch.x), "two neighbors are in the same part")


@law(
    "coupling/masks[checkerboard]",
    key="coupling/checkerboard-mask",
    force=CONTRACT,
    promise="checkerboard-mask",
    tolerance=EXACT,
    effort=1,
    scales=AWAY,
    applies=copying,
    source=PATTERNS,
)
def checkerboard_mask(flow: Coupled, batch: Batch) -> Residual:
    """In every channel the kept entries are one color of a checkerboard, $i + j + p$ even:
    neighbors differ.
    """
    mask = np.atleast_2d(kept_entries(flow, batch))
    same = [
        bool((np.diff(mask.astype(int), axis=axis) == 0).any())
        for axis in (-2, -1)
        if mask.shape[axis] > 1
    ]
    return flags(
        any(same),
        len(batch.x),
        "two neighbors are in the same part: these are stripes, no checkerboard",
    )


@law(
    "coupling/masks[channels]",
    key="coupling/channel-mask",
    force=CONTRACT,
    promise="channel-mask",
    tolerance=EXACT,
    effort=1,
    scales=AWAY,
    applies=copying,
    source=PATTERNS,
)
def channel_mask(flow: Coupled, batch: Batch) -> Residual:
    """The kept entries are one half of the channels, the first or the last, at every position (for
    odd numbers, nearly half).
    """
    mask = kept_entries(flow, batch)
    rows = mask.reshape(len(mask), -1)
    channels = rows[:, 0]
    whole = bool((rows == channels[:, None]).all())
    changes = int((channels[1:] != channels[:-1]).sum())
    halves = abs(int(channels.sum()) - int((~channels).sum())) <= len(channels) % 2
    note = (
        "the positions of a channel are in different parts"
        if not whole
        else "the parts are no halves of the channels"
    )
    return flags(not (whole and changes == 1 and halves), len(batch.x), note)


@requires("no part of it is called a squeeze")
def has_squeeze(flow: Composite) -> bool:
    """A squeeze is among its parts."""
    return any("squeeze" in name.lower() for name in flow.parts)


def walked(flow: Composite, batch: Batch) -> Iterator[tuple[str, Array]]:
    """The squeezes and couplings among the parts, in order, each with the origin of each entry, or
    the mask of kept entries.
    """
    x = batch.x
    for part in flow.part_maps:
        y = np.asarray(part(x, batch.context).value)
        rows, after = x.reshape(len(x), -1), y.reshape(len(y), -1)
        if x.shape != y.shape:
            numbers = np.arange(rows.shape[1], dtype=np.float64).reshape(1, *x.shape[1:])
            context = None if batch.context is None else batch.context[:1]
            order = np.asarray(part(numbers, context).value).reshape(-1)
            if sorted(order.tolist()) != list(range(rows.shape[1])):
                raise Unsupported("a part of it changes the shape of an event and its entries")
            yield "squeeze", order.astype(int)
        elif rows.shape == after.shape:
            kept = np.asarray((rows == after).all(0))
            if kept.any() and not kept.all():
                yield "coupling", kept
        x = y


@law(
    "coupling/stack[squeeze]",
    key="coupling/nonredundant-masks",
    force=ADVICE,
    tolerance=EXACT,
    effort=2,
    scales=AWAY,
    applies=has_squeeze,
    source=f"{DINH}, section 3.6: channel masks after a squeeze are chosen so as not to repeat the checkerboard before it",
)
def nonredundant_masks(flow: Composite, batch: Batch) -> Residual:
    """The first mask after a squeeze divides the entries differently from the last mask before it."""
    if len(batch.x) < ENOUGH:
        raise Undecidable("there are too few points to see which entries are kept")
    before: Array | None = None
    carried: Array | None = None
    compared, repeated = 0, False
    for kind, entries in walked(flow, batch):
        if kind == "squeeze":
            last = before if carried is None else carried
            carried, before = (None if last is None else last[entries]), None
            continue
        if carried is not None:
            compared += 1
            repeated |= bool((entries == carried).all() or (entries != carried).all())
        before, carried = entries, None
    if not compared:
        raise Unsupported("no squeeze stands between two couplings")
    return flags(
        repeated,
        len(batch.x),
        "a mask after a squeeze divides the entries like the one before it",
    )
