"""Log-dets of unstructured Jacobians with more than a thousand rows: computed entry by entry at
one point, if the budget allows it.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.common.structure import StructuredLogDet, pivots
from flowref.model import Array, Stage
from flowref.model.budget import current_budget, too_large, too_long
from flowref.model.cost import ENTRY, PRODUCT

# The share of the remaining work that one Jacobian may take (a violation needs three or more), and
# the number of copies of the matrix held at one time.
SHARE, COPIES = 0.25, 5
# Products of an elimination and of solving, divided by the cube of the size.
ELIMINATIONS = 0.7
# Units of rounding up to which entries are known by code that was not randomly rounded; fewer in
# single precision.
ROUNDED, ROUNDED_SINGLE = 1e4, 16.0
# Random right-hand sides that estimate the size of an inverse, and the accuracy that solutions
# need.
SIDES, SOLVED = 8, 1e-6


def needed(stage: Stage) -> tuple[float, float]:
    """The bytes and the work of the Jacobian of a stage at one point."""
    size = stage.x.shape[1]
    elimination = ELIMINATIONS * size**3 * PRODUCT + COPIES * size**2 * ENTRY
    return 8.0 * COPIES * size**2, size * stage.work() + elimination


def entrywise_refusal(stage: Stage) -> str:
    """The reason why the Jacobian of a stage is not computed entry by entry; empty if it is."""
    size = stage.x.shape[1]
    memory, work = needed(stage)
    if size != stage.y.shape[1]:
        return "it is no square matrix"
    if memory > current_budget().memory:
        return f"entry by entry it {too_large(memory)}"
    if work > SHARE * current_budget().left:
        return f"entry by entry it {too_long(work / SHARE)}"
    return ""


def entry_by_entry(stage: Stage) -> StructuredLogDet | None:
    """The log-det of the Jacobian at the first point. None if it is nearly singular; `Unsupported`
    for the reason in `entrywise_refusal`.
    """
    memory, work = needed(stage)
    current_budget().ask("a Jacobian entry by entry", memory, work)
    size = stage.x.shape[1]
    matrix = stage.pull(np.eye(size)[None])[0]
    if not np.isfinite(matrix).all():
        return None
    diagonal = pivots(matrix)
    unit = float(np.finfo(matrix.dtype).eps) / 2
    rounded = unit * (ROUNDED if matrix.dtype == np.float64 else ROUNDED_SINGLE)
    if diagonal is not None:
        logs = np.log(np.abs(diagonal))
        error = rounded * float((1 + np.abs(logs)).sum())
        return StructuredLogDet(
            np.array([logs.sum()]), np.array([error]), np.isfinite([error]), "triangular"
        )
    found = eliminated(matrix.astype(np.float64), rounded)
    if found is None:
        return None
    return StructuredLogDet(
        np.array([found[0]]), np.array([found[1]]), np.array([True]), "entry by entry"
    )


def eliminated(matrix: Array, rounded: float) -> tuple[float, float] | None:
    r"""$\log|\det J|$ of a large ``(d, d)`` matrix with entries of relative error ``rounded``, and
    its error; None if it is nearly singular.

    The derivative of the log-det is the inverse: its error is at most the relative error of the
    entries and of the elimination times $\|J\|_F \|J^{-1}\|_F$, the latter estimated from random
    right-hand sides.
    """
    size = len(matrix)
    log_det = float(np.linalg.slogdet(matrix)[1])
    if not np.isfinite(log_det):
        return None
    sides = np.random.default_rng(7).choice((-1.0, 1.0), (size, SIDES))
    solved = np.linalg.solve(matrix, sides)
    if not (np.abs(matrix @ solved - sides) < SOLVED).all():
        return None
    inverse = 2 * np.sqrt((solved**2).sum(0).mean())
    share = rounded + size * np.finfo(np.float64).eps
    return log_det, float(share * np.linalg.norm(matrix) * inverse)
