"""Maps whose results are told by the names in their code, or by the shape of an image's pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal


class Levels(nn.Module):
    """An image in two halves, with its log-density and its log-det, the latents last."""

    event_shape = (2, 2, 4)

    def __init__(self, bug: float = 1.0) -> None:
        super().__init__()
        self.bug = bug
        self.log_gain = nn.Parameter(torch.tensor([0.3, -0.2]).reshape(1, 2, 1, 1))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z_outs = list((x * self.log_gain.exp()).chunk(2, 1))
        logdet = self.bug * (self.log_gain * 8).sum().expand(len(x))
        log_p_sum = -0.5 * sum(z.square().flatten(1).sum(1) for z in z_outs)
        return log_p_sum, logdet, z_outs

    def reverse(self, z_list: Any) -> Any:
        """Latents to data."""
        return torch.cat(list(z_list), 1) * (-self.log_gain).exp()


class Prior(Levels):
    """The log-density of the base is named so, after the log-det."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        log_p, log_det, z_outs = super().forward(x)
        z, log_prior = torch.cat(z_outs, 1), log_p - 8 * math.log(2 * math.pi)
        return z, log_det, log_prior


class Turned(Levels):
    """The log-det comes first."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        _, logdet, z_outs = super().forward(x)
        z = torch.cat(z_outs, 1)
        return logdet, z


class TurnedBothWays(torch.nn.Module):
    """The log-det comes first in both directions, of which the code names no part."""

    def __init__(self, bug: float = 0.0) -> None:
        super().__init__()
        self.bug = bug
        self.matrix = torch.nn.Parameter(torch.eye(3) + 0.2 * torch.ones(3, 3).triu())

    def _log_det(self, x: Any) -> Any:
        return torch.linalg.slogdet(self.matrix)[1].expand(len(x))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self._log_det(x), x @ self.matrix.T

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.bug - self._log_det(z), torch.linalg.solve(self.matrix, z.T).T


class Nameless(Levels):
    """Names that tell nothing."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        a, b, c = super().forward(x)
        return a, b, c


