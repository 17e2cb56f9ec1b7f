"""Surjections that drop information: absolute values, slices, orders, maxima and fractional parts.
The inverse draws what was dropped; `Reversed` turns each into a layer that adds it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from flowref.reference.bijection import check_event, over_event
from flowref.reference.density import LOG_2_PI
from flowref.reference.dequantize import check_levels
from flowref.reference.kernel import Draw, Kernel, Noise, Reversed, Shape, given_or_drawn_noise


class Abs(Kernel):
    r"""$z = |x|$; both signs are equally likely: $V = \log p(s \mid z) = -D \log 2$.

    Shapes: x and z `(N, *event)`, V `(N,)`; noise of the inverse: choices of 2, 1 for a minus.
    Raises: `ValueError` from `inverse` for a negative number.
    Source: Nielsen et al. 2020, SurVAE Flows (arXiv:2007.02731)
    """

    stochastic_inverse = True

    def inverse_draws(self, z: Tensor) -> tuple[Draw, ...]:
        """A sign for each entry."""
        return (Draw("choice", tuple(z.shape[1:]), 2),)

    def forward(self, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, V)`."""
        given_or_drawn_noise(noise, (), x)
        return x.abs(), x.new_full((len(x),), -x.shape[1:].numel() * math.log(2))

    def inverse(self, z: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, V')`."""
        if bool((z < 0).any()):
            raise ValueError(f"got values down to {float(z.min()):g}; expected none below 0")
        (minus,) = given_or_drawn_noise(noise, self.inverse_draws(z), z)
        cost = z.new_full((len(z),), z.shape[1:].numel() * math.log(2))
        return torch.where(minus.bool(), -z, z), cost


class ConditionalNormal(nn.Module):
    r"""$e \sim N(\mu(g), \sigma(g)^2)$, entry by entry, with $(\mu, \log\sigma)$ given by a network, or
    standard normal without one.

    Shapes: g `(N, given)`, e `(N, features)`; the network maps `(N, given)` to `(N, 2 features)`.
    """

    def __init__(self, features: int, network: nn.Module | None = None) -> None:
        super().__init__()
        self.features, self.network = features, network

    def moments(self, given: Tensor) -> tuple[Tensor, Tensor]:
        """Means and logarithms of deviations, `(N, features)` each."""
        if self.network is None:
            zero = given.new_zeros(len(given), self.features)
            return zero, zero
        out = self.network(given)
        if out.shape != (len(given), 2 * self.features):
            raise ValueError(
                f"the network gave shape {tuple(out.shape)}; expected {(len(given), 2 * self.features)}"
            )
        mean, log_scale = out.chunk(2, 1)
        return mean, log_scale

    def of_noise(self, noise: Tensor, given: Tensor) -> Tensor:
        """Maps standard normal noise `(N, features)` to draws of this distribution."""
        mean, log_scale = self.moments(given)
        return mean + log_scale.exp() * noise

    def log_prob(self, value: Tensor, given: Tensor) -> Tensor:
        """The log-density of each row, `(N,)`."""
        mean, log_scale = self.moments(given)
        standard = (value - mean) * torch.exp(-log_scale)
        return -over_event(0.5 * (standard.square() + LOG_2_PI) + log_scale)


class Slice(Kernel):
    r"""$z = x_{1:k}$, and the rest is dropped: $V = \log p(x_{k+1:D} \mid z)$.

    Shapes: x `(N, kept + density.features)`, z `(N, kept)`, V `(N,)`; noise of the inverse: normal,
    one number for each dropped entry.
    Raises: `ValueError` for events of another size.
    Source: Nielsen et al. 2020, SurVAE Flows (arXiv:2007.02731)
    """

    stochastic_inverse = True

    def __init__(self, kept: int, density: ConditionalNormal) -> None:
        super().__init__()
        if kept < 1:
            raise ValueError(f"got kept={kept}; expected one entry at least")
        self.kept, self.density = kept, density

    def inverse_draws(self, z: Tensor) -> tuple[Draw, ...]:
        """Noise of the dropped entries."""
        return (Draw("normal", (self.density.features,)),)

    def latent_shape(self, event_shape: Shape) -> Shape:
        """The kept entries."""
        return (self.kept,)

    def event_shape(self, latent_shape: Shape) -> Shape:
        """The kept and the dropped entries."""
        return (self.kept + self.density.features,)

    def forward(self, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, V)`."""
        given_or_drawn_noise(noise, (), x)
        check_event(x, (self.kept + self.density.features,), "a slice")
        z, rest = x.split([self.kept, self.density.features], 1)
        return z, self.density.log_prob(rest, z)

    def inverse(self, z: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, V')`."""
        check_event(z, (self.kept,), "what a slice keeps")
        (standard,) = given_or_drawn_noise(noise, self.inverse_draws(z), z)
        rest = self.density.of_noise(standard, z)
        return torch.cat((z, rest), 1), -self.density.log_prob(rest, z)


def augment(features: int, added: int, network: nn.Module | None = None) -> Reversed:
    r"""Augments data with noise $e \sim q(e \mid x)$: $z = (x, e)$, $V = -\log q(e \mid x)$.

    ``network``: returns mean and log-deviation of e for x; without one e is standard normal.
    Source: Huang et al. 2020, Augmented Normalizing Flows (arXiv:2002.07101).
    """
    return Reversed(Slice(features, ConditionalNormal(added, network)))


class Sort(Kernel):
    r"""The entries in increasing order; all orders are equally likely: $V = -\log D!$.

    Shapes: x and z `(N, D)`, V `(N,)`; noise of the inverse: uniform, one number for each entry, whose
    order the entries take.
    Source: Nielsen et al. 2020, SurVAE Flows (arXiv:2007.02731)
    """

    stochastic_inverse = True

    def inverse_draws(self, z: Tensor) -> tuple[Draw, ...]:
        """Uniform numbers, whose order is random."""
        return (Draw("uniform", tuple(z.shape[1:])),)

    def forward(self, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, V)`."""
        given_or_drawn_noise(noise, (), x)
        if x.dim() != 2:
            raise ValueError(f"got a batch of shape {tuple(x.shape)}; expected vectors")
        return x.sort(1).values, x.new_full((len(x),), -math.lgamma(x.shape[1] + 1))

    def inverse(self, z: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, V')`."""
        if z.dim() != 2 or bool((z.diff(dim=1) < 0).any()):
            raise ValueError(
                f"got a batch of shape {tuple(z.shape)}; expected vectors with entries that increase"
            )
        (keys,) = given_or_drawn_noise(noise, self.inverse_draws(z), z)
        return z.gather(1, keys.argsort(1)), z.new_full((len(z),), math.lgamma(z.shape[1] + 1))


class MaxPool(Kernel):
    r"""The maximum of each 2 x 2 window. Its position is uniform, and the distance of each other
    pixel below it is half-normal with deviation $\sigma$: $V = \sum -\log 4 + \sum \log p(z -
    x)$ over windows and the three others.

    Shapes: x `(N, C, 2H, 2W)`, z `(N, C, H, W)`, V `(N,)`; noise of the inverse: choices of 4, and
    three normal numbers for each window.
    Raises: `ValueError` for odd heights and widths.
    Source: Nielsen et al. 2020, SurVAE Flows (arXiv:2007.02731).
    """

    stochastic_inverse = True

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        if not scale > 0:
            raise ValueError(f"got scale={scale}; expected a positive number")
        self.scale = scale

    def inverse_draws(self, z: Tensor) -> tuple[Draw, ...]:
        """The position of the maximum, and the distances of the others below it."""
        windows = tuple(z.shape[1:])
        return Draw("choice", windows, 4), Draw("normal", (*windows, 3))

    def latent_shape(self, event_shape: Shape) -> Shape:
        """Half the height and half the width."""
        channels, height, width = event_shape
        return (channels, height // 2, width // 2)

    def event_shape(self, latent_shape: Shape) -> Shape:
        """Twice the height and twice the width."""
        channels, height, width = latent_shape
        return (channels, 2 * height, 2 * width)

    def forward(self, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, V)`."""
        given_or_drawn_noise(noise, (), x)
        if x.dim() != 4 or x.shape[2] % 2 or x.shape[3] % 2:
            raise ValueError(
                f"got a batch of shape {tuple(x.shape)}; expected images of even height and width"
            )
        windows = x.unflatten(3, (-1, 2)).unflatten(2, (-1, 2)).transpose(3, 4).flatten(4)
        z = windows.amax(-1)
        # The maximum has distance 0: its own term is part of the constant.
        below = (z[..., None] - windows) / self.scale
        return z, self._contribution(over_event(below.square()), z)

    def inverse(self, z: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, V')`."""
        if z.dim() != 4:
            raise ValueError(f"got a batch of shape {tuple(z.shape)}; expected images")
        where, normal = given_or_drawn_noise(noise, self.inverse_draws(z), z)
        others = z[..., None] - self.scale * normal.abs()
        slots = torch.arange(4, device=z.device)
        # The other three keep their order; the maximum is the fourth here.
        place = torch.where(slots < where[..., None], slots, slots - 1)
        place = torch.where(slots == where[..., None], 3, place)
        windows = torch.cat((others, z[..., None]), -1).gather(-1, place)
        x = windows.unflatten(-1, (2, 2)).transpose(3, 4).flatten(4, 5).flatten(2, 3)
        return x, -self._contribution(over_event(normal.square()), z)

    def _contribution(self, squares: Tensor, z: Tensor) -> Tensor:
        each = math.log(2) - math.log(self.scale) - 0.5 * LOG_2_PI
        return z.shape[1:].numel() * (3 * each - math.log(4)) - 0.5 * squares


class Rounding(Kernel):
    r"""$k = \lfloor x \rfloor$ for x in $[0, b)$; the fractional part is uniform: $V = 0$.

    Its reversal is dequantization, $x = k + u$ (see `Dequantize`, which is that alone).
    Shapes: x and k `(N, *event)`, V `(N,)`; noise of the inverse: uniform.
    Raises: `ValueError` for numbers outside $[0, b)$, and from `inverse` for other than levels.
    Source: Nielsen et al. 2020, SurVAE Flows (arXiv:2007.02731)
    """

    stochastic_inverse = True

    def __init__(self, bins: int = 256) -> None:
        super().__init__()
        self.bins = bins

    def inverse_draws(self, z: Tensor) -> tuple[Draw, ...]:
        """The fractional parts."""
        return (Draw("uniform", tuple(z.shape[1:])),)

    def forward(self, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Reals to levels, `(k, V)`."""
        given_or_drawn_noise(noise, (), x)
        if bool(((x < 0) | (x >= self.bins)).any()):
            least, most = x.aminmax()
            raise ValueError(f"got values from {least:g} to {most:g}; expected [0, {self.bins})")
        return x.floor(), x.new_zeros(len(x))

    def inverse(self, z: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Levels to reals, `(x, V')`."""
        check_levels(z, self.bins)
        (fraction,) = given_or_drawn_noise(noise, self.inverse_draws(z), z)
        # k + u can round up to the next level.
        return torch.minimum(z + fraction, torch.nextafter(z + 1, z)), z.new_zeros(len(z))
