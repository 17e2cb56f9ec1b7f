"""A bug in one layer of a stack, whose sum no bug explains, is told of that layer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import flowref
from flowref.model import Status

LAW = "map/log-det"


class Coupling(nn.Module):
    """An affine coupling of four features, the second half first or last; ``total`` makes the
    log-det of the logarithms of its scales.
    """

    def __init__(self, total: Callable[[Tensor], Tensor], flip: bool) -> None:
        super().__init__()
        self.total, self.flip = total, flip
        generator = torch.Generator().manual_seed(5 + flip)
        self.weight = nn.Parameter(torch.randn(2, 4, generator=generator, dtype=torch.float64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents."""
        a, b = x.flip(-1).chunk(2, -1) if self.flip else x.chunk(2, -1)
        scale, shift = torch.tanh(a @ self.weight + 0.3).chunk(2, -1)
        return torch.cat([a, b * scale.exp() + shift], -1), self.total(scale)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data."""
        a, b = z.chunk(2, -1)
        scale, shift = torch.tanh(a @ self.weight + 0.3).chunk(2, -1)
        x = torch.cat([a, (b - shift) * (-scale).exp()], -1)
        return x.flip(-1) if self.flip else x, -scale.sum(-1)


class Stack(nn.Module):
    """Two couplings, the second with a log-det of choice."""

    event_shape = (4,)

    def __init__(self, total: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Coupling(summed, False), Coupling(total, True)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents."""
        ladj = x.new_zeros(len(x))
        for layer in self.layers:
            x, more = layer(x)
            ladj = ladj + more
        return x, ladj

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data."""
        ladj = z.new_zeros(len(z))
        for layer in reversed(self.layers):
            z, more = layer.inverse(z)  # type: ignore[operator]  # a ModuleList forgets its kind
            ladj = ladj + more
        return z, ladj


def summed(scale: Tensor) -> Tensor:
    """As it should be."""
    return scale.sum(-1)


def averaged(scale: Tensor) -> Tensor:
    """A mean in place of the sum."""
    return scale.mean(-1)


def bent(scale: Tensor) -> Tensor:
    """What no bug of the catalogue gives."""
    return scale.sum(-1) + 0.1 * torch.sin(7 * scale).sum(-1)


@pytest.mark.parametrize(
    ("total", "told"),
    [
        (averaged, "in part 2 of 2 (Coupling) the log-det of forward is 1/2 of the right one"),
        (bent, ""),
    ],
)
def test_a_layer_is_named_with_its_bug(total: Callable[[Tensor], Tensor], told: str) -> None:
    """The sentence names the layer and what is wrong with it; where nothing fits the layer either,
    nothing is said.
    """
    verdict = flowref.check(Stack(total), LAW, flowref.Settings("quick"))
    assert verdict.status is Status.VIOLATED
    assert "part 2 of 2" in verdict.part
    assert verdict.diagnosis.startswith(told) if told else verdict.diagnosis == ""


def test_a_sound_stack_is_accused_of_nothing() -> None:
    """The stack itself is right."""
    verdict = flowref.check(Stack(summed), LAW, flowref.Settings("quick"))
    assert verdict.status is Status.HOLDS
