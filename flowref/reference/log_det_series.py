"""The log-determinant of $I + J$ for the Jacobian J of a contraction: exact, by a power series, or
by a randomly truncated series without bias.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from flowref.reference.inner_derivatives import differentiates

Map = Callable[[Tensor], Tensor]
Noise = tuple[Tensor, ...]


class LogDet(ABC):
    r"""$\log|\det(I + J_g(x))|$ of each row, for a map g with $\|J_g\| < 1$.

    ``noise``: the random numbers of an estimate; drawn from torch's generator if not given. Shapes:
    x `(N, *event)`, result `(N,)`. Units: nats.
    """

    exact: bool = False
    unbiased: bool = False

    @abstractmethod
    def beside_value(self, g: Map, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Returns g(x) and the log-determinants `(N,)`, from one call of g."""

    def __call__(self, g: Map, x: Tensor, noise: Noise = ()) -> Tensor:
        """The log-determinants, `(N,)`."""
        return self.beside_value(g, x, noise)[1]


@dataclass(frozen=True)
class Exact(LogDet):
    """From the full Jacobian: D backward passes and a factorization, for small events."""

    exact = unbiased = True

    @differentiates
    def beside_value(self, g: Map, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """g(x) and the log-determinants `(N,)`."""
        check_noise(noise, 0)
        units = unit_vectors(x)
        value, times_jacobian = pullback(g, x)
        jacobian = torch.stack([times_jacobian(unit).flatten(1) for unit in units], 1)
        eye = torch.eye(len(units), dtype=x.dtype, device=x.device)
        return value, torch.linalg.slogdet(eye + jacobian).logabsdet


@dataclass(frozen=True)
class PowerSeries(LogDet):
    r"""$\sum_{k=1}^{n} \frac{(-1)^{k+1}}{k}\,\mathrm{tr}(J^k)$, whose truncation error is at most
    $-D\,(\log(1 - c) + \sum_{k \le n} c^k / k)$.

    Traces are exact if ``probes`` is 0, from D unit vectors; else means of $v^T J^k v$ over so
    many vectors of independent signs v, the same for all k. noise: (v,), `(probes, N, *event)`.
    ``neumann``: see `weighted_traces`.
    Source: Behrmann et al. 2019, Invertible Residual Networks (arXiv:1811.00995).
    """

    terms: int = 10
    probes: int = 0
    neumann: bool = False

    def __post_init__(self) -> None:
        if self.terms < 1 or self.probes < 0:
            raise ValueError(
                f"got terms={self.terms}, probes={self.probes}; expected one term at least, and no "
                "negative number"
            )

    def beside_value(self, g: Map, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """g(x) and the truncated log-determinants `(N,)`."""
        check_noise(noise, 1 if self.probes else 0)
        factors = [(-1) ** (k + 1) / k for k in range(1, self.terms + 1)]
        return weighted_traces(g, x, factors, self.probes, noise, self.neumann)

    def lacks(self, dims: int, lipschitz: float) -> float:
        """A bound of the truncation error, for events of ``dims`` entries."""
        head = sum(lipschitz**k / k for k in range(1, self.terms + 1))
        return dims * (-math.log1p(-lipschitz) - head)


@dataclass(frozen=True)
class Roulette(LogDet):
    r"""The series with a random number of terms, each divided by the probability that it is
    included: unbiased.

    The first ``sure`` terms are always included, and N further ones, geometric with
    $P(N \ge j) = (1 - p)^{j}$. Its variance is finite if $c^2 < 1 - p$.
    noise: (N, v) with N an integer, one for the batch; v as in `PowerSeries`, or () if probes
    is 0.  ``neumann``: see `weighted_traces`.
    Source: Chen et al. 2019, Residual Flows (arXiv:1906.02735), section 3.1.
    """

    unbiased = True

    p: float = 0.5
    sure: int = 2
    probes: int = 1
    neumann: bool = False

    def __post_init__(self) -> None:
        if not (0 < self.p < 1 and self.sure >= 0 and self.probes >= 0):
            raise ValueError(
                f"got p={self.p}, sure={self.sure}, probes={self.probes}; expected 0 < p < 1 and no "
                "negative number"
            )

    def beside_value(self, g: Map, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """g(x) and the estimated log-determinants `(N,)`."""
        check_noise(noise, 2 if self.probes else 1)
        if noise and (noise[0].numel() != 1 or noise[0] != noise[0].round() or noise[0] < 0):
            raise ValueError(
                f"got {noise[0].tolist()} further terms; expected a whole number, 0 or more"
            )
        more = int(noise[0]) if noise else int(torch.empty(()).geometric_(self.p)) - 1
        factors = [
            (-1) ** (k + 1) / k / (1 - self.p) ** max(0, k - self.sure)
            for k in range(1, self.sure + more + 1)
        ]
        return weighted_traces(g, x, factors, self.probes, noise[1:], self.neumann)


@differentiates
def weighted_traces(
    g: Map,
    x: Tensor,
    factors: list[float],
    probes: int,
    noise: Noise = (),
    neumann: bool = False,
) -> tuple[Tensor, Tensor]:
    r"""g(x), and $\sum_k f_k\,\mathrm{tr}(J^k)$ of each row, `(N,)`, by products of row vectors
    with J.

    Gradients are those of $\sum_k f_k\,v^T J^k v$, through all products. With ``neumann`` they are
    $v^T \bigl(\sum_k k f_k J^{k-1}\bigr)\,\partial J\,v$, through one product: the same in
    expectation over v, since $\mathrm{tr}(J^i\,\partial J\,J^j) = \mathrm{tr}(J^{i+j}\,\partial
    J)$, and the same exactly for unit vectors.

    Source: Chen et al. 2019, Residual Flows (arXiv:1906.02735), section 3.2.
    """
    if probes and noise and noise[0].shape != (probes, *x.shape):
        raise ValueError(
            f"got signs of shape {tuple(noise[0].shape)}; expected {(probes, *x.shape)}"
        )
    if probes:
        signs = noise[0] if noise else random_signs(probes, x)
        share = 1 / probes
    else:
        signs, share = unit_vectors(x), 1.0
    total, slopes = x.new_zeros(len(x)), x.new_zeros(len(x))
    value, times_jacobian = pullback(g, x)
    for vectors in signs if factors else ():
        product, weighted = vectors, torch.zeros_like(vectors)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not neumann):
            for k, factor in enumerate(factors, 1):
                if neumann:
                    weighted = weighted.add(product, alpha=k * factor)
                product = times_jacobian(product)
                total = total.add((product * vectors).flatten(1).sum(1), alpha=share * factor)
        if neumann and torch.is_grad_enabled():
            slope = (times_jacobian(weighted) * vectors).flatten(1).sum(1)
            slopes = slopes.add(slope - slope.detach(), alpha=share)
    return value, total + slopes


def pullback(g: Map, x: Tensor) -> tuple[Tensor, Map]:
    r"""Returns g(x), and the function $v \mapsto v^T J$ for row vectors `(N, *event)`: by backward
    passes through one call of g, recorded if gradients are enabled. Raises `ValueError` if g
    changes the shape.
    """
    # A copy of x has a graph even under no_grad; the graph of x itself is kept for callers that
    # differentiate the result by x or by parameters.
    kept = torch.is_grad_enabled()
    with torch.enable_grad():
        point = x if x.requires_grad and kept else x.detach().requires_grad_()
        value = g(point)
    if value.shape != x.shape:
        raise ValueError(
            f"the map gave shape {tuple(value.shape)}; expected {tuple(x.shape)}, that of its input"
        )

    def times_jacobian(vectors: Tensor) -> Tensor:
        (product,) = torch.autograd.grad(
            value, point, vectors, retain_graph=True, create_graph=torch.is_grad_enabled()
        )
        return product

    return value if kept else value.detach(), times_jacobian


def unit_vectors(x: Tensor) -> Tensor:
    """The unit vectors of an event, `(D, *x.shape)`: each the same for all rows."""
    size = x.shape[1:].numel()
    eye = torch.eye(size, dtype=x.dtype, device=x.device).view(size, 1, *x.shape[1:])
    return eye.expand(size, *x.shape)


def check_noise(noise: Noise, most: int) -> None:
    """Raises `ValueError` unless there are no tensors of noise, or ``most``."""
    if noise and len(noise) != most:
        raise ValueError(
            f"got {len(noise)} tensors of noise; expected {most or 'none'} for this log-determinant"
        )


def random_signs(count: int, x: Tensor) -> Tensor:
    """Independent signs, `(count, *x.shape)`."""
    return 2.0 * torch.randint(2, (count, *x.shape), device=x.device).to(x.dtype) - 1.0
