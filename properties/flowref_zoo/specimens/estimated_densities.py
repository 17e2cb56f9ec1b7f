"""A log-density that is estimated by noise, of a flow that shows nothing else."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

AT_SAMPLES = ("sampling/follows-density[estimate]",)


class LinearField(nn.Module):
    r"""$\dot x = A x$ from 0 to 1, solved by the exponential of A; $\operatorname{tr} A$ is estimated by
    $e^T A\, e$ with normal e. Source: FFJORD (arXiv:1810.01367), section 3.1.
    """

    event_shape, estimator, promises = (2,), True, ("unbiased-log-det",)

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.tensor([[0.3, -0.2], [0.1, 0.2]]))
        self.defect = defect

    def log_prob(self, x: Any) -> Any:
        """That of a normal base, with an estimate of the log-det."""
        noise = torch.randn_like(x)
        if self.defect == "probe-too-large":
            noise = 1.3 * noise
        trace = ((noise @ self.matrix.T) * noise).sum(1)
        z = x @ torch.linalg.matrix_exp(self.matrix).T
        base = -0.5 * (z**2).sum(1) - math.log(2 * math.pi)
        return base - trace if self.defect == "other-sign" else base + trace

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """The base, taken back."""
        z = torch.randn(n, 2, dtype=self.matrix.dtype, device=self.matrix.device)
        z = 0.9 * z if self.defect == "colder" else z
        return z @ torch.linalg.matrix_exp(-self.matrix).T


def linear(defect: str = "") -> nn.Module:
    """A flow along a linear field, which shows its density and samples alone."""
    return LinearField(defect)


SPECIMENS = (
    Specimen("linear", dict.fromkeys(("probe-too-large", "other-sign", "colder"), AT_SAMPLES)),
)
