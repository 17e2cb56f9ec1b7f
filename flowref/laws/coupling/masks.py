"""The masks of couplings: two parts, the patterns that have names, and what a squeeze makes of
them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from flowref.laws.common.outcomes import flags
from flowref.laws.coupling.parts import DINH, NICE, binary, spec
from flowref.laws.coupling.structure import copies
from flowref.model import (
    ADVICE,
    CONTRACT,
    EXACT,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    law,
)
from flowref.model.abilities import Composite, Coupled, Flow

PATTERNS = f"{DINH}, section 3.4 and figure 3"
# So many points tell which entries a part of a composite leaves as they are.
ENOUGH = 8


def held(flow: Flow, batch: Batch) -> Array:
    """Which entries the map itself leaves as they are at all of many points, in the shape of an
    event.
    """

    if len(batch.x) < ENOUGH:
        raise Undecidable("there are too few points to see which entries are kept")
    y = np.asarray(flow.forward(batch.x, batch.context).value)
    if y.shape != batch.x.shape:
        raise Unsupported("it changes the shape of an event")
    same = np.asarray((y == batch.x.astype(y.dtype)).all(0))
    if same.all() or not same.any():
        raise Undecidable("it copies every entry, or none")
    return same


@law(
    "coupling/mask-partition",
    tolerance=EXACT,
    effort=1,
    scales=(0.0,),
    source=f"{DINH}, section 3.3; {NICE}",
)
def mask_partition(flow: Coupled, batch: Batch) -> Residual:
    """A mask consists of zeros and ones, and neither the part that is kept nor the part that is
    transformed is empty.
    """
    known = spec(flow)
    if not binary(flow):
        return flags(True, len(batch.x), "the mask holds other numbers than 0 and 1")
    empty = len(set(known.kept)) < 2
    return flags(
        empty, len(batch.x), "every entry is kept" if known.kept[0] else "no entry is kept"
    )


@law(
    "coupling/alternating-mask",
    force=CONTRACT,
    promise="alternating-mask",
    tolerance=EXACT,
    effort=1,
    scales=(0.3,),
    applies=copies,
    source=NICE,
)
def alternating_mask(flow: Coupled, batch: Batch) -> Residual:
    """Of two neighboring entries of a vector one is kept and the other transformed."""
    mask = held(flow, batch).reshape(-1)
    return flags((mask[1:] == mask[:-1]).any(), len(batch.x), "two neighbors are in the same part")


@law(
    "coupling/checkerboard-mask",
    force=CONTRACT,
    promise="checkerboard-mask",
    tolerance=EXACT,
    effort=1,
    scales=(0.3,),
    applies=copies,
    source=PATTERNS,
)
def checkerboard_mask(flow: Coupled, batch: Batch) -> Residual:
    r"""In every channel the kept entries are one color of a checkerboard, $i + j + p$ even:
    neighbors differ.
    """
    mask = np.atleast_2d(held(flow, batch))
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
    "coupling/channel-mask",
    force=CONTRACT,
    promise="channel-mask",
    tolerance=EXACT,
    effort=1,
    scales=(0.3,),
    applies=copies,
    source=PATTERNS,
)
def channel_mask(flow: Coupled, batch: Batch) -> Residual:
    """The kept entries are one half of the channels, the first or the last, at every position (of
    odd numbers, nearly half).
    """
    mask = held(flow, batch)
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


def squeezed(flow: Flow) -> str | None:
    """A composite with a squeeze among its parts."""
    if not any("squeeze" in name.lower() for name in flow.parts):
        return "no part of it is called a squeeze"
    return None


def walked(flow: Flow, batch: Batch) -> Iterator[tuple[str, Array]]:
    """The squeezes and couplings among the parts, in order: where each entry comes from, and which
    entries are kept.
    """
    x = batch.x
    for part in flow.part_maps:
        y = np.asarray(part(x, batch.context).value)
        rows, after = x.reshape(len(x), -1), y.reshape(len(y), -1)
        if x.shape != y.shape:
            places = np.arange(rows.shape[1], dtype=np.float64).reshape(1, *x.shape[1:])
            context = None if batch.context is None else batch.context[:1]
            order = np.asarray(part(places, context).value).reshape(-1)
            if sorted(order.tolist()) != list(range(rows.shape[1])):
                raise Unsupported("a part of it changes the shape of an event and its entries")
            yield "squeeze", order.astype(int)
        elif rows.shape == after.shape:
            kept = np.asarray((rows == after).all(0))
            if kept.any() and not kept.all():
                yield "coupling", kept
        x = y


@law(
    "coupling/nonredundant-masks",
    force=ADVICE,
    tolerance=EXACT,
    effort=2,
    scales=(0.3, 1.0),
    applies=squeezed,
    source=f"{DINH}, section 3.6: channel masks after a squeeze are chosen so as not to repeat the checkerboard before it",
)
def nonredundant_masks(flow: Composite, batch: Batch) -> Residual:
    """The first mask after a squeeze divides the entries otherwise than the last mask before it."""
    if len(batch.x) < ENOUGH:
        raise Undecidable("there are too few points to see which entries are kept")
    before: Array | None = None
    carried: Array | None = None
    compared, repeated = 0, False
    for kind, found in walked(flow, batch):
        if kind == "squeeze":
            last = before if carried is None else carried
            carried, before = (None if last is None else last[found]), None
            continue
        if carried is not None:
            compared += 1
            repeated |= bool((found == carried).all() or (found != carried).all())
        before, carried = found, None
    if not compared:
        raise Unsupported("no squeeze stands between two couplings")
    return flags(
        repeated,
        len(batch.x),
        "a mask after a squeeze divides the entries as the one before it did",
    )
