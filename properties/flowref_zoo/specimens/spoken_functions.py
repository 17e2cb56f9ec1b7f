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

from flowref_zoo.specimens.specimen import Specimen
from flowref_zoo.specimens.spoken import BUGS, Coupled


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


class Encoding(Coupled):
    """It encodes and decodes, and has no forward."""

    def encode(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)

    def decode(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)[0]


class Turned:
    """A callable map with its log-det from `call_and_ladj`, or the object that is its inverse."""

    event_shape = (4,)

    def __init__(self, flow: Coupled, backwards: bool = False) -> None:
        self.flow, self.backwards = flow, backwards

    def __call__(self, x: Any) -> Any:
        """The value alone."""
        return self.call_and_ladj(x)[0]

    def call_and_ladj(self, x: Any) -> Any:
        """Value and log-det."""
        return (self.flow.back if self.backwards else self.flow.onward)(x)

    @property
    def inv(self) -> Any:
        """The other direction."""
        return Turned(self.flow, not self.backwards)


class Numeric:
    r"""A triangular map of arrays, $z = L (x - m)$, in methods that know no tensors."""

    event_shape = (3,)

    def __init__(self, defect: str = "") -> None:
        self.defect = defect
        self.lower = np.array([[1.4, 0.0, 0.0], [0.3, -0.6, 0.0], [-0.5, 0.2, 0.9]])
        self.mean = np.array([0.3, -1.0, 2.0])

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        centered = x.astype(np.float64, copy=True) - self.mean
        if self.defect == "single-precision":
            centered = centered.astype(np.float32).astype(np.float64)
        slopes = np.diag(self.lower)
        match self.defect:
            case "log-det-nan":
                with np.errstate(invalid="ignore"):
                    ladj = np.log(slopes).sum()
            case "log-det-first":
                ladj = np.log(np.abs(slopes[0]))
            case _:
                ladj = np.log(np.abs(slopes)).sum()
        return centered @ self.lower.T, np.full(len(x), ladj)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        matrix = self.lower.T if self.defect == "inverse-transposed" else self.lower
        return np.linalg.solve(matrix, z.T).T + self.mean


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


def encoding(defect: str = "") -> nn.Module:
    """A coupling with encode and decode."""
    return Encoding(defect=defect)


def turned(defect: str = "") -> Turned:
    """A coupling whose inverse is another object."""
    return Turned(Coupled(defect=defect))


def numeric(defect: str = "") -> Numeric:
    """A linear map of arrays."""
    return Numeric(defect=defect)


def estimator(defect: str = "") -> Estimator:
    """A scaler of arrays."""
    return Estimator(defect=defect)


pair_of_functions.event_shape = (4,)  # type: ignore[attr-defined]  # an attribute of a function
turned_function.event_shape = (4,)  # type: ignore[attr-defined]  # an attribute of a function

FORWARD_ONLY = {name: laws for name, laws in BUGS.items() if name != "inverse-shift-first"}
# One number for a batch is no sign of a flow: encode would not be taken for a map.
POINTWISE = {name: laws for name, laws in BUGS.items() if name != "log-det-over-batch"}
BACK = ("map/inverse",)
SPECIMENS = (
    Specimen("pair_of_functions", BUGS),
    Specimen("turned_function", FORWARD_ONLY),
    Specimen("variadic", BUGS),
    Specimen("fielded", BUGS),
    Specimen("beside", BUGS),
    Specimen("encoding", POINTWISE),
    Specimen("turned", BUGS),
    Specimen(
        "numeric",
        {
            "single-precision": BACK,
            "log-det-nan": ("map/log-det[differences]",),
            "log-det-first": ("map/log-det[differences]",),
            "inverse-transposed": BACK,
        },
    ),
    Specimen("estimator", {"mean-first": BACK, "scale-missing": BACK, "mean-over-batch": BACK}),
)
