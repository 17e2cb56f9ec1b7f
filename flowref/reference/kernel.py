"""Kernels: maps that may draw noise in either direction, and return the contribution of each call
to a log-likelihood. Bijections, surjections, augmentations and Markov chains have this form.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from flowref.reference.bijection import Bijection
from flowref.reference.density import StandardNormal

Noise = tuple[Tensor, ...]
Shape = tuple[int, ...]


class Draw(NamedTuple):
    """One tensor of noise, `(N, *shape)`: standard normal, uniform on [0, 1), or uniform integers
    from 0 to choices - 1.
    """

    kind: Literal["normal", "uniform", "choice"]
    shape: Shape
    choices: int = 0


class Kernel(nn.Module, ABC):
    r"""A joint distribution of x and z: ``forward`` draws from $q(z \mid x)$, ``inverse`` from $p(x
    \mid z)$.

    ``forward(x) -> (z, V)`` with $V = \log p(x \mid z) - \log q(z \mid x)$, and
    ``inverse(z) -> (x, V')`` with $V' = -V$ of the pair: then
    $\log p(x) = \log p_Z(z) + V$, exactly if forward draws nothing, and in the mean of the
    exponential if it does. A deterministic one-to-one map contributes its log-det.
    ``noise``: one tensor for each `Draw` of the direction, so that random results can be enumerated;
    drawn from torch's generator if it is not given.
    Shapes: x `(N, *event)`, z `(N, *latent)`, V `(N,)`.  Units: nats.
    Raises: `ValueError` for noise of other shapes or in a direction without draws, and for choices out
    of range.
    Source: Nielsen et al. 2020, SurVAE Flows (arXiv:2007.02731); Wu et al. 2020,
    Stochastic Normalizing Flows (arXiv:2002.06707), for the second form of V.
    """

    stochastic_forward: bool = False
    stochastic_inverse: bool = False

    @property
    def bijective(self) -> bool:
        """Whether neither direction draws noise."""
        return not (self.stochastic_forward or self.stochastic_inverse)

    def forward_draws(self, x: Tensor) -> tuple[Draw, ...]:
        """The noise that ``forward`` draws for a batch."""
        return ()

    def inverse_draws(self, z: Tensor) -> tuple[Draw, ...]:
        """The noise that ``inverse`` draws for a batch."""
        return ()

    def latent_shape(self, event_shape: Shape) -> Shape:
        """The shape of z for events of a shape."""
        return event_shape

    def event_shape(self, latent_shape: Shape) -> Shape:
        """The shape of an event for z of a shape."""
        return latent_shape

    @abstractmethod
    def forward(self, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, V)`."""

    @abstractmethod
    def inverse(self, z: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, V')`."""


class Reversed(Kernel):
    """A kernel with its directions exchanged; the contributions are those of the other direction.

    The reversal of a surjection that drops information is one that adds noise: of `Slice`
    augmentation, of `Rounding` dequantization, of `Abs` the choice of a sign.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.stochastic_forward = kernel.stochastic_inverse
        self.stochastic_inverse = kernel.stochastic_forward

    def forward_draws(self, x: Tensor) -> tuple[Draw, ...]:
        """The draws of the kernel's inverse."""
        return self.kernel.inverse_draws(x)

    def inverse_draws(self, z: Tensor) -> tuple[Draw, ...]:
        """The draws of the kernel's forward."""
        return self.kernel.forward_draws(z)

    def latent_shape(self, event_shape: Shape) -> Shape:
        """The kernel's event shape."""
        return self.kernel.event_shape(event_shape)

    def event_shape(self, latent_shape: Shape) -> Shape:
        """The kernel's latent shape."""
        return self.kernel.latent_shape(latent_shape)

    def forward(self, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """`inverse` of the kernel."""
        return self.kernel.inverse(x, noise)

    def inverse(self, z: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """`forward` of the kernel."""
        x, contribution = self.kernel(z, noise)
        return x, contribution


class KernelChain(Kernel):
    """Bijections and kernels from left to right; contributions add up.

    Noise: the tensors of all parts, in the order of the calls, or none.
    """

    def __init__(self, *layers: Bijection | Kernel) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.stochastic_forward = any(getattr(one, "stochastic_forward", False) for one in layers)
        self.stochastic_inverse = any(getattr(one, "stochastic_inverse", False) for one in layers)

    def __iter__(self) -> Iterator[Bijection | Kernel]:
        return iter(self.layers)  # type: ignore[arg-type]  # what was given

    def latent_shape(self, event_shape: Shape) -> Shape:
        """The shape of the last part's outputs."""
        for layer in self.layers:
            if isinstance(layer, Kernel):
                event_shape = layer.latent_shape(event_shape)
        return event_shape

    def event_shape(self, latent_shape: Shape) -> Shape:
        """The shape of the first part's inputs."""
        for layer in reversed(self.layers):
            if isinstance(layer, Kernel):
                latent_shape = layer.event_shape(latent_shape)
        return latent_shape

    def forward(self, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, V)`."""
        total, left = x.new_zeros(len(x)), _NoiseShares(noise)
        for layer in self.layers:
            if isinstance(layer, Kernel):
                x, contribution = layer(x, left.share(layer.forward_draws(x)))
            else:
                x, contribution = layer(x)
            total = total + contribution
        left.check()
        return x, total

    def inverse(self, z: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, V')`; the noise of the last part comes first."""
        total, left = z.new_zeros(len(z)), _NoiseShares(noise)
        for layer in reversed(self.layers):
            assert isinstance(layer, Bijection | Kernel)
            if isinstance(layer, Kernel):
                z, contribution = layer.inverse(z, left.share(layer.inverse_draws(z)))
            else:
                z, contribution = layer.inverse(z)
            total = total + contribution
        left.check()
        return z, total


class _NoiseShares:
    """The noise given for a chain, split among its parts."""

    def __init__(self, noise: Noise) -> None:
        self.noise, self.taken = noise, 0

    def share(self, draws: Sequence[Draw]) -> Noise:
        """As many tensors as a part draws, or fewer, which the part rejects."""
        start, self.taken = self.taken, self.taken + len(draws)
        if self.noise and self.taken > len(self.noise):
            raise ValueError(
                f"got {len(self.noise)} tensors of noise for a chain; expected {self.taken} at least, "
                "one for each draw of its parts"
            )
        return self.noise[start : self.taken]

    def check(self) -> None:
        """Raises `ValueError` if there are more tensors than the parts draw."""
        if len(self.noise) > self.taken:
            raise ValueError(
                f"got {len(self.noise)} tensors of noise for a chain; expected {self.taken}, one for "
                "each draw of its parts"
            )


class KernelFlow(nn.Module):
    r"""The density of data that a kernel maps to a base, or an estimate of it: $\log p_Z(z) + V$
    with one drawn z, whose exponential is unbiased.

    So `log_prob` is exact if forward draws nothing, and else a lower bound on average (Jensen);
    `importance_bound` takes the mean of several before the logarithm and approaches $\log p(x)$ from
    below.
    Shapes: x `(N, *event)`, log-density `(N,)`.  Units: nats.
    Source: Nielsen et al. 2020, SurVAE Flows (arXiv:2007.02731); Burda et al. 2016,
    Importance Weighted Autoencoders (arXiv:1509.00519); Huang et al. 2020, Augmented
    Normalizing Flows (arXiv:2002.07101), for augmentation.
    """

    def __init__(self, base: StandardNormal, kernel: Kernel) -> None:
        super().__init__()
        self.base, self.kernel = base, kernel

    @property
    def lower_bound(self) -> bool:
        """Whether `log_prob` is one draw of a bound."""
        return self.kernel.stochastic_forward

    def log_prob(self, x: Tensor, noise: Noise = ()) -> Tensor:
        """The log-density of each row, `(N,)`, or one draw of its bound."""
        z, contribution = self.kernel(x, noise)
        log_density: Tensor = self.base.log_prob(z) + contribution
        return log_density

    def importance_bound(self, x: Tensor, draws: int) -> Tensor:
        r"""$\log \frac1K \sum_k p_Z(z_k)\,e^{V_k}$ with K independent draws of z for each row,
        `(N,)`.
        """
        if draws < 1:
            raise ValueError(f"got draws={draws}; expected one at least")
        values = self.log_prob(x.repeat(draws, *[1] * (x.dim() - 1))).view(draws, len(x))
        return values.logsumexp(0) - math.log(draws)

    @torch.no_grad()
    def sample(self, n: int) -> Tensor:
        """Draws n events, `(n, *event)`."""
        return self.kernel.inverse(self.base.sample(n))[0]


def given_or_drawn_noise(noise: Noise, draws: Sequence[Draw], like: Tensor) -> list[Tensor]:
    """Returns the given noise, or draws it for a batch; raises `ValueError` if its shapes or
    choices do not fit.
    """
    if not noise:
        return [kernel_noise(draw, like) for draw in draws]
    got, expected = (
        [tuple(one.shape) for one in noise],
        [(len(like), *draw.shape) for draw in draws],
    )
    if got != expected:
        raise ValueError(f"got noise of shapes {got}; expected {expected}")
    for one, draw in zip(noise, draws, strict=True):
        wrong = (one < 0) | (one >= draw.choices) | (one != one.round())
        if draw.kind == "choice" and not torch.compiler.is_compiling() and bool(wrong.any()):
            raise ValueError(
                f"got choices from {float(one.min()):g} to {float(one.max()):g}; expected whole numbers "
                f"from 0 to {draw.choices - 1}"
            )
    return list(noise)


def kernel_noise(draw: Draw, like: Tensor) -> Tensor:
    """Draws noise `(N, *draw.shape)` from torch's generator, in the dtype of the batch unless it
    is a choice.
    """
    shape = (len(like), *draw.shape)
    if draw.kind == "choice":
        return torch.randint(draw.choices, shape, device=like.device)
    make = torch.randn if draw.kind == "normal" else torch.rand
    return make(shape, dtype=like.dtype, device=like.device)
