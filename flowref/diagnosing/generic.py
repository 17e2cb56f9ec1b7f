"""Slips of numbers that a law compares with each other, whatever they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from flowref.checking.measurement import measure
from flowref.diagnosing.comparison import Comparison, compared
from flowref.diagnosing.scenes import Scene
from flowref.diagnosing.slips import (
    SIGN,
    ZERO,
    Slip,
    any_constant,
    first,
    named_factors,
    named_offsets,
    narrowed,
    whole_batch,
)
from flowref.model import Law

# Law -> two of the numbers that it observes: what was got, and what is right.
PAIRS = {
    "density/gaussian-constant": ("base log-density", "closed form"),
    "density/affine-oracle": ("log p(x)", "multivariate normal"),
    "density/log-prob-by-parts": ("log p(x)", "base + log-dets of the parts"),
    "density/beside-samples": ("log-density beside the sample", "log p(x)"),
    "density/bits-per-dim": ("bits per dimension", "expected"),
}


def of_pair(law: Law, scenes: Sequence[Scene]) -> str:
    """Which slip made the one of the other; empty where none explains it."""
    got, want = PAIRS[law.base]
    seen = [_compared(law, scene, got, want) for scene in scenes]
    found = first(seen, _slips(seen)) or narrowed(seen) or any_constant(seen)
    return f"{got} is {found}" if found else ""


def _compared(law: Law, scene: Scene, got: str, want: str) -> Comparison:
    residual = measure(law, scene.subject, scene.batch)
    usable = ~residual.silent
    one, other = (np.asarray(residual.observed[name], dtype=np.float64) for name in (got, want))
    return compared(scene.subject, one, other, usable, scene.cases)


def _slips(seen: Sequence[Comparison]) -> Iterator[Slip]:
    yield ZERO
    yield SIGN
    yield from named_factors(seen)
    yield from named_offsets(seen)
    yield from whole_batch()
