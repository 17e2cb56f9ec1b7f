"""Known bugs of two numbers that a law compares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from flowref.checking.measurement import measure
from flowref.diagnosing.comparison import Comparison, array_comparison
from flowref.diagnosing.known_bugs import (
    SIGN,
    ZERO,
    KnownBug,
    found,
    named_factors,
    named_offsets,
    whole_batch,
)
from flowref.diagnosing.scenes import Scene
from flowref.model import Law

# Law -> names of two observed numbers: the reported and the expected one.
PAIRS = {
    "density/base-constant": ("base log-density", "closed form"),
    "density/change-of-variables[parts]": ("log p(x)", "base + log-dets of the parts"),
    "density/change-of-variables[samples]": ("log-density beside the sample", "log p(x)"),
    "density/units[bits-per-dim]": ("bits per dimension", "expected"),
}


def of_pair(law: Law, scenes: Sequence[Scene]) -> str:
    """Return the known bug between the two observed numbers of a law, as text; empty if none
    explains it.
    """
    got, want = PAIRS[law.base]
    seen = [_compared(law, scene, got, want) for scene in scenes]
    what = found(seen, _known_bugs(seen))
    return f"{got} is {what}" if what else ""


def _compared(law: Law, scene: Scene, got: str, want: str) -> Comparison:
    residual = measure(law, scene.subject, scene.batch)
    usable = ~residual.silent
    one, other = (np.asarray(residual.observed[name], dtype=np.float64) for name in (got, want))
    return array_comparison(scene.subject, one, other, usable, scene.cases)


def _known_bugs(seen: Sequence[Comparison]) -> Iterator[KnownBug]:
    yield from (ZERO, SIGN)
    yield from chain(named_factors(seen), named_offsets(seen), whole_batch())
