"""Samples that know of each other, put into healthy subjects."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Subject, mutant

MAF = "zuko:MAF"
FIT = "reference:Flow[VectorRealNVP]"


def _mirrored(
    sample: Callable[..., Any], share: float, place: str, n: int, seed: int, context: Any = None
) -> Array:
    """The second of each pair of rows is the first one mirrored, by a share."""
    x = np.array(sample(n, seed, context))
    half = n // 2
    first, second = {
        "halves": (slice(0, half), slice(half, 2 * half)),
        "neighbors": (slice(0, 2 * half, 2), slice(1, 2 * half, 2)),
        "ends": (slice(0, half), slice(n - 1, n - half - 1, -1)),
    }[place]
    if half:
        middle = x.mean(0)
        rest = math.sqrt(1 - share**2)
        x[second] = middle - share * (x[first] - middle) + rest * (x[second] - middle)
    return x


@mutant("random/rows-independent", host=MAF, sizes=(0.5, 1.0))
def antithetic(subject: Subject, size: float = 1.0) -> Subject:
    """The second half of the rows mirrors the first."""
    return subject.with_call("sample", partial(_mirrored, subject.calls["sample"], size, "halves"))


@mutant("random/rows-independent", host=FIT, sizes=(0.5, 1.0))
def mirrored_neighbors(subject: Subject, size: float = 1.0) -> Subject:
    """Every second row mirrors the one before."""
    calls = subject.calls
    return subject.with_call("sample", partial(_mirrored, calls["sample"], size, "neighbors"))


@mutant("random/rows-independent", host=MAF)
def mirrored_ends(subject: Subject) -> Subject:
    """The last row mirrors the first, and so on inward."""
    return subject.with_call("sample", partial(_mirrored, subject.calls["sample"], 1.0, "ends"))
