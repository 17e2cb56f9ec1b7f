"""Ordinary differential equations by the Dormand-Prince pair, with steps chosen for a whole batch,
and integrals along their solutions by Clenshaw-Curtis quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from flowref.reference.residual import NotConverged

Rate = Callable[[Tensor, Tensor], Tensor]
# The maximal number of attempted steps, and of intervals between quadrature nodes.
MOST = 2048
# The minimal number of steps; the initial number of intervals between nodes.
FIRST, FEWEST = 2, 6
# The order of the error estimate; a safety factor for the next step, and the smallest and largest
# factor by which steps change.
ORDER, SAFETY, SHORTER, LONGER = 4, 0.9, 0.2, 5.0
# Dormand and Prince 1980: times of the stages in units of a step, and weights of the rates before
# each; the last stage is the state after the step, of order five.
TIMES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
AFTER = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0)
STAGES: tuple[tuple[float, ...], ...] = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    AFTER[:-1],
)
# Weights of the difference between the states of order four and five, the error estimate.
OFF = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
# Shampine's weights of the quartic interpolant (Hairer, Norsett and Wanner, II.6).
BEND = (
    -12715105075 / 11282082432, 0.0, 87487479700 / 32700410799, -10690763975 / 1880347072,
    701980252875 / 199316789632, -1453857185 / 822651844, 69997945 / 29380423,
)  # fmt: skip


class SolverStep(NamedTuple):
    """A step: its time and length, the state before and after it, and the rates at its seven
    stages.
    """

    start: float
    length: float
    before: Tensor
    after: Tensor
    rates: Sequence[Tensor]

    def at(self, time: float) -> Tensor:
        r"""The state at a time within the step, of order four.

        With $\theta = (t - t_0) / h$ and $d = z_1 - z_0$: $z_0 + \theta\,(d + (1 - \theta)\,(b +
        \theta\,(e + (1 - \theta)\,r)))$, where $b = h k_1 - d$ and $e = d - h k_7 - b$ match the
        slopes at both ends, and $r = h \sum_i d_i k_i$.
        """
        theta = (time - self.start) / self.length
        rest = 1 - theta
        weights = [
            theta * d
            + theta * rest * (first - d)
            + theta**2 * rest * (2 * d - first - last)
            + (theta * rest) ** 2 * bend
            for d, first, last, bend in zip(AFTER, (1, *[0] * 6), (*[0] * 6, 1), BEND, strict=True)
        ]
        return weighted_step(self.before, self.length, weights, self.rates)


def weighted_step(
    state: Tensor, h: float, weights: Sequence[float], rates: Sequence[Tensor]
) -> Tensor:
    r"""$s + h \sum_i w_i k_i$."""
    for weight, rate in zip(weights, rates, strict=True):
        if weight:
            state = state.add(rate, alpha=h * weight)
    return state


def one_step(rate: Rate, state: Tensor, slope: Tensor, start: float, h: float) -> SolverStep:
    """One step from a state with rate of change ``slope``; the last of its rates is that of the
    new state.
    """
    rates = [slope]
    for time, weights in zip(TIMES, STAGES, strict=True):
        after = weighted_step(state, h, weights, rates)
        rates.append(rate(state.new_full((), start + time * h), after))
    return SolverStep(start, h, state, after, rates)


def runge_kutta_steps(
    rate: Rate, state: Tensor, start: float, end: float, tolerance: float, most: int = MOST
) -> Iterator[SolverStep]:
    r"""Steps from time ``start`` to ``end``, which may be earlier.

    The error of a step is the difference of its results of order four and five; the latter is
    used. A step of length h is accepted if the error of each row, relative to 1 and the size of its
    state, is at most the tolerance times $h / |T_1 - T_0|$, so that the errors of all steps add up to the
    tolerance. The next step is $0.9\,(\text{allowed} / \text{error})^{1/4}$ times as long. The first
    attempt is half of the interval, and none is longer. Steps are chosen for the batch: rows depend on
    each other within the tolerance. Derivatives treat the chosen steps as constants.

    ``rate``: maps a time, a scalar tensor, and a state `(N, S)` to the rate of change `(N, S)`.
    Raises: `NotConverged` after ``most`` attempted steps.
    Source: Dormand and Prince 1980, A family of embedded Runge-Kutta formulae; Hairer, Norsett and Wanner
    1993, Solving Ordinary Differential Equations I, sections II.4 to II.6.
    """
    if start == end:
        return
    eps = torch.finfo(state.dtype).eps
    enough = max(tolerance, 32 * eps)
    # NaN in, NaN out: more steps would not change that.
    known = state.detach().isfinite().all(1)
    time, h, slope = start, (end - start) / FIRST, rate(state.new_full((), start), state)
    for _ in range(most):
        # As many equal steps as are needed to the end: none of them is much shorter.
        rest = end - time
        left = math.ceil(max(rest / h, FIRST * rest / (end - start)) - 1e-9)
        h = rest / left
        step = one_step(rate, state, slope, time, h)
        # Shorter steps do not reduce rounding.
        allowed = max(enough * abs(h / (end - start)), eps)
        off = _error(step, known) / allowed
        if off <= 1:
            yield step
            if left == 1:
                return
            time, state, slope = time + h, step.after, step.rates[-1]
        # After an overflow, whose error is NaN, the next step is the shortest allowed.
        h *= min(LONGER, max(SHORTER, SAFETY * max(off, 1e-9) ** (-1 / ORDER)))
    raise NotConverged(
        f"{most} steps from {start:g} to {end:g} come to {time:g}, where one of {step.length:.3g} leaves an "
        f"error of {off * allowed:.3g}; expected {allowed:.3g} relative to 1: the field is too steep, or no "
        "smooth function"
    )


@torch.no_grad()
def _error(step: SolverStep, known: Tensor) -> float:
    """The largest error of a row relative to 1 and the size of its state; the only synchronization
    with the host per step.
    """
    if len(known) == 0:
        return 0.0
    off = weighted_step(torch.zeros_like(step.before), step.length, OFF, step.rates).abs().amax(1)
    size = 1 + torch.maximum(step.before.abs(), step.after.abs()).amax(1)
    return float(torch.where(known, off / size, 0.0).max())


def solve(
    rate: Rate, state: Tensor, start: float, end: float, tolerance: float, most: int = MOST
) -> Tensor:
    """The state `(N, S)` at time ``end`` (see `runge_kutta_steps`)."""
    for step in runge_kutta_steps(rate, state, start, end, tolerance, most):
        state = step.after
    return state


def state_at_time(path: Sequence[SolverStep], time: float) -> Tensor:
    """The state `(N, S)` at a time within the path."""
    ahead = (step for step in path if (step.start + step.length - time) * step.length >= 0)
    return next(ahead, path[-1]).at(time)


def path_integral(
    value: Callable[[float], Tensor],
    path: Sequence[SolverStep],
    tolerance: float,
    size: float = 1.0,
    most: int = MOST,
) -> Tensor:
    r"""The integral `(N,)` of values `(N,)` over the time of a path, by Clenshaw-Curtis quadrature
    with nodes $\frac{a + b}{2} - \frac{b - a}{2} \cos \frac{j \pi}{n}$, $j = 0, \dots, n$.

    n is 6 at first and doubled, which reuses all nodes, until there is an interval for every step and the
    error is within the tolerance, relative to ``size`` and the size of the integral. Every second, third
    and sixth node form coarser rules, whose results differ from the finest by at most $e_2$, $e_3$ and
    $e_6$ in any row. With q the larger of $e_2 / e_3$ and $e_3 / e_6$ the error is estimated as
    $q / (1 - q)$ times the larger of $e_2$ and $e_3^2 / e_6$, so that a single difference that is small by
    chance does not end it; if q is a half or more, as the latter. For values that are smooth in time the
    error is far smaller.
    Raises: `NotConverged` for more than ``most`` intervals between nodes.
    Source: Clenshaw and Curtis 1960, A method for numerical integration on an automatic computer; Trefethen
    2008, Is Gauss quadrature better than Clenshaw-Curtis?
    """
    start, length = path[0].start, path[-1].start + path[-1].length - path[0].start

    def node(j: int, n: int) -> Tensor:
        return value(start + length * (1 - math.cos(math.pi * j / n)) / 2)

    n = FEWEST
    values = [node(j, n) for j in range(n + 1)]
    while True:
        found, *coarse = (_weighted(values[::stride], length) for stride in (1, 2, 3, 6))
        error = _error_of_rule(found, coarse, size)
        enough = max(tolerance, 32 * torch.finfo(found.dtype).eps)
        if n >= len(path) and bool(error <= enough):
            return found
        if 2 * n > most:
            raise NotConverged(
                f"{n} intervals between nodes from {start:g} to {start + length:g} leave an error of "
                f"{float(error):.3g}; expected {enough:.3g} relative to {size:g}: the divergence is too steep, or "
                "no smooth function of time"
            )
        n *= 2
        between = [node(j, n) for j in range(1, n, 2)]
        values = [*chain.from_iterable(zip(values, between, strict=False)), values[-1]]


@torch.no_grad()
def _error_of_rule(found: Tensor, coarse: Sequence[Tensor], size: float) -> Tensor:
    """The estimated relative error, from the rules of every second, third and sixth node."""
    # NaN stays NaN for every number of nodes, and the ratio 0 / 0 counts as 0.
    off = ((torch.stack(list(coarse)) - found).abs() / (size + found.abs())).nan_to_num(0.0)
    second, third, sixth = torch.cat((off, off.new_zeros(3, 1)), 1).amax(1)
    later, earlier = (second / third).nan_to_num(0.0), (third / sixth).nan_to_num(0.0)
    change, factor = second.maximum(third * earlier), later.maximum(earlier)
    return torch.where(factor < 0.5, change * factor / (1 - factor), change)


def _weighted(values: Sequence[Tensor], length: float) -> Tensor:
    return weighted_step(torch.zeros_like(values[0]), length, weights(len(values) - 1), values)


@cache
def weights(n: int) -> tuple[float, ...]:
    r"""The weights of the n + 1 Clenshaw-Curtis nodes on an interval of length 1: $\frac{c_j}{2n}
    \bigl(1 - \sum_{k=1}^{n/2} \frac{b_k}{4 k^2 - 1} \cos \frac{2 j k \pi}{n}\bigr)$, where c is
    1 at both ends and 2 between them, and b is 1 for k = n / 2 and 2 before it.
    """
    return tuple(
        (1 if j in (0, n) else 2)
        / (2 * n)
        * (
            1
            - sum(
                (1 if 2 * k == n else 2) / (4 * k * k - 1) * math.cos(2 * j * k * math.pi / n)
                for k in range(1, n // 2 + 1)
            )
        )
        for j in range(n + 1)
    )
