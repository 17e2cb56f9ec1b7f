"""The plane: densities on a grid, and the integral of a density by cells that are halved where it
matters.
"""

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
# A cell is divided while two rules disagree by more than this, or while the density at a sample in
# it is so many times its mean.
DISAGREEMENT, PEAK = 3e-7, 3.0
COARSEST, FINEST, EVALUATIONS = 6, 18, 2_000_000
# The points of both rules in a cell.
RULES = 4**2 + 2**2
Cells = NDArray[np.int64]
Values = NDArray[np.float64]


@torch.no_grad()
def density(flow: AnyFlow, points: Tensor) -> Tensor:
    """The density at each point; an estimate without bias where latents are drawn."""
    return torch.cat([log_density(flow, chunk).exp() for chunk in points.split(CHUNK)])


def on_grid(flow: AnyFlow, box: Tensor, cells: int) -> Tensor:
    """The density at the middle of each cell of a grid over a box
    ``((left, bottom), (right, top))``, the lowest row first.
    """
    midpoints = (torch.arange(cells, dtype=box.dtype) + 0.5) / cells
    x, y = (box[0, axis] + (box[1] - box[0])[axis] * midpoints for axis in (0, 1))
    points = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).reshape(-1, 2)
    return density(flow, points).reshape(cells, cells)


def displayed_density(values: Tensor) -> Tensor:
    """Densities as pictures show them: far from the data, where a flow may overflow, no number is 0."""
    return values.nan_to_num(nan=0.0, posinf=0.0)


def box_of(points: Tensor, margin: float) -> Tensor:
    """The box that holds points, with a margin on each side in parts of its width."""
    low, high = points.min(0).values, points.max(0).values
    return torch.stack((low - margin * (high - low), high + margin * (high - low)))


def plane_integral(flow: AnyFlow, evaluations: int = EVALUATIONS, count: int = SAMPLES) -> float:
    r"""$\int p(x)\,dx$ over the plane, in float64.

    A flow may send a little of its mass far away, along ridges thinner than any grid. The box is
    therefore that of many samples with a margin, and its cells are divided in four where the
    midpoint rules of 2 by 2 and of 4 by 4 points disagree, and where the density at a sample is far
    above that of all these points, which then lie beside a ridge. Samples only say where to look:
    what is summed is the density, on cells at not many more than ``evaluations`` points. ``count``:
    how many samples. Estimates of a density are added up over a grid: cells of which two rules
    disagree would be all.
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
    """The integral over each cell by the midpoint rule with so many points along each axis."""
    size = (box[1] - box[0]) / 2**level
    inside = (torch.arange(points, dtype=torch.float64) + 0.5) / points
    offsets = torch.stack(torch.meshgrid(inside, inside, indexing="ij"), -1).reshape(-1, 2)
    at = box[0] + size * (torch.as_tensor(cells)[:, None] + offsets)
    values = density(flow, at.reshape(-1, 2)).reshape(len(cells), -1).mean(1) * size.prod()
    array: Values = values.numpy()
    return array


def highest(positions: Values, peaks: Values, cells: Cells, level: int) -> Values:
    """The highest density at a sample in each cell, given where the samples are in parts of the
    box; 0 where there are none.
    """
    inside = np.floor(positions * 2**level).astype(np.int64) @ [2**level, 1]
    order = inside.argsort(kind="stable")
    seen, first = np.unique(inside[order], return_index=True)
    tops = np.maximum.reduceat(peaks[order], first)
    wanted = cells @ [2**level, 1]
    at = np.searchsorted(seen, wanted).clip(max=len(seen) - 1)
    return np.where(seen[at] == wanted, tops[at], 0.0)
