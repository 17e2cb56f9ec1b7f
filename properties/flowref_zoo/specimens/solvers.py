"""Maps that step: a continuous flow with fixed Runge-Kutta steps, and a mixture that is inverted by
bisection. Neither says how accurate it is.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from flowref_zoo.specimens.specimen import Specimen


class RungeKuttaFlow(nn.Module):
    r"""$\dot x = v_t(x)$ from 0 to 1 in fixed steps of the classical Runge-Kutta method, with
    $\dot\ell = \operatorname{tr} \partial v / \partial x$. Source: FFJORD (arXiv:1810.01367).
    """

    def __init__(self, dim: int = 2, steps: int = 8, defect: str = "") -> None:
        super().__init__()
        self.dim, self.steps, self.defect = dim, steps, defect
        self.first, self.second = nn.Linear(dim + 1, 12), nn.Linear(12, dim)

    def velocity(self, t: Any, x: Any) -> tuple[Any, Any]:
        """The velocity, and the trace of its Jacobian in closed form."""
        time = torch.zeros_like(x[:, :1]) + t
        hidden = torch.tanh(self.first(torch.cat([x, time], 1)))
        slope = 1 - hidden**2
        into, out = self.first.weight[:, : self.dim], self.second.weight
        trace = (slope * torch.einsum("ij,ji->j", out, into)).sum(1)
        if self.defect == "trace-of-the-first-entry":
            trace = (slope * out[0] * into[:, 0]).sum(1)
        return self.second(hidden), trace

    def integrate(self, x: Any, start: Any, end: Any) -> tuple[Any, Any]:
        """Value and log-det, step by step."""
        h, ladj = (end - start) / self.steps, torch.zeros_like(x[:, 0])
        for index in range(self.steps):
            t = start + index * h
            (v1, d1) = self.velocity(t, x)
            (v2, d2) = self.velocity(t + h / 2, x + h / 2 * v1)
            (v3, d3) = self.velocity(t + h / 2, x + h / 2 * v2)
            (v4, d4) = self.velocity(t + h, x + h * v3)
            x = x + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)
            weight = 1 if self.defect == "middle-counted-once" else 2
            mean = (d1 + weight * d2 + weight * d3 + d4) / 6
            if self.defect == "divergence-of-the-old-state":
                mean = d1
            if self.defect == "divergence-of-the-new-state":
                mean = self.velocity(t + h, x)[1]
            ladj = ladj + h * mean
        return x, ladj

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.integrate(x, 0.0, 1.0)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        if self.defect == "times-swapped":
            return self.integrate(z, 0.0, -1.0)
        if self.defect == "one-step-short":
            return self.without_the_last(z)
        return self.integrate(z, 1.0, 0.0)

    def without_the_last(self, z: Any) -> tuple[Any, Any]:
        """The way back but for its last step."""
        steps = self.steps
        self.steps = steps - 1
        try:
            return self.integrate(z, 1.0, 1 / steps)
        finally:
            self.steps = steps


def runge_kutta(defect: str = "") -> nn.Module:
    """A continuous flow of two numbers."""
    return RungeKuttaFlow(defect=defect)


class GriddedFlow(RungeKuttaFlow):
    """The same along a grid of times that it holds."""

    def __init__(self, defect: str = "") -> None:
        super().__init__(steps=1, defect=defect)
        self.times = [index / 8 for index in range(9)]

    def along(self, x: Any, times: list[float]) -> tuple[Any, Any]:
        """From each time to the next."""
        ladj = torch.zeros_like(x[:, 0])
        for start, end in itertools.pairwise(times):
            x, part = self.integrate(x, start, end)
            turned = end < start and self.defect == "log-det-of-the-way-there"
            ladj = ladj - part if turned else ladj + part
        return x, ladj

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.along(x, self.times)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        last = 1 if self.defect == "one-interval-short" else 0
        return self.along(z, self.times[last:][::-1])


def gridded(defect: str = "") -> nn.Module:
    """A continuous flow of two numbers on a grid of times."""
    return GriddedFlow(defect=defect)


class BufferedFlow(RungeKuttaFlow):
    """The same of a field that holds buffers, and nothing that is trained."""

    rates: Any
    heights: Any

    def __init__(self, defect: str = "") -> None:
        super().__init__(dim=1, defect=defect)
        rates = torch.linspace(0.4, 1.6, 5)
        del self.first, self.second
        self.register_buffer("rates", rates)
        self.register_buffer("heights", torch.cos(3 * rates))

    def velocity(self, t: Any, x: Any) -> tuple[Any, Any]:
        """The velocity, and its derivative."""
        wave = torch.tanh(self.rates * (x + t))
        slope = self.heights * self.rates * (1 - wave**2)
        if self.defect == "trace-of-the-first-entry":
            slope = slope[:, :1]
        return (self.heights * wave).sum(1, keepdim=True), slope.sum(1)


def buffered(defect: str = "") -> nn.Module:
    """A continuous flow of one number, of a field that is given."""
    return BufferedFlow(defect=defect)


class AskedFlow(RungeKuttaFlow):
    """The same between two times that it is asked for."""

    def forward(self, x: Any, t0: Any, t1: Any) -> tuple[Any, Any]:  # type: ignore[override]  # it is called otherwise
        """From one time to the other."""
        if self.defect == "starts-at-zero":
            t0, t1 = 0.0, t1 - t0
        return self.integrate(x, t0, t1)


def asked(defect: str = "") -> nn.Module:
    """A continuous flow of two numbers between two times."""
    return AskedFlow(defect=defect)


class Growth(nn.Module):
    r"""The flow of $\dot x = w\,(1 + t)\,x$ in closed form, which gives its states at several times."""

    event_shape, log_det_tolerance, inverse_tolerance = (3,), 1e-12, 1e-12

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.w, self.defect = nn.Parameter(torch.tensor([0.3, -0.2, 0.5])), defect

    def forward(self, x: Any, integration_times: Any) -> tuple[Any, Any]:
        """States, and their log-dets."""
        t = integration_times
        past = t - t[0] if self.defect == "starts-at-zero" else t
        grown = (past + past**2 / 2)[:, None] * self.w
        grown = grown - grown[0]
        states = x * grown.exp()[:, None]
        if self.defect == "one-state-for-all":
            states = states[-1:].expand_as(states)
        if self.defect == "begins-after-the-first":
            states = torch.cat([states[1:2], states[1:]])
        ladj = grown.sum(1)
        if self.defect == "log-dets-since-the-last":
            ladj = torch.cat([ladj[:1], ladj.diff()])
        return states, ladj[:, None].expand(states.shape[:2])


def growth(defect: str = "") -> nn.Module:
    """A linear flow of three numbers."""
    return Growth(defect)


class TimedFlow(RungeKuttaFlow):
    """The same for a time that is learned. Source: FFJORD's code, where the square root of the end time
    is a parameter.
    """

    def __init__(self, dim: int = 2, steps: int = 8, defect: str = "") -> None:
        super().__init__(dim, steps, defect)
        self.root = nn.Parameter(torch.tensor(1.0))

    def end(self) -> Any:
        """When it ends."""
        square = self.root.square()
        return square.item() if self.defect == "end-time-as-a-number" else square

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.integrate(x, 0.0, self.end())

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        x, ladj = self.integrate(z, self.end(), 0.0)
        return x, -ladj if self.defect == "log-det-of-the-way-there" else ladj


def timed(defect: str = "") -> nn.Module:
    """A continuous flow of two numbers for a learned time."""
    return TimedFlow(defect=defect)


class LogisticMixture(nn.Module):
    r"""$z = \operatorname{logit} \sum_k \pi_k\, \sigma((x - \mu_k) / s_k)$ entry by entry, inverted by
    bisection of $[-1000, 1000]$. Source: Flow++ (arXiv:1902.00275), section 3.2.
    """

    def __init__(self, dim: int = 2, components: int = 3, defect: str = "") -> None:
        super().__init__()
        self.dim, self.defect = dim, defect
        self.logits = nn.Parameter(torch.randn(dim, components))
        self.means = nn.Parameter(2 * torch.randn(dim, components))
        self.log_scales = nn.Parameter(0.3 * torch.randn(dim, components))

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        weights = torch.log_softmax(self.logits, -1)
        u = (x[..., None] - self.means) * torch.exp(-self.log_scales)
        below = torch.logsumexp(weights + F.logsigmoid(u), -1)
        above = torch.logsumexp(weights + F.logsigmoid(-u), -1)
        scale = 0.0 if self.defect == "scales-missing" else self.log_scales
        slope = torch.logsumexp(weights + F.logsigmoid(u) + F.logsigmoid(-u) - scale, -1)
        ladj = slope - below if self.defect == "logit-halved" else slope - below - above
        return below - above, ladj.sum(-1)

    @torch.no_grad()
    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        low, high = torch.full_like(z, -1000.0), torch.full_like(z, 1000.0)
        for _ in range(20 if self.defect == "too-few-steps" else 60):
            middle = (low + high) / 2
            smaller = self.forward(middle)[0] < z
            low, high = torch.where(smaller, middle, low), torch.where(smaller, high, middle)
        x = (low + high) / 2
        return x, -self.forward(x)[1]


def logistic_mixture(defect: str = "") -> nn.Module:
    """A mixture of logistics for each of two numbers."""
    return LogisticMixture(defect=defect)


class MaskedStack(nn.Module):
    r"""Eight masked couplings $z = m \odot x + (1 - m) \odot (x e^{s(m x)} + t(m x))$ that share one
    mask, kept as a parameter that is not trained: read many times, it is no solver's.
    """

    def __init__(self, dim: int = 2, layers: int = 8, defect: str = "") -> None:
        super().__init__()
        self.dim, self.defect = dim, defect
        mask = torch.arange(dim).remainder(2).to(torch.get_default_dtype())
        self.mask = nn.Parameter(mask, requires_grad=False)
        self.nets = nn.ModuleList(nn.Linear(dim, 2 * dim) for _ in range(layers))

    def parts(self, index: int, x: Any) -> tuple[Any, Any, Any]:
        """What is kept, the log-scale and the shift of a layer."""
        kept = self.mask if index % 2 else 1 - self.mask
        s, t = self.nets[index](x * kept).chunk(2, -1)
        return kept, torch.tanh(s) * (1 - kept), t * (1 - kept)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        ladj = torch.zeros_like(x[:, 0])
        for index in range(len(self.nets)):
            _, s, t = self.parts(index, x)
            x, ladj = x * s.exp() + t, ladj + s.sum(-1)
        return x, ladj * (1 + 1e-6) if self.defect == "one-part-in-a-million" else ladj

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        ladj = torch.zeros_like(z[:, 0])
        for index in reversed(range(len(self.nets))):
            _, s, t = self.parts(index, z)
            z, ladj = (z - t) * (-s).exp(), ladj - s.sum(-1)
        return z, ladj


def shared_mask(defect: str = "") -> nn.Module:
    """Couplings of two numbers with one mask."""
    return MaskedStack(defect=defect)


SPECIMENS = (
    Specimen("shared_mask", {"one-part-in-a-million": ("map/log-det",)}),
    Specimen(
        "runge_kutta",
        {
            "trace-of-the-first-entry": ("map/log-det",),
            "middle-counted-once": ("map/log-det",),
            "times-swapped": ("map/inverse",),
            "divergence-of-the-new-state": ("map/log-det",),
            "divergence-of-the-old-state": ("map/log-det",),
            "one-step-short": ("map/inverse",),
        },
    ),
    Specimen(
        "gridded",
        {
            "log-det-of-the-way-there": ("map/log-det[antisymmetry]",),
            "one-interval-short": ("map/inverse",),
        },
    ),
    Specimen("buffered", {"trace-of-the-first-entry": ("map/log-det",)}),
    Specimen("asked", {"starts-at-zero": ("composition/in-time",)}),
    Specimen(
        "growth",
        {
            "one-state-for-all": ("composition/in-time[states]",),
            "begins-after-the-first": ("composition/in-time[states]",),
            "log-dets-since-the-last": ("composition/in-time[states]",),
            "starts-at-zero": ("composition/in-time",),
        },
    ),
    Specimen(
        "timed",
        {
            "log-det-of-the-way-there": ("map/log-det[antisymmetry]",),
            "end-time-as-a-number": ("gradient/parameters[value]",),
        },
    ),
    Specimen(
        "logistic_mixture",
        {
            "scales-missing": ("map/log-det",),
            "logit-halved": ("map/log-det",),
            "too-few-steps": ("map/inverse",),
        },
    ),
)