class Crossed(Levels):
    """Two return statements that differ."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        log_p, logdet, z = super().forward(x)
        if len(x) == 0:
            return logdet, log_p, z
        return log_p, logdet, z


class Pixels(nn.Module):
    """Squares of two by two pixels become channels; a log-det for each place of what comes out."""

    event_shape = (1, 4, 8)

    def __init__(self, bug: bool = False) -> None:
        super().__init__()
        self.bug = bug
        self.log_gain = nn.Parameter(torch.tensor([0.3, -0.2, 0.1, 0.4]).reshape(1, 4, 1, 1))

    def _log_det(self, z: Any) -> Any:
        told = (self.log_gain[:, :3] if self.bug else self.log_gain).sum(1)
        return told.expand(len(z), *z.shape[2:])

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z = nn.functional.pixel_unshuffle(x, 2) * self.log_gain.exp()
        return z, self._log_det(z)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return nn.functional.pixel_shuffle(z * (-self.log_gain).exp(), 2), -self._log_det(z)


class Likely(nn.Module):
    """Called, it tells its log-likelihood; the map is f and g, and one log-det is for all rows."""

    dim = 4

    def __init__(self, bug: float = 0.0) -> None:
        super().__init__()
        self.bug = bug
        self.prior = Normal(0.0, 1.0)
        self.scale = nn.Parameter(torch.tensor([0.3, -0.2, 0.1, 0.4]))

    def f(self, x: Any) -> Any:
        """Data to latents."""
        return x * self.scale.exp(), self.scale.sum()

    def g(self, z: Any) -> Any:
        """Latents to data."""
        return z * (-self.scale).exp() + self.bug

    def log_prob(self, x: Any) -> Any:
        """By change of variables."""
        z, log_det = self.f(x)
        return self.prior.log_prob(z).sum(-1) + log_det

    def forward(self, x: Any) -> Any:
        """The log-likelihood."""
        return self.log_prob(x)


class Regression(Likely):
    """Its f is no map: it returns no number beside its value."""

    def f(self, x: Any) -> Any:
        """Parameters of a density."""
        return x * self.scale, x + self.scale

    def log_prob(self, x: Any) -> Any:
        """A density of its own."""
        return self.prior.log_prob(x).sum(-1)


class Masses(nn.Module):
    """Two log-masses as a dictionary, to their sum and a function of their difference."""

    def __init__(self, bug: float = 1.0) -> None:
        super().__init__()
        self.bug = bug

    def forward(self, masses: Any) -> Any:
        """Data to latents."""
        total = masses["log_m1"] + masses["log_m2"]
        difference = masses["log_m1"] - masses["log_m2"]
        log_det = torch.log(2 * self.bug * torch.cosh(difference))
        return {"total": total, "ratio": torch.sinh(difference)}, log_det

    def inverse(self, latents: Any) -> Any:
        """Latents to data."""
        difference = torch.asinh(latents["ratio"])
        halves = {"log_m1": latents["total"] + difference, "log_m2": latents["total"] - difference}
        log_det = -torch.log(2 * torch.cosh(difference))
        return {name: half / 2 for name, half in halves.items()}, log_det


class Sky:
    """Angles as a structured array of numpy, with names that an attribute states."""

    names = ("ra", "dec")

    def __init__(self, bug: float = 1.0) -> None:
        self.bug = bug

    def forward(self, points: Any) -> Any:
        """Data to latents."""
        out = points.copy()
        out["ra"], out["dec"] = np.arctan(points["ra"]), 2 * points["dec"]
        return out, np.log(2 * self.bug) - np.log1p(points["ra"] ** 2)

    def inverse(self, latents: Any) -> Any:
        """Latents to data."""
        out = latents.copy()
        out["ra"], out["dec"] = np.tan(latents["ra"]), latents["dec"] / 2
        return out, np.log1p(out["ra"] ** 2) - np.log(2)


class Blocks:
    """Blocks of features with a log-det each, as an adapter of data has them."""

    event_shapes = {"theta": (2,), "data": (3,)}  # noqa: RUF012  # as users write it

    def __init__(self, bug: float = 1.0) -> None:
        self.factors = {"theta": 2.0, "data": 0.5}
        self.bug = bug

    def __call__(self, data: Any, inverse: bool = False) -> Any:
        """Data to latents, or back."""
        power = -1 if inverse else 1
        out = {name: part * self.factors[name] ** power for name, part in data.items()}
        numbers = {
            name: power * math.log(self.factors[name]) * part.shape[1]
            for name, part in data.items()
        }
        return out, {name: np.full(len(out[name]), self.bug * one) for name, one in numbers.items()}


class Hierarchy(nn.Module):
    """A density of named arrays, whose samples are a dictionary."""

    def __init__(self, bug: float = 1.0) -> None:
        super().__init__()
        self.bug = bug

    def log_prob(self, params: Any) -> Any:
        """The log-density of a location and of what lies around it."""
        location, value = params["location"], params["value"]
        return Normal(0.0, 2.0).log_prob(location) + Normal(location, self.bug).log_prob(value)

    def sample(self, n: int) -> Any:
        """Draw both."""
        location = 2 * torch.randn(n)
        return {"location": location, "value": location + torch.randn(n)}


class Precisions:
    """A mean and a precision that are taken by keyword, the second of which is positive."""

    def __init__(self, bug: float = 1.0) -> None:
        self.bug = bug

    def log_prob(self, *, mu: Any, tau: Any) -> Any:
        """Of pairs."""
        of_mean = -0.5 * tau * mu**2 + 0.5 * tau.log() - 0.5 * math.log(2 * math.pi)
        return of_mean - tau * self.bug

    def sample(self, n: int) -> Any:
        """Draws."""
        tau = torch.empty(n).exponential_()
        return {"mu": torch.randn(n) / tau.sqrt(), "tau": tau}
