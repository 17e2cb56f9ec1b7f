"""Densities in the plane: values on a grid, and the integral by adaptive cells."""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowref.training import runs
from flowref.training.bounds import FEW, AnyFlow, DrawnFlow, log_density, seeded_layers

CHUNK = 60_000
SAMPLES = 100_000
# A cell is split while two rules differ by more than this, or while the density at a sample in it
# exceeds its mean so many times.
DISAGREEMENT, PEAK = 3e-7, 3.0
COARSEST, FINEST, EVALUATIONS = 6, 18, 2_000_000
# Points per cell of both rules together.
RULES = 4**2 + 2**2
Cells = NDArray[np.int64]
Values = NDArray[np.float64]


def is_solved(flow: AnyFlow) -> bool:
    """Whether each value of a flow is the solution of an ODE, which takes a thousand times a formula's."""
    return any(hasattr(part, "tolerance") for part in flow.modules())


@torch.no_grad()
def density(flow: AnyFlow, points: Tensor) -> Tensor:
    """The density ``(n,)`` at ``points`` ``(n, 2)``; an unbiased estimate if latents are drawn."""
    return torch.cat([log_density(flow, chunk).exp() for chunk in points.split(CHUNK)])


def on_grid(flow: AnyFlow, box: Tensor, cells: int) -> Tensor:
    """The density ``(cells, cells)`` at the cell midpoints of a grid over a box ``((left, bottom),
    (right, top))``, lowest row first.
    """
    midpoints = (torch.arange(cells, dtype=box.dtype) + 0.5) / cells
    x, y = (box[0, axis] + (box[1] - box[0])[axis] * midpoints for axis in (0, 1))
    points = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).reshape(-1, 2)
    return density(flow, points).reshape(cells, cells)


def displayed_density(values: Tensor) -> Tensor:
    """Densities for plots: non-finite ones, from overflow far from the data, become 0."""
    return values.nan_to_num(nan=0.0, posinf=0.0)


def box_of(points: Tensor, margin: float) -> Tensor:
    """The bounding box ``(2, 2)`` of ``points`` ``(n, 2)``, with a margin relative to its size on
    each side.
    """
    low, high = points.min(0).values, points.max(0).values
    return torch.stack((low - margin * (high - low), high + margin * (high - low)))


def plane_integral(flow: AnyFlow, evaluations: int = EVALUATIONS, count: int = SAMPLES) -> float:
    r"""$\int p(x)\,dx$ over the plane, in float64.

    A flow may send a little of its mass far away, along ridges thinner than any grid. The box is
    therefore that of many samples with a margin, and a cell is split in four where the midpoint
    rules of 2 by 2 and 4 by 4 points differ, or where the density at a sample is far above that at
    all these points, which then miss a ridge. Samples only choose the cells: the sum is over
    densities, at not many more than ``evaluations`` points. ``count``: number of samples. Noisy
    estimates of a density are summed over a fixed grid, since the two rules would differ in every
    cell.
    """
    exact = copy.deepcopy(flow).double().eval()
    samples = exact.sample(count, runs.seeded("integral"))
    samples = samples[samples.isfinite().all(1)]
    box = box_of(samples, 0.5)
    if isinstance(exact, DrawnFlow) and exact.lower_bound:
        side = int((evaluations / FEW) ** 0.5)
        with seeded_layers(exact, runs.seeded("integral", "latents")):
            return float(on_grid(exact, box, side).mean() * (box[1] - box[0]).prod())
    positions, peaks = (
        ((samples - box[0]) / (box[1] - box[0])).numpy(),
        density(exact, samples).numpy(),
    )
    coarsest = min(COARSEST, int(math.log(evaluations / RULES, 4)))
    cells: Cells = np.stack(np.meshgrid(*2 * [np.arange(2**coarsest)]), -1).reshape(-1, 2)
    total, spent = 0.0, 0
    for level in range(coarsest, FINEST + 1):
        fine, coarse = (rule(exact, box, cells, level, points) for points in (4, 2))
        spent += RULES * len(cells)
        area = float((box[1] - box[0]).prod()) / 4**level
        missed = highest(positions, peaks, cells, level) * area > PEAK * fine + DISAGREEMENT
        divided = (np.abs(fine - coarse) > DISAGREEMENT) | missed
        if level == FINEST or spent + 4 * RULES * divided.sum() > evaluations:
            divided[:] = False
        total += float(fine[~divided].sum())
        cells = (2 * cells[divided][:, None] + np.array([[0, 0], [0, 1], [1, 0], [1, 1]])).reshape(
            -1, 2
        )
        if not len(cells):
            break
    return total


def rule(flow: AnyFlow, box: Tensor, cells: Cells, level: int, points: int) -> Values:
    """The integrals ``(n,)`` over cells ``(n, 2)`` by the midpoint rule with ``points`` points per
    axis.
    """
    size = (box[1] - box[0]) / 2**level
    inside = (torch.arange(points, dtype=torch.float64) + 0.5) / points
    offsets = torch.stack(torch.meshgrid(inside, inside, indexing="ij"), -1).reshape(-1, 2)
    at = box[0] + size * (torch.as_tensor(cells)[:, None] + offsets)
    values = density(flow, at.reshape(-1, 2)).reshape(len(cells), -1).mean(1) * size.prod()
    array: Values = values.numpy()
    return array


def highest(positions: Values, peaks: Values, cells: Cells, level: int) -> Values:
    """The highest density at a sample in each cell, ``(n,)``, 0 in cells without samples;
    ``positions`` ``(m, 2)``: the samples, relative to the box.
    """
    inside = np.floor(positions * 2**level).astype(np.int64) @ [2**level, 1]
    order = inside.argsort(kind="stable")
    seen, first = np.unique(inside[order], return_index=True)
    tops = np.maximum.reduceat(peaks[order], first)
    wanted = cells @ [2**level, 1]
    at = np.searchsorted(seen, wanted).clip(max=len(seen) - 1)
    return np.where(seen[at] == wanted, tops[at], 0.0)
