"""The sizes of flows of vectors, whatever they are written in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """A stack of couplings of halves: the shape of an event, how many couplings, their hidden
    widths, and the batch.
    """

    event: tuple[int, ...]
    depth: int
    hidden: tuple[int, ...]
    batch: int


VECTORS = {
    "small": Architecture((8,), 4, (32, 32), 64),
    "medium": Architecture((16,), 8, (64, 64), 1024),
    "large": Architecture((64,), 8, (256, 256), 2048),
}
