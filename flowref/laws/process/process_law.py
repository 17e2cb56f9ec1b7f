"""What laws of noise processes have in common: times, and derivatives in time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from flowref.laws.common.quotients import DOUBT, STEPS_DOWN, quotient
from flowref.model import BOUND, GIVEN, Array, Batch, law

# A process is measured once, as it is built, at times of the law's own.
process_law = partial(law, tolerance=BOUND, local=False, scales=GIVEN, effort=1, size=1)
# Shares of time at which a process is asked, how many, and how many entries its points have.
INSIDE, TIMES, ENTRIES = (0.1, 0.9), 16, 4
# What is left to single precision, in which schedules are often kept: relative to the largest number of a row.
SINGLE = 2.0**-17
# What a derivative in time may be off, relatively.
ROUGH = 1e-5


def shares(batch: Batch) -> Array:
    """Shares of time, ``(times,)``."""
    return np.random.default_rng(batch.seed).uniform(*INSIDE, TIMES)


class Compared(NamedTuple):
    """A slope in time and what it is claimed to be, how far they are apart as a multiple of what they may be (0
    where it is not known), and where it is known; each ``(times,)``.
    """

    slope: Array
    claim: Array
    off: Array
    known: Array


def slope_compared(
    measure: Callable[[Array], Array], times: Array, span: Array, claim: Array
) -> Compared:
    """The derivative of ``measure``, a function of shares of time, in time, of which a share one is ``span``."""
    with np.errstate(all="ignore"):
        found = quotient(measure, times, np.ones(len(times)), None)
        size = 1 + span * np.abs(claim)
        allowed = DOUBT * (found.error + 2.0**-47 * size / STEPS_DOWN[-1]) + ROUGH * size
        off = np.abs(found.slope - span * claim) / allowed
    known = found.smooth & np.isfinite(off) & (DOUBT * found.error < 1e-3 * size)
    return Compared(found.slope / span, claim, np.where(known, off, 0.0), known)
