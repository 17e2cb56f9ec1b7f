"""Continuous flows of the tutorial on flows, with their bugs.

They are numbered and built as those of `flows`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.seeds.bug_rows import ALL, LOG_2_PI, chosen, refuse_other


class Continuous(nn.Module):
    r"""$\dot z = A z$ from time 0 to T: $z(T) = e^{TA} x$, ladj $T \operatorname{tr} A$; the
    inverse goes from T to 0.

    Rows: 001-21, the log-det has the sign of the change of a log-density; 001-22, the inverse
    integrates forwards too.
    """

    BUGS = ("001-21", "001-22")
    event_shape, TIME = (2,), 0.5

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        self.matrix = nn.Parameter(torch.tensor([[0.3, -0.8], [0.5, 0.2]]))

    def flown(self, x: Any, time: float) -> tuple[Any, Any]:
        """The state after a time, and the log-det."""
        ladj = time * self.matrix.diagonal().sum().expand(len(x))
        return x @ torch.linalg.matrix_exp(
            time * self.matrix
        ).T, -ladj if "001-21" in self.rows else ladj

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.flown(x, self.TIME)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return self.flown(z, self.TIME if "001-22" in self.rows else -self.TIME)


class Ffjord(nn.Module):
    r"""$\dot z = W_2 \tanh(W_1 z + b_1) + b_2$ in fixed Runge-Kutta steps, with the divergence estimated
    by $e^T J e$ for one normal e in each solve.

    Rows: 001-20, noise is drawn in every evaluation of the field.
    """

    BUGS = ("001-20",)
    event_shape, TIME, STEPS = (2,), 0.5, 4
    promises = ("estimator", "unbiased-log-det")

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        self.first, self.second = nn.Linear(2, 8), nn.Linear(8, 2)

    def velocity(self, z: Any, noise: Any) -> tuple[Any, Any]:
        """The field, and the estimate of its divergence."""
        if "001-20" in self.rows:
            noise = torch.randn_like(z)
        hidden = self.first(z).tanh()
        pushed = ((1 - hidden.square()) * (noise @ self.first.weight.T)) @ self.second.weight.T
        return self.second(hidden), (pushed * noise).sum(-1)

    def flown(self, z: Any, time: float) -> tuple[Any, Any]:
        """The state after a time, and the estimated log-det."""
        refuse_other(z, 2)
        h, ladj, e = time / self.STEPS, torch.zeros_like(z[:, 0]), torch.randn_like(z)
        for _ in range(self.STEPS):
            v1, d1 = self.velocity(z, e)
            v2, d2 = self.velocity(z + h / 2 * v1, e)
            v3, d3 = self.velocity(z + h / 2 * v2, e)
            v4, d4 = self.velocity(z + h * v3, e)
            z = z + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)
            ladj = ladj + h / 6 * (d1 + 2 * d2 + 2 * d3 + d4)
        return z, ladj

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.flown(x, self.TIME)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return self.flown(z, -self.TIME)


class Estimated(nn.Module):
    r"""The density of data that a linear field $\dot z = A z$ takes to a standard normal, with the trace
    estimated by $e^T A e$ in train mode alone.

    Rows: 001-23, the trace is estimated in eval mode, too.
    """

    BUGS = ("001-23",)
    event_shape, TIME = (2,), 0.7

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        self.matrix = nn.Parameter(torch.tensor([[0.3, -0.8], [0.5, 0.2]]))

    def trace(self, x: Any) -> Any:
        """The trace of A for each row, or an estimate with signs that last for the solve."""
        if not self.training and "001-23" not in self.rows:
            return self.matrix.diagonal().sum().expand(len(x))
        signs = 2.0 * torch.randint(2, x.shape).to(x.dtype) - 1.0
        return ((signs @ self.matrix.T) * signs).sum(-1)

    def log_prob(self, x: Any) -> Any:
        """The log-density of each point."""
        refuse_other(x, 2)
        z = x @ torch.linalg.matrix_exp(self.TIME * self.matrix).T
        return -0.5 * (2 * LOG_2_PI + z.square().sum(-1)) + self.TIME * self.trace(x)

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Draw n points."""
        z = torch.randn(n, 2, dtype=self.matrix.dtype)
        return z @ torch.linalg.matrix_exp(-self.TIME * self.matrix).T


class Transport(nn.Module):
    r"""$\dot z = -\nabla \Phi(z)$ with $\Phi(z) = w^T N(z)$, $u = \sigma(K_0 z + b_0)$,
    $N = u + \sigma(K_1 u + b_1)$ and $\sigma(a) = \log(e^a + e^{-a})$, in fixed Runge-Kutta steps; the
    trace of the Hessian of $\Phi$ in closed form.

    Rows: 001-25, of the Hessian's two terms only that of the second layer is there.
    """

    BUGS = ("001-25",)
    event_shape, TIME, STEPS, HIDDEN = (2,), 0.5, 8, 6

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        self.first, self.second = nn.Linear(2, self.HIDDEN), nn.Linear(self.HIDDEN, self.HIDDEN)
        self.w = nn.Parameter(torch.full((self.HIDDEN,), 0.3))

    def velocity(self, z: Any) -> tuple[Any, Any]:
        """The field and its divergence."""
        into, on = self.first.weight, self.second.weight
        a = self.first(z)
        above = self.second(a.abs() + torch.log1p(torch.exp(-2 * a.abs())))
        slope = self.w + (above.tanh() * self.w) @ on
        gradient = (a.tanh() * slope) @ into
        columns = torch.einsum("ji,ni,id->njd", on, a.tanh(), into).square().sum(-1)
        trace = ((1 - above.tanh().square()) * self.w * columns).sum(-1)
        if "001-25" not in self.rows:
            trace = trace + ((1 - a.tanh().square()) * slope) @ into.square().sum(1)
        return -gradient, -trace

    def flown(self, z: Any, time: float) -> tuple[Any, Any]:
        """The state after a time, and the log-det."""
        h, ladj = time / self.STEPS, torch.zeros_like(z[:, 0])
        for _ in range(self.STEPS):
            v1, d1 = self.velocity(z)
            v2, d2 = self.velocity(z + h / 2 * v1)
            v3, d3 = self.velocity(z + h / 2 * v2)
            v4, d4 = self.velocity(z + h * v3)
            z = z + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)
            ladj = ladj + h / 6 * (d1 + 2 * d2 + 2 * d3 + d4)
        return z, ladj

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        refuse_other(x, 2)
        return self.flown(x, self.TIME)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        return self.flown(z, -self.TIME)
