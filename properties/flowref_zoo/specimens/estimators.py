"""Maps whose log-dets are estimated by noise: residual blocks by power series, whole and by roulette, and
a continuous flow by Hutchinson's trace.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


def pulled(value: Any, x: Any, cotangent: Any) -> Any:
    """A vector times the Jacobian of a value."""
    return torch.autograd.grad(value, x, cotangent, create_graph=True)[0]


class SeriesBlock(nn.Module):
    r"""$z = x + g(x)$ with $\operatorname{Lip}(g) \le 0.5$; ladj $\sum_k (-1)^{k+1} v^T J_g^k v / k$ with
    normal v: twelve terms, or a geometric number of them, each divided by the chance that it is reached.

    Source: Behrmann et al. 2019 (arXiv:1811.00995); Chen et al. 2019 (arXiv:1906.02735).
    """

    event_shape, estimator, inverse_tolerance = (3,), True, 1e-6
    TERMS, STOP, BOUND = 12, 0.5, 0.7

    def __init__(self, roulette: bool = False, defect: str = "") -> None:
        super().__init__()
        self.roulette, self.defect = roulette, defect
        self.inner, self.outer = nn.Linear(3, 8), nn.Linear(8, 3)
        if roulette:
            self.geometric_stop = 0.99 if defect == "stops-too-soon" else self.STOP

    def branch(self, x: Any) -> Any:
        """The contraction."""
        inner, outer = (
            layer.weight * (self.BOUND / torch.linalg.matrix_norm(layer.weight, 2)).clamp(max=1)
            for layer in (self.inner, self.outer)
        )
        return F.linear(torch.tanh(F.linear(x, inner, self.inner.bias)), outer, self.outer.bias)

    def weight(self, k: int) -> float:
        """What the k-th trace is multiplied by."""
        sign = 1 if k % 2 or self.defect == "one-sign" else -1
        divided = 1 if self.defect == "not-divided" else k
        if self.defect == "first-term-twice" and k == 1:
            sign = 2
        sign = -sign if self.defect == "signs-turned" else sign
        if not self.roulette or self.defect == "unweighted":
            return sign / divided
        reached = (1 - self.geometric_stop) ** (k if self.defect == "one-too-far" else k - 1)
        if self.defect == "chance-of-stopping":
            reached *= self.geometric_stop
        return sign / (divided * reached)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        with torch.enable_grad():
            x = x if x.requires_grad else x.clone().requires_grad_(True)
            g = self.branch(x)
            probe = torch.randn_like(x)
            terms = self.TERMS
            if self.roulette:
                terms = 1 + int(torch.distributions.Geometric(self.geometric_stop).sample())
            ladj, vector = torch.zeros_like(x[:, 0]), probe
            for k in range(1, terms + 1):
                vector = pulled(g, x, vector)
                ladj = ladj + self.weight(k) * (vector * probe).sum(1)
        return x + g, ladj

    def inverse(self, z: Any) -> Any:
        """Latents to data: x = z - g(x), iterated."""
        x = z
        for _ in range(60):
            x = z - self.branch(x)
        return x


class TrainedBlock(SeriesBlock):
    """The same, whose log-det is exact where it is evaluated: a series is for training alone."""

    estimator = False

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        if self.training and self.defect == "surrogate":
            return self.surrogate(x)
        if self.training:
            z, ladj = super().forward(x)
            return z, ladj.detach() if self.defect == "log-det-without-a-graph" else ladj
        with torch.enable_grad():
            x = x if x.requires_grad else x.clone().requires_grad_(True)
            g = self.branch(x)
            rows = [
                pulled(g, x, unit.expand_as(x))
                for unit in torch.eye(3, dtype=x.dtype, device=x.device)
            ]
        return x + g, torch.linalg.slogdet(
            torch.eye(3, dtype=x.dtype, device=x.device) + torch.stack(rows, 1)
        )[1]

    def surrogate(self, x: Any) -> tuple[Any, Any]:
        r"""$v^T (I + J_g)^{-1} J_g v$, of the gradient of the log-det where the inverse is held, and no value of it."""
        with torch.enable_grad():
            x = x if x.requires_grad else x.clone().requires_grad_(True)
            g, probe = self.branch(x), torch.randn_like(x)
            held, vector = probe, probe
            for _ in range(self.TERMS):
                vector = -pulled(g, x, vector)
                held = held + vector
            return x + g, (pulled(g, x, held) * probe).sum(1)


def trained(defect: str = "") -> nn.Module:
    """A residual block that is estimated in train mode alone."""
    return TrainedBlock(defect=defect)


def series(defect: str = "") -> nn.Module:
    """A residual block with a cut series."""
    return SeriesBlock(defect=defect)


def roulette(defect: str = "") -> nn.Module:
    """A residual block with a series of random length."""
    return SeriesBlock(roulette=True, defect=defect)


class TracedFlow(nn.Module):
    r"""$\dot x = v_t(x)$ from 0 to 1 in fixed Runge-Kutta steps, with $\dot\ell = e^T (\partial v /
    \partial x)\, e$ for one normal e. Source: FFJORD (arXiv:1810.01367).
    """

    event_shape, estimator, steps = (2,), True, 4

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.first, self.second = nn.Linear(3, 8), nn.Linear(8, 2)
        self.kept: Any = None

    def noise(self, x: Any) -> Any:
        """Of unit variance."""
        if self.defect == "between-minus-one-and-one":
            return 2 * torch.rand_like(x) - 1
        return 0.8 * torch.randn_like(x) if self.defect == "narrow-noise" else torch.randn_like(x)

    def rate(self, t: float, x: Any, noise: Any) -> tuple[Any, Any]:
        """The velocity, and the estimate of its divergence."""
        if self.defect == "fresh-noise":
            noise = torch.randn_like(noise)
        with torch.enable_grad():
            x = x if x.requires_grad else x.clone().requires_grad_(True)
            time = torch.full_like(x[:, :1], t)
            v = self.second(torch.tanh(self.first(torch.cat([x, time], 1))))
            if noise is None:
                return v, sum(
                    pulled(v, x, unit.expand_as(x))[:, i]
                    for i, unit in enumerate(torch.eye(2, dtype=x.dtype))
                )
            return v, (pulled(v, x, noise) * noise).sum(1)

    def integrate(self, x: Any, start: float, end: float) -> tuple[Any, Any]:
        """Value and log-det, step by step."""
        h, ladj, noise = (end - start) / self.steps, torch.zeros_like(x[:, 0]), self.noise(x)
        if self.defect == "kept-noise":
            self.kept = noise if self.kept is None or len(self.kept) != len(x) else self.kept
            noise = self.kept
        for index in range(self.steps):
            t = start + index * h
            v1, d1 = self.rate(t, x, noise)
            v2, d2 = self.rate(t + h / 2, x + h / 2 * v1, noise)
            v3, d3 = self.rate(t + h / 2, x + h / 2 * v2, noise)
            v4, d4 = self.rate(t + h, x + h * v3, noise)
            x = x + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)
            ladj = ladj + h / 6 * (d1 + 2 * d2 + 2 * d3 + d4)
        return x, ladj.detach() if self.defect == "log-det-without-a-graph" else ladj

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.integrate(x, 0.0, 1.0)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        x, ladj = self.integrate(z, 1.0, 0.0)
        return x, -ladj if self.defect == "log-det-of-the-way-there" else ladj


def traced(defect: str = "") -> nn.Module:
    """A continuous flow of two numbers with an estimated trace."""
    return TracedFlow(defect=defect)


class TrainedTrace(TracedFlow):
    """The same, whose divergence is exact where it is evaluated. Source: FFJORD's code."""

    estimator = False

    def noise(self, x: Any) -> Any:
        """None in eval mode."""
        return super().noise(x) if self.training else None


