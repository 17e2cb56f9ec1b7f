"""Couplings: what must be known of a coupling layer before its two parts can be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# What the transformed entries go through, given the kept ones: each its own map, in the first
# three; see `Coupling`.
KINDS = ("affine", "additive", "elementwise", "joint")
# Masks that have a name; see `named_mask`.
MASKS = ("alternating", "channels", "checkerboard")


@dataclass(frozen=True)
class Coupling:
    r"""What is known of a coupling: $y_a = x_a$ and $y_b = g(x_b; \theta(x_a))$, in either
    direction.

    ``kept``: the mask of a flattened event, 1 where an entry is kept ($a$) and 0 where it is
    transformed ($b$); as the layer has it, so that a mask of other numbers is seen. ``kind``: of
    $g$, "affine" $s x + t$, "additive" $x + t$, "elementwise" (each entry by its own increasing
    map, such as a spline), or "joint" (anything else). ``copied``: False where kept entries pass an
    elementwise map of their own, which nothing conditions.
    ``conditioner``: the dotted name of the module that gives $\theta$, or ""; ``masked``: whether
    it gives parameters for kept entries as well, event by event along the first axis, which are to
    be dropped.
    ``log_scale``: the documented bounds of $\log s$ of an affine coupling; a name instead is that
    of a parameter of which the largest entry bounds $|\log s|$.
    """

    kept: tuple[float, ...]
    kind: str = "joint"
    copied: bool = True
    conditioner: str = ""
    masked: bool = False
    log_scale: tuple[float, float] | str | None = None

    @property
    def zeros(self) -> Any:
        """Of the Jacobian of a flattened event, ``(entries, entries)``: what is copied depends on nothing that is transformed,
        and what passes a map of its own on no other entry. A joint map may mix what it transforms.
        """
        kept = np.asarray(self.kept) == 1
        others = ~np.eye(len(kept), dtype=bool)
        found = kept[:, None] & (~kept[None] if self.copied else others)
        return found if self.kind == "joint" else found | (~kept[:, None] & ~kept[None] & others)


def named_mask(name: str, parity: int, shape: Sequence[int]) -> tuple[float, ...]:
    """The mask of a flattened event that a name stands for (see `MASKS`); the other parity swaps
    the two parts.

    "alternating": index even; "channels": the first half of the first axis; "checkerboard": i + j
    even for the last two axes.
    """
    inner = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        inner[axis] = inner[axis + 1] * shape[axis + 1]
    kept = []
    for index in range(inner[0] * shape[0]):
        coordinates = [index // step % size for step, size in zip(inner, shape, strict=True)]
        if name == "checkerboard":
            first = sum(coordinates[-2:]) % 2 == 0
        elif name == "channels":
            first = coordinates[0] < shape[0] // 2
        else:
            first = index % 2 == 0
        kept.append(float(first == (parity % 2 == 0)))
    return tuple(kept)
