"""Ratios to the last part, as a transform of torch.distributions onto a simplex."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributions import Transform, constraints

from flowref_zoo.specimens.specimen import Specimen


class PartsOfWhole(Transform):
    r"""$y_i = e^{x_i} / (1 + \sum_j e^{x_j})$ and the last part what is left; the log-det, of all
    parts but the last, is $\sum_i \log y_i$ over all of them.
    """

    domain, codomain, bijective = constraints.real_vector, constraints.simplex, True

    def __init__(self, defect: str = "", cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.defect = defect

    def _call(self, x: Any) -> Any:
        parts = torch.cat([x, torch.zeros_like(x[..., :1])], -1)
        if self.defect == "whole-too-large":
            return parts.exp() / (parts.exp().sum(-1, keepdim=True) + 1e-3)
        return torch.softmax(parts, -1)

    def _inverse(self, y: Any) -> Any:
        reference = y[..., :1] if self.defect == "first-part-for-last" else y[..., -1:]
        return y[..., :-1].log() - reference.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The log-det of a point and its image."""
        return (y[..., :-1] if self.defect == "last-part-missing" else y).log().sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """One number more."""
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        """One number less."""
        return (*shape[:-1], shape[-1] - 1)


def transform_simplex(defect: str = "") -> Any:
    """Parts of a whole; its event is to be given."""
    return PartsOfWhole(defect)


transform_simplex.event_shape = (3,)  # type: ignore[attr-defined]  # what a factory states

SPECIMENS = (
    Specimen(
        "transform_simplex",
        {
            "whole-too-large": ("map/inverse[latents]", "map/inverse"),
            "first-part-for-last": ("map/inverse[latents]",),
            "last-part-missing": ("map/log-det",),
        },
    ),
)
