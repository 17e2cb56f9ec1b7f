"""Densities: a base with a bijection, bits per dimension, and the training loss with its
penalty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from flowref.reference.bijection import Bijection, check_event, over_event
from flowref.reference.coupling import AffineCoupling

LOG_2_PI = math.log(2 * math.pi)


class StandardNormal(nn.Module):
    r"""Independent standard normal entries: $\log p(z) = -\frac D2 \log 2\pi - \frac12 \|z\|^2$
    with $D$ entries in an event.

    Shapes: z `(N, *event_shape)`, log-density `(N,)`.  Units: nats.
    Raises: `ValueError` for events of another shape.
    """

    anchor: Tensor

    def __init__(self, event_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.event_shape = tuple(event_shape)
        self.dims = math.prod(self.event_shape)
        # Holds the dtype and device of samples.
        self.register_buffer("anchor", torch.zeros(()), persistent=False)

    def log_prob(self, z: Tensor) -> Tensor:
        """The log-density of each row, `(N,)`."""
        check_event(z, self.event_shape, "the base density")
        return -0.5 * (self.dims * LOG_2_PI + over_event(z.square()))

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws n events, `(n, *event_shape)`."""
        return torch.randn(
            n,
            *self.event_shape,
            generator=generator,
            dtype=self.anchor.dtype,
            device=self.anchor.device,
        )


class Flow(nn.Module):
    r"""The density of data that a bijection maps to a base: $\log p(x) = \log p_Z(f(x)) +
    \mathrm{ladj}(x)$.

    Shapes: x `(N, *event)`, log-density `(N,)`.  Units: nats, per unit volume of x.
    Source: Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 3.1.
    """

    def __init__(self, base: StandardNormal, bijection: Bijection) -> None:
        super().__init__()
        self.base, self.bijection = base, bijection

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        z, ladj = self.bijection(x)
        return z, ladj

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        return self.bijection.inverse(z)

    def log_prob(self, x: Tensor) -> Tensor:
        """The log-density of each row, `(N,)`."""
        z, ladj = self.bijection(x)
        log_density: Tensor = self.base.log_prob(z) + ladj
        return log_density

    def rsample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws n events $f^{-1}(z)$ with $z$ from the base, differentiable in the parameters."""
        return self.bijection.generate(self.base.sample(n, generator))

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws n events, without gradients."""
        return self.rsample(n, generator)

    def bits_per_dim(self, x: Tensor, level: float = 1.0) -> Tensor:
        """The bits per dimension of each row, `(N,)` (see `bits_per_dim`)."""
        return bits_per_dim(self.log_prob(x), x[0].numel(), level)


def bits_per_dim(log_prob: Tensor, dims: int, level: float = 1.0) -> Tensor:
    r"""$-(\log p(x) + D \log w) / (D \log 2)$: the code length in bits per entry, for $D$ entries
    quantized in steps of $w$.

    ``level``: $w$, the distance of two levels in the units of x: 1 for pixels in [0, 256), 1/256
    for pixels divided by 256. Uniform data on [0, 256) have 8. An upper bound in expectation if x
    was dequantized (see `Dequantize`).
    """
    return -(log_prob / dims + math.log(level)) / math.log(2)


class LogDensity(Protocol):
    """A module with a log-density, or a bound of one."""

    def modules(self) -> Iterator[nn.Module]:
        """All submodules."""
        ...

    def log_prob(self, x: Tensor) -> Tensor:
        """The log-density of each row, `(N,)`."""
        ...


class Loss(NamedTuple):
    """The training loss in nats: `nll`, the mean negative log-density, and `penalty`, which is not
    part of the likelihood.
    """

    nll: Tensor
    penalty: Tensor

    @property
    def total(self) -> Tensor:
        """The objective, `nll + penalty`."""
        return self.nll + self.penalty


def real_nvp_loss(flow: LogDensity, x: Tensor, weight: float = 5e-5) -> Loss:
    r"""The mean of $-\log p(x)$, and $w \sum c^2$ over the learned scales of all affine couplings.

    Source: Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 4.1, on the regularization of
    scale parameters.
    """
    scales = [module.scale for module in flow.modules() if isinstance(module, AffineCoupling)]
    penalty = sum((scale.square().sum() for scale in scales), start=x.new_zeros(()))
    return Loss(-flow.log_prob(x).mean(), weight * penalty)