def trained_trace(defect: str = "") -> nn.Module:
    """A continuous flow of two numbers with a trace that is estimated in train mode alone."""
    return TrainedTrace(defect)


SERIES = ("map/log-det-unbiased[series]",)
TRAINED = ("map/log-det-unbiased[series, train]",)
SPECIMENS = (
    Specimen(
        "trained",
        {
            "signs-turned": ("map/log-det[estimate, train]",),
            "surrogate": TRAINED,
            "log-det-without-a-graph": ("gradient/parameters[log-det-estimate, train]",),
        },
    ),
    Specimen(
        "trained_trace",
        dict.fromkeys(("narrow-noise", "between-minus-one-and-one"), TRAINED),
    ),
    Specimen("series", dict.fromkeys(("one-sign", "not-divided", "first-term-twice"), SERIES)),
    Specimen(
        "roulette",
        {
            **dict.fromkeys(
                ("one-sign", "not-divided", "unweighted", "one-too-far", "chance-of-stopping"),
                SERIES,
            ),
            "stops-too-soon": ("residual/finite-variance",),
        },
    ),
    Specimen(
        "traced",
        {
            "fresh-noise": ("random/once-per-solve",),
            "kept-noise": ("random/seeded[log-det]",),
            "narrow-noise": SERIES,
            "between-minus-one-and-one": SERIES,
            "log-det-without-a-graph": ("gradient/parameters[log-det-estimate]",),
            "log-det-of-the-way-there": ("map/log-det[inverse, estimate]",),
        },
    ),
)
