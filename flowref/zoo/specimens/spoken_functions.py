"""Maps as functions, as estimators of arrays, and as methods that give values and log-dets in ways of
their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from flowref.zoo.specimens.specimen import Specimen
from flowref.zoo.specimens.spoken import SLIPS, Coupled


def pair_of_functions(defect: str = "") -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A coupling as a pair of functions."""
    flow = Coupled(defect=defect)
    parameters = [parameter.detach() for parameter in flow.parameters()]

    def scale_and_shift(a: Any) -> Any:
        first, offset, second, shift = (parameter.to(a) for parameter in parameters)
        s, t = (torch.tanh(a @ first.T + offset) @ second.T + shift).chunk(2, -1)
        return torch.tanh(s), t

    def forward(x: Any) -> Any:
        """Data to latents."""
        a, b = x.chunk(2, -1)
        s, t = scale_and_shift(a)
        return torch.cat([a, b * s.exp() + t], -1), flow.log_det(s)

    def inverse(z: Any) -> Any:
        """Latents to data."""
        a, b = z.chunk(2, -1)
        s, t = scale_and_shift(a)
        x = b * (-s).exp() - t if defect == "inverse-shift-first" else (b - t) * (-s).exp()
        return torch.cat([a, x], -1), -flow.log_det(s)

    return forward, inverse


def turned_function(defect: str = "") -> Callable[..., Any]:
    """An elementwise map as a function with a flag."""

    def warp(x: Any, inverse: bool = False) -> Any:
        """arsinh, or sinh."""
        z = x if inverse else torch.asinh(x)
        terms = torch.log(torch.cosh(z))
        match defect:
            case "log-det-sign":
                terms = -terms
            case "log-det-first-missing":
                terms = terms[:, 1:]
            case "log-det-over-batch":
                return (torch.sinh(z), terms.sum()) if inverse else (z, -terms.sum())
        return (torch.sinh(z), terms.sum(-1)) if inverse else (z, -terms.sum(-1))

    return warp


class Variadic(nn.Module):
    """It takes two tensors and returns two, and the log-det last, as a column."""

    event_shape = (4,)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.map = Coupled(defect=defect)

    def forward(self, *xs: Any, inverse: bool = False) -> Any:
        """Data to latents, or back."""
        a, b = xs
        out, ladj = (self.map.back if inverse else self.map.onward)(torch.cat([a, b], -1))
        return *out.chunk(2, -1), ladj.reshape(-1, 1)


@dataclass
class Result:
    """What a map gives."""

    z: Any
    log_det: Any


class Fielded(Coupled):
    """It returns an object with fields."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return Result(*self.onward(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return Result(*self.back(z))


class Beside(Coupled):
    """Its log-dets come from methods of their own."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)[0]

    def inverse(self, y: Any) -> Any:
        """Latents to data."""
        return self.back(y)[0]

    def forward_log_det_jacobian(self, x: Any, event_ndims: int = 1) -> Any:
        """The log-det at x."""
        return self.onward(x)[1]

    def inverse_log_det_jacobian(self, y: Any, event_ndims: int = 1) -> Any:
        """The log-det of the inverse at y."""
        return self.back(y)[1]


class Estimator:
    """It standardizes what it was fitted on."""

    def __init__(self, defect: str = "") -> None:
        self.defect = defect

    def fit(self, data: Any, target: Any = None) -> Any:
        """Learn mean and scale."""
        self.mean_, self.scale_ = np.mean(data, 0), np.std(data, 0)
        return self

    def transform(self, data: Any) -> Any:
        """Data to latents."""
        return (data - self.mean_) / self.scale_

    def inverse_transform(self, latents: Any) -> Any:
        """Latents to data."""
        match self.defect:
            case "mean-first":
                return (latents + self.mean_) * self.scale_
            case "scale-missing":
                return latents + self.mean_
            case "mean-over-batch":
                return latents * self.scale_ + np.mean(latents, 0) + self.mean_
        return latents * self.scale_ + self.mean_


def variadic(defect: str = "") -> nn.Module:
    """A coupling of two tensors."""
    return Variadic(defect=defect)


def fielded(defect: str = "") -> nn.Module:
    """A coupling that returns fields."""
    return Fielded(defect=defect)


def beside(defect: str = "") -> nn.Module:
    """A coupling with forward_log_det_jacobian."""
    return Beside(defect=defect)


def estimator(defect: str = "") -> Estimator:
    """A scaler of arrays."""
    return Estimator(defect=defect)


pair_of_functions.event_shape = (4,)  # type: ignore[attr-defined]  # an attribute of a function
turned_function.event_shape = (4,)  # type: ignore[attr-defined]  # an attribute of a function

FORWARD_ONLY = {name: laws for name, laws in SLIPS.items() if name != "inverse-shift-first"}
BACK = ("bijection/inverse-roundtrip",)
SPECIMENS = (
    Specimen("pair_of_functions", SLIPS),
    Specimen("turned_function", FORWARD_ONLY),
    Specimen("variadic", SLIPS),
    Specimen("fielded", SLIPS),
    Specimen("beside", SLIPS),
    Specimen("estimator", {"mean-first": BACK, "scale-missing": BACK, "mean-over-batch": BACK}),
)
