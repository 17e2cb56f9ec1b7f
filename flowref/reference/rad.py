"""Real and discrete flows (RAD): the line is divided into regions, each mapped onto all of it, and
a gate gives the probability of each region for a latent.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from flowref.reference.bijection import check_event
from flowref.reference.kernel import Draw, Kernel, Noise, given_or_drawn_noise


class RAD(Kernel):
    r"""The first entry falls into one of K regions between $c_1 < \dots < c_{K-1}$, and each region is
    mapped onto the reals by $f_k$: $V = \log p(k \mid z) + \log|f_k'(x)|$ with k the region of x.

    $f_1(x) = -\log(c_1 - x)$, $f_K(x) = \log(x - c_{K-1})$ and between them
    $f_k(x) = \log\frac{x - c_{k-1}}{c_k - x}$; the other entries stay as they are. The gate is a
    softmax of K numbers for each z. Its density is smooth within regions and falls to zero at the
    boundaries, as the tails of the latents do; a boundary itself counts as the smallest number above.
    ``gate``: maps z `(N, features)` to `(N, K)`; equal shares without one.
    Shapes: x and z `(N, features)`, V `(N,)`; noise of the inverse: uniform, one number a row, which
    picks k by the gate's cumulated shares.
    Raises: `ValueError` for boundaries that do not increase, and for a gate of another size.
    Source: Dinh et al. 2019, A RAD approach to deep mixture models (arXiv:1903.07714).
    """

    stochastic_inverse = True
    boundaries: Tensor

    def __init__(
        self, features: int, boundaries: tuple[float, ...], gate: nn.Module | None = None
    ) -> None:
        super().__init__()
        ends = torch.tensor(boundaries, dtype=torch.get_default_dtype())
        if len(ends) == 0 or bool((ends.diff() <= 0).any()):
            raise ValueError(f"got boundaries={boundaries}; expected one at least, increasing")
        self.features, self.regions, self.gate = features, len(ends) + 1, gate
        self.register_buffer("boundaries", ends)

    def inverse_draws(self, z: Tensor) -> tuple[Draw, ...]:
        """The uniform number that selects the region."""
        return (Draw("uniform", ()),)

    def forward(self, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, V)`."""
        check_event(x, (self.features,), "a RAD layer")
        given_or_drawn_noise(noise, (), x)
        first = x[:, 0]
        region = (first[:, None] >= self.boundaries).sum(1)
        above, below = self._distances(first, region)
        # An outer region is unbounded on one side: that logarithm, and its slope, are 0.
        lower, upper = (region > 0), (region < self.regions - 1)
        latent = torch.where(lower, above.log(), 0.0) - torch.where(upper, below.log(), 0.0)
        slope = torch.where(lower, 1 / above, 0.0) + torch.where(upper, 1 / below, 0.0)
        z = torch.cat((latent[:, None], x[:, 1:]), 1)
        chosen = self.log_gate(z).gather(1, region[:, None])[:, 0]
        return z, chosen + slope.log()

    def inverse(self, z: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, V')`."""
        check_event(z, (self.features,), "a RAD layer")
        (uniform,) = given_or_drawn_noise(noise, self.inverse_draws(z), z)
        log_gate, first = self.log_gate(z), z[:, 0]
        shares = log_gate.exp().cumsum(1)[:, :-1]
        region = (uniform[:, None] >= shares).sum(1)
        low, high = self._ends(region)
        lower, upper = (region > 0), (region < self.regions - 1)
        width = torch.where(lower & upper, high - low, 1.0)
        inner = torch.where(
            first < 0, low + width * first.sigmoid(), high - width * (-first).sigmoid()
        )
        # An exponential that is not selected must not overflow: its gradient would be NaN.
        up, down = torch.where(upper, 0.0, first), torch.where(lower, 0.0, first)
        outer = torch.where(lower, low + up.exp(), high - torch.exp(-down))
        x = torch.where(lower & upper, inner, outer)
        # log|dx/dz| from z alone: near a boundary the distance of x to it has lost its digits.
        log_inner = width.log() + logsigmoid(first) + logsigmoid(-first)
        log_slope = torch.where(lower & upper, log_inner, torch.where(lower, first, -first))
        chosen = log_gate.gather(1, region[:, None])[:, 0]
        return torch.cat((x[:, None], z[:, 1:]), 1), log_slope - chosen

    def log_gate(self, z: Tensor) -> Tensor:
        r"""$\log p(k \mid z)$, `(N, K)`."""
        numbers = z.new_zeros(len(z), self.regions) if self.gate is None else self.gate(z)
        if numbers.shape != (len(z), self.regions):
            raise ValueError(
                f"the gate gave shape {tuple(numbers.shape)}; expected {(len(z), self.regions)}"
            )
        return numbers.log_softmax(1)

    def _ends(self, region: Tensor) -> tuple[Tensor, Tensor]:
        """The ends of regions; for an outer one its only end, twice."""
        last = self.regions - 2
        return (
            self.boundaries[(region - 1).clamp(min=0)],
            self.boundaries[region.clamp(max=last)],
        )

    def _distances(self, first: Tensor, region: Tensor) -> tuple[Tensor, Tensor]:
        """Distances from the lower and the upper end of the region; 1 on an unbounded side."""
        low, high = self._ends(region)
        tiny = torch.finfo(first.dtype).tiny
        above = torch.where(region > 0, (first - low).clamp(min=tiny), 1.0)
        return above, torch.where(region < self.regions - 1, high - first, 1.0)
