"""OT-Flow: a continuous flow along the gradient of a potential whose Hessian trace has a closed
form, with the transport costs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from flowref.reference.continuous import CNF
from flowref.reference.solver import MOST, solve


class Slopes(NamedTuple):
    """Derivatives of a potential: in time `(N,)`, its gradient in space `(N, D)` and the trace of
    its Hessian in space `(N,)`.
    """

    time: Tensor
    space: Tensor
    laplacian: Tensor


class Potential(nn.Module):
    r"""$\Phi(s) = w^T N(s) + \tfrac12 s^T A^T A\,s + b^T s$ of $s = (x, t)$, with
    $u_0 = \sigma(K_0 s + b_0)$, $N(s) = u_0 + h\,\sigma(K_1 u_0 + b_1)$, $h = 1$ and
    $\sigma(a) = \log(e^a + e^{-a})$, of which the derivative is tanh.

    A has r rows at most: $\min(10, D + 1)$ by default.
    Shapes: a time without axes, x `(N, features)`; $\Phi$ `(N,)`.
    Source: Onken et al. 2021, OT-Flow (arXiv:2006.00104).
    """

    def __init__(self, features: int, hidden: int = 32, rank: int | None = None) -> None:
        super().__init__()
        size = features + 1
        self.features = features
        self.first, self.second = nn.Linear(size, hidden), nn.Linear(hidden, hidden)
        self.w = nn.Parameter(torch.ones(hidden))
        self.A = nn.Parameter(
            torch.randn(min(10, size) if rank is None else rank, size) / math.sqrt(size)
        )
        self.b = nn.Parameter(torch.zeros(size))

    def forward(self, t: Tensor, x: Tensor) -> Tensor:
        """The potential of each row, `(N,)`."""
        s = self._joined(t, x)
        u = log_cosh(self.first(s))
        layers = (u + log_cosh(self.second(u))) @ self.w
        return layers + 0.5 * linear(s, self.A).square().sum(1) + s @ self.b

    def gradient(self, t: Tensor, x: Tensor) -> Tensor:
        """The gradient `(N, D + 1)` in space and time, without the Laplacian."""
        return self._backwards(t, x)[0]

    def slopes(self, t: Tensor, x: Tensor) -> Slopes:
        r"""Gradient and Laplacian, in closed form instead of by autodiff.

        With $a_0 = K_0 s + b_0$, $a_1 = K_1 u_0 + b_1$ and $z_1 = w + K_1^T (\tanh(a_1) \odot w)$:
        $\nabla \Phi = K_0^T (\tanh(a_0) \odot z_1) + A^T A s + b$, and over columns of space, with
        $J = \mathrm{diag}(\tanh a_0) K_0$,
        $\Delta_x \Phi = \sum_i \mathrm{sech}^2(a_0)_i z_{1,i} \|K_{0,i}\|^2
        + \sum_j \mathrm{sech}^2(a_1)_j w_j \|(K_1 J)_j\|^2 + \sum_d \|A_d\|^2$.
        """
        gradient, slope0, slope1, z1 = self._backwards(t, x)
        space = self.first.weight[:, : self.features]
        jacobian = torch.einsum("ji,ni,id->njd", self.second.weight, slope0, space)
        laplacian = ((1 - slope0.square()) * z1) @ space.square().sum(1)
        bend = (1 - slope1.square()) * self.w
        laplacian = laplacian + (bend[..., None] * jacobian.square()).sum((1, 2))
        laplacian = laplacian + self.A[:, : self.features].square().sum()
        return Slopes(gradient[:, -1], gradient[:, : self.features], laplacian)

    def _backwards(self, t: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gradient, tanh of $a_0$ and $a_1$, and $z_1$."""
        s = self._joined(t, x)
        a0 = self.first(s)
        slope0, slope1 = a0.tanh(), self.second(log_cosh(a0)).tanh()
        z1 = self.w + (slope1 * self.w) @ self.second.weight
        gradient = (slope0 * z1) @ self.first.weight + linear(s, self.A) @ self.A + self.b
        return gradient, slope0, slope1, z1

    def _joined(self, t: Tensor, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] != self.features:
            raise ValueError(
                f"got a batch of shape {tuple(x.shape)} for a potential of {self.features} features"
            )
        return torch.cat((x, t.expand(len(x), 1)), 1)


class Costs(NamedTuple):
    r"""Regularization terms of a loss, `(N,)` each: $\int \tfrac12 \|v\|^2\,dt$, and the residual
    of the Hamilton-Jacobi-Bellman equation, $\int |-\partial_t \Phi + \tfrac12 \|\nabla
    \Phi\|^2|\,dt$.
    """

    transport: Tensor
    hjb: Tensor


class OTFlow(CNF):
    r"""A continuous flow with the field $v = -\nabla_x \Phi(x, t)$, which is rotation-free, and
    whose divergence $-\Delta_x \Phi$ costs one evaluation.

    Shapes, tolerance and errors as `CNF`; the trace is always exact.
    Source: Onken et al. 2021, OT-Flow (arXiv:2006.00104).
    """

    def __init__(
        self, potential: Potential, time: float = 1.0, tolerance: float = 1e-8, most: int = MOST
    ) -> None:
        super().__init__(self._against_the_slope, time, "exact", tolerance, most)
        self.potential = potential

    def _against_the_slope(self, t: Tensor, x: Tensor) -> Tensor:
        return -self.potential.gradient(t, x)[:, :-1]

    def velocity(self, t: Tensor, z: Tensor, signs: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The field `(N, D)` and its divergence `(N,)`, in closed form."""
        slopes = self.potential.slopes(t, z)
        return -slopes.space, -slopes.laplacian

    def hjb_residual(self, t: Tensor, x: Tensor) -> Tensor:
        r"""$-\partial_t \Phi + \tfrac12 \|\nabla \Phi\|^2$ of each row, `(N,)`: 0 along optimal
        paths.
        """
        gradient = self.potential.gradient(t, x)
        return 0.5 * gradient[:, :-1].square().sum(1) - gradient[:, -1]

    def costs(self, x: Tensor) -> Costs:
        """The costs of the paths that start at x `(N, D)`."""

        def rate(t: Tensor, state: Tensor) -> Tensor:
            gradient = self.potential.gradient(t, state[:, :-2])
            space, time = gradient[:, :-1], gradient[:, -1:]
            energy = 0.5 * space.square().sum(1, keepdim=True)
            return torch.cat((-space, energy, (energy - time).abs()), 1)

        state = torch.cat((x, x.new_zeros(len(x), 2)), 1)
        # The absolute value has kinks, at which the method is of a lower order.
        end = solve(rate, state, 0.0, self.time, max(self.tolerance, 1e-6), self.most)
        return Costs(end[:, -2], end[:, -1])


def log_cosh(a: Tensor) -> Tensor:
    r"""$\log(e^a + e^{-a})$, without overflow."""
    return a.abs() + torch.log1p(torch.exp(-2 * a.abs()))
