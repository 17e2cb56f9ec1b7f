"""Residual flows: $z = x + g(x)$ with a contraction g, whose log-determinant is a series and whose
inverse is a fixed point.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu, softplus

from flowref.reference.bijection import Bijection
from flowref.reference.log_det_series import Exact, LogDet

# A fixed-point iteration fails after so many times the steps that a contraction needs.
PATIENCE = 3
# Steps of the power iterations in each pass in train mode.
TRAINING = 5


class NotConverged(RuntimeError):
    """An iteration did not reach its tolerance; it has no result."""


class SpectralLinear(nn.Linear):
    r"""A linear layer with weights $W \min(1, c / \sigma)$, where $\sigma$ is the largest singular
    value of W: its Lipschitz constant is at most c.

    $\sigma = u^T W v$ by power iteration, whose u and v are part of the state; `settle` continues it, and
    has to be called when weights change (`Residual` does so in every pass in train mode).
    Source: Miyato et al. 2018, Spectral Normalization (arXiv:1802.05957), section 2.1; Behrmann et
    al. 2019, Invertible Residual Networks (arXiv:1811.00995), for the factor.
    """

    u: Tensor
    v: Tensor

    def __init__(self, inputs: int, outputs: int, coefficient: float = 0.9) -> None:
        super().__init__(inputs, outputs)
        if not 0 < coefficient < float("inf"):
            raise ValueError(f"got coefficient={coefficient}; expected a positive number")
        self.coefficient = coefficient
        self.register_buffer("u", nn.functional.normalize(torch.randn(outputs), dim=0))
        self.register_buffer("v", nn.functional.normalize(torch.randn(inputs), dim=0))
        self.settle()

    @torch.no_grad()
    def settle(self, steps: int = 200) -> None:
        """Runs ``steps`` more steps of the power iteration."""
        u, v = self.u, self.v
        for _ in range(steps):
            v = nn.functional.normalize(self.weight.mT @ u, dim=0)
            u = nn.functional.normalize(self.weight @ v, dim=0)
        self.u.copy_(u)
        self.v.copy_(v)

    def forward(self, x: Tensor) -> Tensor:
        """Wx + b with the bounded W."""
        # Copies: the next pass changes the buffers, possibly before the backward pass of this one.
        sigma = torch.dot(self.u.clone(), self.weight @ self.v.clone())
        return linear(x, self.weight * (self.coefficient / sigma).clamp(max=1.0), self.bias)


class LipSwish(nn.Module):
    r"""$x\,\sigma(\beta x) / 1.1$ with a learned $\beta > 0$: smooth, with a slope of at most 1.

    Source: Chen et al. 2019, Residual Flows (arXiv:1906.02735), section 3.3.
    """

    def __init__(self) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        """The activation."""
        # Avoids a division by zero: for smaller beta the function is the same within rounding.
        beta = softplus(self.raw).clamp(min=1e-9)
        return silu(x * beta) / (1.1 * beta)


class Contraction(nn.Sequential):
    r"""Spectrally normalized layers with LipSwish between them; the product of their bounds is the
    Lipschitz constant c < 1.

    Shapes: `(N, features)` to `(N, features)`.
    """

    def __init__(
        self, features: int, hidden: Sequence[int] = (64, 64), lipschitz: float = 0.9
    ) -> None:
        sizes = [features, *hidden, features]
        self.lipschitz = lipschitz
        each = lipschitz ** (1 / (len(sizes) - 1))
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [SpectralLinear(before, after, each), LipSwish()]
        super().__init__(*layers[:-1])

    def settle(self, steps: int = 200) -> None:
        """Runs ``steps`` more steps of the power iterations of all layers."""
        for layer in self:
            if isinstance(layer, SpectralLinear):
                layer.settle(steps)


class Residual(Bijection):
    r"""$z = x + g(x)$ with $\|g(a) - g(b)\| \le c\,\|a - b\|$ and $c < 1$.

    ladj: $\log|\det(I + J_g)| = \sum_{k \ge 1} (-1)^{k+1}\,\mathrm{tr}(J_g^k) / k$, exact or
    estimated (see `log_det_series`).  Inverse: the fixed point of $x \mapsto z - g(x)$, each row to
    within the tolerance: $\|x_k - x\| \le \frac{c}{1 - c}\,\|x_k - x_{k-1}\|$.
    Shapes: x and z `(N, *event)`, ladj `(N,)`.  Units: nats.
    Raises: `ValueError` for c outside (0, 1), `NotConverged` from `inverse` if three times the steps that
    a contraction needs do not reach the tolerance.
    Source: Behrmann et al. 2019, Invertible Residual Networks (arXiv:1811.00995); Chen et
    al. 2019, Residual Flows (arXiv:1906.02735).
    """

    def __init__(
        self,
        g: nn.Module,
        lipschitz: float | None = None,
        log_det: LogDet | None = None,
        tolerance: float = 1e-9,
    ) -> None:
        super().__init__()
        bound = getattr(g, "lipschitz", None) if lipschitz is None else lipschitz
        if not isinstance(bound, float | int) or not 0 < bound < 1:
            raise ValueError(
                f"got a Lipschitz constant of {bound}; expected one strictly between 0 and 1: with 1 "
                "already x - x is not invertible"
            )
        self.g, self.lipschitz, self.tolerance = g, float(bound), tolerance
        self.log_det: LogDet = Exact() if log_det is None else log_det

    def forward(self, x: Tensor, noise: tuple[Tensor, ...] = ()) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`; ``noise``: for an estimated log-det, drawn if not given."""
        if self.training:
            self.settle(TRAINING)
        value, log_det = self.log_det.beside_value(self.g, x, noise)
        return x + value, log_det

    def inverse(self, z: Tensor, noise: tuple[Tensor, ...] = ()) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        x = self.solve(z)
        return x, -self.log_det(self.g, x, noise)

    def generate(self, z: Tensor) -> Tensor:
        """Latents to data, without the log-det."""
        return self.solve(z)

    def solve(self, z: Tensor) -> Tensor:
        """The fixed point `(N, *event)`. Converged rows are not updated, so that rows do not
        depend on each other.
        """
        x = z
        going = torch.ones(len(z), dtype=torch.bool, device=z.device)
        if len(z) == 0:
            return z - self.g(z)  # type: ignore[no-any-return]  # a module, as given
        size = 1 + z.detach().flatten(1).abs().amax(1)
        # No step is smaller than rounding.
        enough = size * max(
            self.tolerance * (1 - self.lipschitz) / self.lipschitz, 8 * torch.finfo(z.dtype).eps
        )
        for _ in range(self.steps(z.dtype)):
            after = torch.where(going.view(-1, *[1] * (z.dim() - 1)), z - self.g(x), x)
            change = (after - x).detach().flatten(1).abs().amax(1)
            x, going = after, going & ~(change <= enough)
            if not bool(going.any()):
                return x
        # NaN in, NaN out: more steps would not change that.
        if bool((going & z.isfinite().flatten(1).all(1)).any()):
            raise NotConverged(
                f"the fixed point of a block with the Lipschitz constant {self.lipschitz:g} was not "
                f"reached: the last step is {float(change.max()):.3g}, expected {float(enough.min()):.3g}; "
                "its g is no such contraction (settle() meets weights that were set by hand)"
            )
        return x

    def steps(self, dtype: torch.dtype) -> int:
        """The maximal number of steps: a multiple of the number after which $c^k$ is below the
        tolerance.
        """
        least = max(self.tolerance * (1 - self.lipschitz), torch.finfo(dtype).eps)
        needed = torch.tensor(least).log() / torch.tensor(self.lipschitz).log()
        return PATIENCE * (2 + int(needed))

    def settle(self, steps: int = 200) -> None:
        """Update the state of g that depends on its weights, such as power iterations, after they
        change.
        """
        settle = getattr(self.g, "settle", None)
        if settle is not None:
            settle(steps)

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return f"lipschitz={self.lipschitz}, tolerance={self.tolerance}"
