r"""Ordinary differential equations by the classical Runge-Kutta method of order four, with steps that are
halved until each row has converged.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from flowref.reference.residual import NotConverged

Rate = Callable[[Tensor, Tensor], Tensor]
# How many steps are made at first, and at most.
FIRST, MOST = 4, 2048
ORDER = 4


def runge_kutta(rate: Rate, state: Tensor, start: float, end: float, steps: int) -> Tensor:
    r"""The state at the end, by equal steps h of
    $s \leftarrow s + \frac h6 (k_1 + 2k_2 + 2k_3 + k_4)$; end before start goes back in time.

    ``rate``: maps a time, a tensor of one number, and a state `(N, S)` to the rate of change.
    """
    h = (end - start) / steps
    for step in range(steps):
        t = state.new_tensor(start + step * h)
        k1 = rate(t, state)
        k2 = rate(t + h / 2, state + h / 2 * k1)
        k3 = rate(t + h / 2, state + h / 2 * k2)
        k4 = rate(t + h, state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state


def solve(
    rate: Rate, state: Tensor, start: float, end: float, tolerance: float, most: int = MOST
) -> Tensor:
    r"""The state at the end to within a tolerance, beside 1 and the size of the state.

    Steps are halved. A fifteenth, $1 / (2^4 - 1)$, of the difference of two results is the error of the
    finer one, and is added to it (Richardson's extrapolation). A row has converged where that error, or
    a fifteenth of the difference of two such sums, is within the tolerance; then it is left as it is,
    so that rows do not depend on each other.
    Raises: `NotConverged` where so many steps do not suffice.
    """
    steps, coarse = FIRST, runge_kutta(rate, state, start, end, FIRST)
    if len(state) == 0:
        return coarse
    found, done = coarse, torch.zeros(len(state), dtype=torch.bool, device=state.device)
    enough = max(tolerance, 32 * torch.finfo(state.dtype).eps)
    while steps < most:
        steps *= 2
        fine = runge_kutta(rate, state, start, end, steps)
        rest = (fine - coarse) / (2**ORDER - 1)
        better = torch.where(done[:, None], found, fine + rest)
        size = 1 + fine.detach().abs().amax(1)
        off = rest.detach().abs().amax(1)
        if steps > 2 * FIRST:  # what was found before is such a sum, too
            off = off.minimum((better - found).detach().abs().amax(1) / (2**ORDER - 1))
        found = better
        # NaN in, NaN out: no number of steps changes that.
        done = done | (off <= enough * size) | ~state.isfinite().all(1)
        if bool(done.all()):
            return found
        coarse = fine
    raise NotConverged(
        f"{most} steps from {start:g} to {end:g} leave an error of {float(off.max()):.3g}; expected "
        f"{enough:.3g} beside 1: the field is too steep, or no smooth function"
    )
