"""Couplings: the facts that separate the two parts of a coupling layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Maps of the transformed entries given the kept ones; elementwise in the first three; see
# `Coupling`.
KINDS = ("affine", "additive", "elementwise", "joint")
# Named masks; see `named_mask`.
MASKS = ("alternating", "channels", "checkerboard")


@dataclass(frozen=True)
class Coupling:
    r"""A coupling $y_a = x_a$, $y_b = g(x_b; \theta(x_a))$, in either direction.

    ``kept``: the mask of a flattened event as the layer holds it, 1 for kept ($a$) and 0 for transformed
        entries ($b$);
    ``kind``: of $g$: "affine" $s x + t$, "additive" $x + t$, "elementwise" (an increasing map per entry,
        such as a spline), or "joint" (anything else);
    ``copied``: False if kept entries pass an unconditional elementwise map;
    ``conditioner``: dotted name of the module that returns $\theta$, or ""; ``masked``: whether it also
        returns parameters of kept entries, event by event along the first axis, to be dropped;
    ``log_scale``: documented bounds of $\log s$ of an affine coupling, or the name of a parameter whose
        largest entry bounds $|\log s|$.
    """

    kept: tuple[float, ...]
    kind: str = "joint"
    copied: bool = True
    conditioner: str = ""
    masked: bool = False
    log_scale: tuple[float, float] | str | None = None

    @property
    def zeros(self) -> Any:
        """Structural zeros of the Jacobian of a flattened event, ``(entries, entries)``: kept entries do
        not depend on transformed ones, and elementwise maps on no other entry. A joint map may mix the
        transformed entries.
        """
        kept = np.asarray(self.kept) == 1
        others = ~np.eye(len(kept), dtype=bool)
        found = kept[:, None] & (~kept[None] if self.copied else others)
        return found if self.kind == "joint" else found | (~kept[:, None] & ~kept[None] & others)


def named_mask(name: str, parity: int, shape: Sequence[int]) -> tuple[float, ...]:
    """A named mask of a flattened event (see `MASKS`); parity 1 swaps the two parts.

    "alternating": index even; "channels": the first half of the first axis; "checkerboard": i + j even for
    the last two axes.
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
