r"""The shapes of what is measured, and the reference in each, also with the formulas of other
libraries.

A case of another library is compared with the reference evaluated with that library's own formula
for the log-scale, $s(r)$: a conditioner that gives $\operatorname{atanh}(s(r) / c)$ in place of
$r$, and the learned scale at $c = 8$, make the reference's $c \tanh$ that function.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from ._peers import Model, Peer
from ._sizes import Architecture

# (batch, channels, height, width)
BATCH_NORM_SHAPES = {
    "small": (32, 16, 16, 16),
    "medium": (32, 64, 32, 32),
    "large": (64, 128, 56, 56),
}
WIDEST_SCALE = 8.0


IMAGES = {
    "small": Architecture((4, 8, 8), 4, (16, 16), 16),
    "medium": Architecture((12, 16, 16), 4, (32, 32), 32),
    "large": Architecture((12, 32, 32), 8, (64, 64), 32),
}
# Arguments of the reference's multi-scale model of images, and the batch.
MULTI_SCALE: dict[str, tuple[tuple[tuple[int, int, int], dict[str, Any]], int]] = {
    "small": (((1, 8, 8), {"scales": 2, "couplings": 1, "final": 2, "hidden": 8, "blocks": 1}), 16),
    "medium": (
        ((3, 16, 16), {"scales": 2, "couplings": 3, "final": 4, "hidden": 16, "blocks": 1}),
        16,
    ),
    "large": (
        ((3, 32, 32), {"scales": 3, "couplings": 3, "final": 4, "hidden": 32, "blocks": 2}),
        16,
    ),
}


def conditioner(architecture: Architecture, index: int) -> nn.Sequential:
    """The network of one coupling, with weights drawn for its index; 3x3 and 1x1 convolutions for
    images.
    """
    half = architecture.event[0] // 2
    widths = [half, *architecture.hidden, 2 * half]
    layers: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1000 + index)
        for place, (before, after) in enumerate(pairwise(widths)):
            if len(architecture.event) == 1:
                layers += [nn.Linear(before, after), nn.ReLU()]
            else:
                size = 3 if place in (0, len(widths) - 2) else 1
                layers += [nn.Conv2d(before, after, size, padding=size // 2), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def conditioners(architecture: Architecture) -> list[nn.Sequential]:
    """The networks of all couplings."""
    return [conditioner(architecture, index) for index in range(architecture.depth)]


def data(shape: tuple[int, ...], device: str = "cpu", seed: int = 0) -> Tensor:
    """Standard normal numbers, the same on every device."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


class Recast(nn.Module):
    """A conditioner whose numbers make the reference's log-scale the function of a library."""

    def __init__(self, net: nn.Module, log_scale: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.log_scale = net, log_scale

    def forward(self, x: Tensor) -> Tensor:
        """The numbers, those of the scale first."""
        r, t = self.net(x).chunk(2, 1)
        return torch.cat((torch.atanh(self.log_scale(r) / WIDEST_SCALE), t), 1)


def reference_coupling(
    net: nn.Sequential, first: bool, log_scale: Callable[[Tensor], Tensor] | None = None
) -> Any:
    """The reference's coupling of halves, with its own log-scale or that of a library."""
    from flowref import reference as ref

    last: Any = net[-1]  # gives two numbers per entry
    layer = ref.AffineCoupling(ref.channel_mask(len(last.bias), int(not first)), net)
    if log_scale is not None:
        layer.conditioner = Recast(net, log_scale)
        with torch.no_grad():
            layer.scale.fill_(WIDEST_SCALE)
    return layer


def reference_flow(architecture: Architecture, peer: Peer | None = None) -> Any:
    """The reference's flow, or with the formula and the direction of a library."""
    from flowref import reference as ref

    log_scale = None if peer is None else peer.log_scale
    nets = conditioners(architecture)
    chain = ref.Chain(
        *(reference_coupling(net, index % 2 == 1, log_scale) for index, net in enumerate(nets))
    )
    bijection = ref.Inverse(chain) if peer is not None and peer.backwards else chain
    return ref.Flow(ref.StandardNormal(architecture.event), bijection)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """One graph or an error: a break would be measured as if it were none."""
    result: Callable[..., Any] = torch.compile(function, fullgraph=True)
    return result


def reference_model(flow: Any, impl: str, whole: bool = True) -> Model:
    """The reference as it is, or with its two directions compiled; ``whole``: as one graph each."""
    if impl == "flowref":
        return Model(flow, flow.log_prob, flow.sample)
    turned: Any = compiled if whole else torch.compile
    inverse = turned(flow.bijection.inverse)

    @torch.no_grad()
    def sample(n: int) -> Tensor:
        x: Tensor = inverse(flow.base.sample(n))[0]
        return x

    return Model(flow, turned(flow.log_prob), sample)
