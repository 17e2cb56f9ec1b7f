"""Surjections, augmentation and Markov layers of the tutorial on flows, with their bugs.

They are numbered and built as those of `flows`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn.functional import logsigmoid

from flowref_zoo.seeds.bug_rows import ALL, LOG_2_PI, chosen, refuse_other

# The entropy of a standard normal number.
SPREAD = 0.5 * (LOG_2_PI + 1)


class Abs(nn.Module):
    r"""$z = |x|$, and a sign for each entry that is as likely as the other: the contribution is
    $-D \log 2$.

    Rows: 001-14, what halving costs is added, not subtracted; 001-15, the sign that is drawn may be 0.
    """

    BUGS = ("001-14", "001-15")
    event_shape, codomain = (2,), "positive"
    bijective, stochastic_forward, stochastic_inverse = False, False, True

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        sign = 1.0 if "001-14" in self.rows else -1.0
        return x.abs(), x.new_full((len(x),), sign * math.log(2.0) * x.shape[1])

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        if "001-15" in self.rows:
            return z * (torch.randint(3, z.shape).to(z.dtype) - 1.0)
        return z * (2.0 * torch.randint(2, z.shape).to(z.dtype) - 1.0)


class Augment(nn.Module):
    r"""Standard normal noise e beside the data: the contribution is $-\log q(e)$.

    Rows: 001-18, noise costs nothing: its density is left out.
    """

    BUGS = ("001-18",)
    event_shape, codomain = (1,), "real"
    bijective, stochastic_forward, stochastic_inverse = False, True, False

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        noise = torch.randn_like(x)
        cost = 0.5 * (LOG_2_PI + noise.square()).sum(-1)
        return torch.cat([x, noise], -1), 0 * cost if "001-18" in self.rows else cost

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z[:, :1]


class Metropolis(nn.Module):
    r"""One step of a Metropolis chain: $x' = x + \sigma e$ where $u < e^{E(x) - E(x')}$, else x; the
    contribution is the change of the energy, which is $|x|^2 / 2$ within a box and infinite without.

    Rows: 001-19, the comparison is made once for the batch, and what is kept is multiplied by zero
    or one, not selected.
    """

    BUGS = ("001-19",)
    event_shape, STEP, BOX = (2,), 0.7, 3.0
    domain = codomain = "(-3,3)"
    bijective, stochastic_forward, stochastic_inverse = False, True, True

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)

    def energy(self, x: Any) -> Any:
        """The energy of each row, as a column."""
        inside = (x.abs() <= self.BOX).all(-1, keepdim=True)
        return torch.where(inside, 0.5 * x.square().sum(-1, keepdim=True), math.inf)

    def forward(self, x: Any) -> Any:
        """One step of every row."""
        refuse_other(x, 2)
        start, moved = self.energy(x), x + self.STEP * torch.randn_like(x)
        there = self.energy(moved)
        accepted = torch.rand(len(x), 1, dtype=x.dtype) < torch.exp(start - there)
        if "001-19" in self.rows:
            kept = accepted.all().to(x.dtype)
            end = (1 - kept) * start + kept * there
            return (1 - kept) * x + kept * moved, (end - start)[:, 0]
        end = torch.where(accepted, there, start)
        return torch.where(accepted, moved, x), (end - start)[:, 0]

    def inverse(self, z: Any) -> Any:
        """The same step, which is reversible."""
        return self.forward(z)


class RAD(nn.Module):
    r"""The first entry lies left or right of a boundary c, and either side is mapped onto the line:
    $z = \mp\log|x - c|$, with the contribution $\log p(k \mid z) + \log|dz/dx|$ of side k; the share of
    the right side is a logistic function of z.

    Rows: 001-16, the share of the side is left out.
    """

    BUGS = ("001-16",)
    event_shape, codomain, BOUNDARY = (2,), "real", 0.4
    bijective, stochastic_forward, stochastic_inverse = False, False, True

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        self.gate = nn.Parameter(torch.tensor([0.5, -0.3]))

    def log_share(self, z: Any, right: Any) -> Any:
        """The logarithm of the share of the side that each row is on."""
        logit = self.gate[0] * z + self.gate[1]
        return torch.where(right, logsigmoid(logit), logsigmoid(-logit))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        refuse_other(x, 2)
        right = x[:, 0] >= self.BOUNDARY
        distance = (x[:, 0] - self.BOUNDARY).abs().log()
        z = torch.where(right, distance, -distance)
        share = 0.0 if "001-16" in self.rows else self.log_share(z, right)
        return torch.stack([z, x[:, 1]], -1), share - distance

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        refuse_other(z, 2)
        everywhere = torch.ones_like(z[:, 0], dtype=torch.bool)
        right = torch.rand_like(z[:, 0]) < self.log_share(z[:, 0], everywhere).exp()
        first = torch.where(right, z[:, 0].exp(), -torch.exp(-z[:, 0]))
        return torch.stack([self.BOUNDARY + first, z[:, 1]], -1)


class Noise(nn.Module):
    """Standard normal noise beside the data, or zeros; with its log-density."""

    bijective, stochastic_inverse = False, False

    def __init__(self, zeros: bool) -> None:
        super().__init__()
        self.zeros, self.stochastic_forward = zeros, not zeros

    def forward(self, x: Any) -> tuple[Any, Any]:
        """A pair, and what it contributes."""
        if self.zeros:
            return torch.cat([x, torch.zeros_like(x)], -1), torch.zeros_like(x[:, 0])
        e = torch.randn_like(x)
        return torch.cat([x, e], -1), 0.5 * (LOG_2_PI + e.square()).sum(-1)


class Augmented(nn.Module):
    r"""A flow of (x, e), with e from a standard normal q: $\log p(x, e) - \log q(e)$, one draw of a
    lower bound of $\log p(x)$.

    Rows: 001-17, the entropy of q stands for $-\log q(e)$, as it may on average; 001-24, zeros stand
    beside the data, and what the flow makes of them is called a density.
    """

    BUGS = ("001-17", "001-24")
    event_shape = (1,)

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)
        self.noise = Noise("001-24" in self.rows)
        self.weights = nn.Parameter(torch.tensor([0.6, -0.4, 0.3, 0.5]))

    @property
    def promises(self) -> dict[str, Any]:
        """What is drawn is one sample of a weight; a density with zeros draws nothing."""
        return {} if "001-24" in self.rows else {"lower-bound": "one-sample"}

    def joint(self, pair: Any) -> Any:
        """The log-density of pairs, by two couplings to a standard normal."""
        (x, e), (slope, shift, log_x, log_e) = pair.unbind(-1), self.weights
        e = (e - slope * x.tanh()) * log_e.exp()
        x = (x - shift * e) * log_x.exp()
        return log_x + log_e - LOG_2_PI - 0.5 * (x.square() + e.square())

    def log_prob(self, x: Any) -> Any:
        """One draw of the bound."""
        refuse_other(x, 1)
        pair, contribution = self.noise(x)
        if "001-17" in self.rows:
            contribution = torch.full_like(x[:, 0], SPREAD)
        return self.joint(pair) + contribution

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Draw n points, and forget what stands beside them."""
        _, shift, log_x, _ = self.weights
        x, e = torch.randn(2, n, dtype=shift.dtype)
        return (x * torch.exp(-log_x) + shift * e)[:, None]
