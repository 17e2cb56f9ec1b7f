"""What the essay on Real NVP does around a flow, with its bugs: pixels, bits per dimension and
averages over latents.

The bugs are numbered as in `real_nvp`, which builds these too.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.seeds.bug_rows import ALL, LOG_2_PI, chosen


class Preprocessing(nn.Module):
    r"""Pixels in (0, 256) to the real line: $\operatorname{logit}(\alpha + (1 - 2\alpha)\,x / 256)$
    (equations 15 and 16).

    Rows: 003-12, pixels are divided by 255 and counted as if by 256; 003-14, the map is
    $\operatorname{logit}(\alpha + (1 - \alpha)\,x / 256)$, which is infinite at 256, as 255 and
    noise are in single precision.
    """

    BUGS = ("003-12", "003-14")
    event_shape, domain = (3,), (0.0, 256.0)

    def __init__(self, rows: str = ALL, alpha: float = 0.05) -> None:
        super().__init__()
        self.rows, self.alpha = chosen(rows, self.BUGS), alpha
        self.width = 1 - alpha if "003-14" in self.rows else 1 - 2 * alpha
        self.levels = 255.0 if "003-12" in self.rows else 256.0

    @property
    def preprocessing(self) -> Any:
        """What is declared of the map."""
        return {"alpha": self.alpha, "bound": 256.0, "bins": 256}

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        p = self.alpha + self.width * x / self.levels
        slopes = math.log(self.width / 256.0) - torch.log(p) - torch.log1p(-p)
        return torch.log(p) - torch.log1p(-p), slopes.sum(-1)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        x = (torch.sigmoid(z) - self.alpha) * (self.levels / self.width)
        softplus = nn.functional.softplus
        return x, (-math.log(self.width / 256.0) - softplus(z) - softplus(-z)).sum(-1)


class BitsPerDim(nn.Module):
    r"""A density of two pixels in [0, 256), uniform after they are divided by 256.

    Rows: 003-28i, the bits per dimension leave out what dividing by 256 does to the density.
    """

    BUGS = ("003-28i",)
    event_shape, domain = (2,), (0.0, 256.0)

    def __init__(self, rows: str = ALL) -> None:
        super().__init__()
        self.rows = chosen(rows, self.BUGS)

    @property
    def promises(self) -> dict[str, float]:
        """Levels are 1 apart, and data uniform."""
        return {"level": 1.0, "uniform-data": 256.0}

    def log_prob(self, x: Any) -> Any:
        """The log-density of each point."""
        inside = ((x >= 0) & (x < 256)).all(-1)
        return torch.where(inside, -2 * math.log(256.0), -math.inf).to(x.dtype)

    def sample(self, n: int) -> Any:
        """Draw n points."""
        return 256 * torch.rand(n, 2, dtype=torch.get_default_dtype())

    def bits_per_dim(self, x: Any) -> Any:
        """Bits per dimension of each point."""
        missing = 2 * math.log(256.0) if "003-28i" in self.rows else 0.0
        return -(self.log_prob(x) + missing) / (2 * math.log(2.0))


class LatentAverage:
    r"""$\log p(x)$ of a latent variable by draws $z_i$ of its prior:
    $\log \frac1K \sum_i p(x \mid z_i)$ (equation 2).

    Rows: 003-1, the density of the prior at each draw comes into the sum, and the number of draws
    does not.
    """

    BUGS = ("003-1",)
    event_shape, NOISE, DRAWS = (1,), 0.6, (-1.3, -0.4, 0.1, 0.5, 1.6)

    def __init__(self, rows: str = ALL) -> None:
        self.rows = chosen(rows, self.BUGS)

    def log_prob(self, x: Any) -> Any:
        """The log-density of each point."""
        draws = torch.tensor(self.DRAWS, dtype=x.dtype)
        likelihood = (
            -0.5 * ((x - draws) / self.NOISE).square() - math.log(self.NOISE) - 0.5 * LOG_2_PI
        )
        prior = -0.5 * draws.square() - 0.5 * LOG_2_PI
        weights = (
            prior if "003-1" in self.rows else torch.full_like(prior, -math.log(len(self.DRAWS)))
        )
        return torch.logsumexp(likelihood + weights, -1)

    def sample(self, n: int) -> Any:
        """Draw n points."""
        draws = torch.tensor(self.DRAWS, dtype=torch.get_default_dtype())
        return (draws[torch.randint(len(self.DRAWS), (n,))] + self.NOISE * torch.randn(n))[:, None]
