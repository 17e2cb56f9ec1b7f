"""Autoregressive flows: each entry is transformed by functions of the entries before it, which one
masked network computes for all entries in a single pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from flowref.reference.bijection import Bijection, check_event, over_event
from flowref.reference.spline import SplineLayer, Tails


class MaskedLinear(nn.Linear):
    """A linear layer with masked weights; ``mask``: `(outputs, inputs)`, True where a weight is
    used.
    """

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__(mask.shape[1], mask.shape[0])
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        """Wx + b with the masked W."""
        # By selection: an infinite weight under the mask must not become NaN.
        return linear(x, torch.where(self.mask, self.weight, 0.0), self.bias)


class MADE(nn.Sequential):
    """A network whose outputs for the entry at place $i$ depend only on entries at places before
    $i$.

    Units have degrees: an input its place in the order, from 1, and hidden ones 1 to D - 1, spread
    evenly; a unit sees those of no higher degree, and an output those of a lower degree than its
    entry's. With fewer hidden units than D - 1 some allowed dependencies are absent. The last layer
    starts at zero.

    ``order``: the place of each entry, a permutation of 0, ..., D - 1; None for the natural order.
    Shapes: `(N, D)` to `(N, D, outputs)`.
    Raises: `ValueError` for an order that is no permutation, and without a hidden layer.
    Source: Germain et al. 2015, MADE (arXiv:1502.03509), section 4.
    """

    def __init__(
        self,
        features: int,
        outputs: int,
        hidden: Sequence[int] = (64, 64),
        order: Sequence[int] | None = None,
        activation: type[nn.Module] = nn.ReLU,
    ) -> None:
        places = list(range(features)) if order is None else list(order)
        if sorted(places) != list(range(features)):
            raise ValueError(
                f"got order={places} for {features} features; expected each of 0 to {features - 1} once"
            )
        if not hidden or min(hidden) < 1:
            raise ValueError(
                f"got hidden={list(hidden)}; expected a layer at least, none of them empty"
            )
        most = max(1, features - 1)
        degrees = [torch.tensor(places) + 1]
        degrees += [1 + torch.arange(units) * most // units for units in hidden]
        layers: list[nn.Module] = []
        for before, after in pairwise(degrees):
            layers += [MaskedLinear(after[:, None] >= before), activation()]
        ends = degrees[0].repeat_interleave(outputs)
        last = MaskedLinear(ends[:, None] > degrees[-1])
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        super().__init__(*layers, last, nn.Unflatten(1, (features, outputs)))


class MaskedAutoregressive(Bijection):
    r"""$z_i = (x_i - \mu_i)\,e^{-\alpha_i}$ with $\mu_i, \alpha_i$ functions of the entries before
    the i-th: MAF. Its reversal, `Inverse`, is IAF, which samples in one pass.

    ladj: $-\sum_i \alpha_i$.  Inverse: $x_i = z_i\,e^{\alpha_i} + \mu_i$, entry by entry: D passes of
    the network, each of which finds the next one.
    Starts as the identity.
    Shapes: x and z `(N, features)`, ladj `(N,)`.  Units: nats.
    Raises: `ValueError` for another number of features, and as `MADE`.
    Source: Papamakarios et al. 2017, Masked Autoregressive Flow (arXiv:1705.07057), sections 3.1 and
    3.2; Kingma et al. 2016, Inverse Autoregressive Flow (arXiv:1606.04934).
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (64, 64),
        order: Sequence[int] | None = None,
        activation: type[nn.Module] = nn.ReLU,
    ) -> None:
        super().__init__()
        self.features = features
        self.conditioner = MADE(features, 2, hidden, order, activation)
        self.order = tuple(range(features) if order is None else order)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        check_event(x, (self.features,), "an autoregressive flow")
        mean, log_scale = self.conditioner(x).unbind(-1)
        return (x - mean) * torch.exp(-log_scale), -over_event(log_scale)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        check_event(z, (self.features,), "an autoregressive flow")
        x = torch.zeros_like(z)
        log_scale = x
        for entry in in_turn(self.order):
            mean, log_scale = self.conditioner(x).unbind(-1)
            x = with_entry(x, entry, z * log_scale.exp() + mean)
        return x, over_event(log_scale)


class AutoregressiveSpline(SplineLayer):
    r"""$z_i = \mathrm{spline}(x_i; \theta_i(x_{<i}))$ with a rational-quadratic spline.

    ladj: the sum of the logarithms of the slopes.  Inverse: D passes, as `MaskedAutoregressive`.
    Shapes: x and z `(N, features)`, ladj `(N,)`.  Units: nats.
    Raises: `ValueError` as `MaskedAutoregressive`, and without tails for a point outside the box.
    Source: Durkan et al. 2019, Neural Spline Flows (arXiv:1906.04032), section 3.
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (64, 64),
        order: Sequence[int] | None = None,
        bins: int = 8,
        bound: float = 3.0,
        tails: Tails = "linear",
    ) -> None:
        super().__init__(bins, bound, tails)
        self.features = features
        self.conditioner = MADE(features, self.numbers, hidden, order)
        self.order = tuple(range(features) if order is None else order)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        check_event(x, (self.features,), "an autoregressive flow")
        z, log_slope = self.spline(x, self.conditioner(x))
        return z, over_event(log_slope)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        check_event(z, (self.features,), "an autoregressive flow")
        x = torch.zeros_like(z)
        log_slope = x
        for entry in in_turn(self.order):
            found, log_slope = self.spline(z, self.conditioner(x), back=True)
            x = with_entry(x, entry, found)
        return x, over_event(log_slope)


def in_turn(order: Sequence[int]) -> list[int]:
    """The entries in the order in which the inverse finds them; ``order``: the place of each
    entry.
    """
    return sorted(range(len(order)), key=lambda entry: order[entry])


def with_entry(x: Tensor, entry: int, values: Tensor) -> Tensor:
    """Returns x with one entry of each row taken from values. Entries not found yet stay zero:
    network outputs for them could overflow, and affect others as 0 times infinity.
    """
    here = torch.arange(x.shape[1], device=x.device) == entry
    return torch.where(here, values, x)
