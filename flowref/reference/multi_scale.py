"""Multi-scale architecture: after each level half of the channels become latents, and the rest
pass to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from flowref.reference.bijection import Bijection, check_event, no_ladj


class Split(nn.Module):
    """The channels in two halves: the first passes to the next level, the second becomes
    latents.
    """

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """`(N, C, ...)` to two of `(N, C/2, ...)`; raises `ValueError` for odd C."""
        if x.shape[1] % 2:
            raise ValueError(f"got {x.shape[1]} channels; expected an even number, to be halved")
        first, second = x.chunk(2, 1)
        return first, second

    def inverse(self, going_on: Tensor, leaving: Tensor) -> Tensor:
        """Concatenates two of `(N, C/2, ...)`."""
        return torch.cat((going_on, leaving), 1)


class MultiScale(Bijection):
    r"""Levels of maps with a `Split` after each but the last: $(h_{k+1}, z_k) = f_k(h_k)$, $z_L =
    f_L(h_L)$.

    z is $(z_1, \dots, z_L)$, each flattened, the finest first; it has as many entries as x.
    ladj: the sum over the levels.  Inverse: from the last level back.

    ``shapes``: the shape of each $z_k$, without the batch.
    Shapes: x `(N, C, H, W)`, z `(N, C H W)`, ladj `(N,)`.
    Raises: `ValueError` for shapes that are not those of the levels.
    Source: Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 3.6.
    """

    def __init__(self, levels: Sequence[Bijection], shapes: Sequence[tuple[int, ...]]) -> None:
        super().__init__()
        if len(levels) != len(shapes) or not levels:
            raise ValueError(
                f"got {len(levels)} levels and {len(shapes)} shapes; expected one of each per level"
            )
        self.levels, self.split = nn.ModuleList(levels), Split()
        self.shapes = [tuple(shape) for shape in shapes]
        ends = [0]
        for shape in self.shapes:
            ends.append(ends[-1] + math.prod(shape))
        self.slices = [slice(start, end) for start, end in pairwise(ends)]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        total, leaving = no_ladj(x), []
        for index, level in enumerate(self.levels):
            x, ladj = level(x)
            total = total + ladj
            if index < len(self.levels) - 1:
                x, z = self.split(x)
            else:
                z = x
            check_event(z, self.shapes[index], f"the latents of level {index}")
            leaving.append(z.flatten(1))
        return torch.cat(leaving, 1), total

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        check_event(z, (self.slices[-1].stop,), "all latents")
        total, parts = no_ladj(z), self.scales(z)
        x = parts[-1]
        for index in range(len(self.levels) - 1, -1, -1):
            if index < len(self.levels) - 1:
                x = self.split.inverse(x, parts[index])
            x, ladj = self.levels[index].inverse(x)  # type: ignore[operator]  # a bijection, as given
            total = total + ladj
        return x, total

    def scales(self, z: Tensor) -> list[Tensor]:
        """The latents of each level, `(N, *shape)`, the finest first."""
        return [
            z[:, part].unflatten(1, shape)
            for part, shape in zip(self.slices, self.shapes, strict=True)
        ]
