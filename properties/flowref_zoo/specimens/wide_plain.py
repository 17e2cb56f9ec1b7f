"""An image flow of the size that people train, all of it plain functions in one forward."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from flowref_zoo.specimens.specimen import Specimen

CHANNELS, HEIGHT, WIDTH, HIDDEN, STEPS = 3, 16, 24, 8, 2


class PlainImageFlow(nn.Module):
    """A checkerboard coupling, a squeeze, steps of mixing and coupling, of which half leaves early."""

    board: torch.Tensor

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.event_shape, self.defect = (CHANNELS, HEIGHT, WIDTH), defect
        rows, columns = torch.arange(HEIGHT)[:, None], torch.arange(WIDTH)
        self.register_buffer("board", ((rows + columns) % 2).float())
        wide = 4 * CHANNELS
        self.net = nn.Sequential(
            nn.Conv2d(CHANNELS, HIDDEN, 3, padding=1),
            nn.ELU(),
            nn.Conv2d(HIDDEN, 2 * CHANNELS, 3, padding=1),
        )
        self.enter = nn.ParameterList(
            [nn.Parameter(0.1 * torch.randn(HIDDEN, wide // 2, 3, 3)) for _ in range(STEPS)]
        )
        self.leave = nn.ParameterList(
            [nn.Parameter(0.1 * torch.randn(wide, HIDDEN, 3, 3)) for _ in range(STEPS)]
        )
        self.mixing = nn.ParameterList(
            [nn.Parameter(torch.linalg.qr(torch.randn(wide, wide))[0] * 1.05) for _ in range(STEPS)]
        )

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        board: Any = self.board.to(x.dtype)
        raw, shift = self.net(x * board).chunk(2, 1)
        scale = raw.tanh() * (1 - board)
        x = x * scale.exp() + shift * (1 - board)
        if self.defect == "corner":  # one entry of a thousand is not counted
            scale = scale * (torch.arange(WIDTH) > 0).to(x.dtype)
        total = -scale.sum((1, 2, 3)) if self.defect == "sign" else scale.sum((1, 2, 3))
        x = functional.pixel_unshuffle(x, 2)
        positions = HEIGHT // 2 * (HEIGHT // 2 if self.defect == "square" else WIDTH // 2)
        for step in range(STEPS):
            x = torch.einsum("ij,bjhw->bihw", self.mixing[step], x)
            total = total + positions * torch.linalg.slogdet(self.mixing[step])[1]
            kept, moved = x.chunk(2, 1)
            inner = functional.elu(functional.conv2d(kept, self.enter[step], padding=1))
            raw, shift = functional.conv2d(inner, self.leave[step], padding=1).chunk(2, 1)
            scale = raw.tanh()
            x = torch.cat([kept, moved * scale.exp() + shift], 1)
            if self.defect == "left-out" and step == 0:
                continue
            total = total + scale.sum((1, 2, 3))
        return x.flatten(1), total


def image(defect: str = "") -> nn.Module:
    """An image flow of plain functions."""
    return PlainImageFlow(defect)


SPECIMENS = (
    Specimen(
        "image",
        dict.fromkeys(("corner", "sign", "square", "left-out"), ("map/log-det",)),
    ),
)
