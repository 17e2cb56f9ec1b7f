"""Permutations, whose log-dets are zero: of channels or features, and of positions into
channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from flowref.reference.bijection import Bijection, no_ladj

Order = Literal["pixel_unshuffle", "space_to_depth", "real_nvp"]
ORDERS: tuple[Order, ...] = ("pixel_unshuffle", "space_to_depth", "real_nvp")
# The order of window corners in the paper's code, diagonals first, as indices into
# pixel_unshuffle's 00 01 10 11.
DIAGONALS = (0, 3, 1, 2)


class Permute(Bijection):
    r"""$z_i = x_{\pi(i)}$ along axis 1, features or channels.

    ladj: 0.  Inverse: $x_{\pi(i)} = z_i$.
    Shapes: x and z `(N, C, ...)`, ladj `(N,)`.
    Raises: `ValueError` for indices that are no permutation, and for a wrong size of axis 1.
    """

    order: Tensor
    back: Tensor

    def __init__(self, order: Sequence[int] | Tensor) -> None:
        super().__init__()
        indices = torch.as_tensor(order, dtype=torch.long)
        if indices.dim() != 1 or not torch.equal(indices.sort().values, torch.arange(len(indices))):
            raise ValueError(
                f"got {indices.tolist()}; expected each of 0, ..., {indices.numel() - 1} once"
            )
        self.register_buffer("order", indices)
        self.register_buffer("back", indices.argsort())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        return self._reordered(x, self.order)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        return self._reordered(z, self.back)

    def _reordered(self, x: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
        if x.dim() < 2 or x.shape[1] != len(order):
            raise ValueError(
                f"got a batch of shape {tuple(x.shape)}; expected {len(order)} entries along axis 1"
            )
        return x.index_select(1, order), no_ladj(x)


class Reverse(Permute):
    """Axis 1 reversed."""

    def __init__(self, features: int) -> None:
        super().__init__(range(features - 1, -1, -1))


class Squeeze(Bijection):
    r"""Windows of 2 by 2 positions become 4 channels: `(C, H, W)` to `(4C, H/2, W/2)`.

    With channel $c$ and corner $(i, j)$ of a window, the channel that they become is
    - ``"pixel_unshuffle"``: $4c + 2i + j$, as in `torch.nn.PixelUnshuffle` and the squeezes of the
      paper's code;
    - ``"space_to_depth"``: $(2i + j)\,C + c$, as in `tf.nn.space_to_depth`;
    - ``"real_nvp"``: $k\,C + c$ where $k$ numbers the corners 00, 11, 01, 10, so that the first
      half of the channels is one color of a checkerboard; the paper's code factors out by it.
    ladj: 0.
    Shapes: x `(N, C, H, W)`, z `(N, 4C, H/2, W/2)`, ladj `(N,)`.
    Raises: `ValueError` for odd H or W, and from `inverse` for channels that are no multiple of 4.
    Source: Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 3.6.
    """

    def __init__(self, order: Order = "pixel_unshuffle") -> None:
        super().__init__()
        if order not in ORDERS:
            raise ValueError(f"got order={order!r}; expected one of {', '.join(ORDERS)}")
        self.order = order

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        if x.dim() != 4 or x.shape[2] % 2 or x.shape[3] % 2:
            raise ValueError(
                f"got a batch of shape {tuple(x.shape)}; expected (N, C, H, W) with even H and W"
            )
        # Written out: torch's pixel_unshuffle does not reshape an empty batch.
        batch, channels, height, width = x.shape
        windows = x.reshape(batch, channels, height // 2, 2, width // 2, 2)
        corners = windows.permute(0, 1, 3, 5, 2, 4).flatten(2, 3)
        if self.order == "real_nvp":
            corners = corners[:, :, DIAGONALS]
        if self.order != "pixel_unshuffle":
            corners = corners.transpose(1, 2)
        return corners.flatten(1, 2), no_ladj(x)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        if z.dim() != 4 or z.shape[1] % 4:
            raise ValueError(f"got a batch of shape {tuple(z.shape)}; expected (N, 4C, H, W)")
        batch, channels, height, width = z.shape[0], z.shape[1] // 4, *z.shape[2:]
        if self.order == "pixel_unshuffle":
            corners = z.unflatten(1, (channels, 4))
        else:
            corners = z.unflatten(1, (4, channels)).transpose(1, 2)
        if self.order == "real_nvp":
            corners = corners[:, :, [DIAGONALS.index(corner) for corner in range(4)]]
        windows = corners.unflatten(2, (2, 2)).permute(0, 1, 4, 2, 5, 3)
        return windows.reshape(batch, channels, 2 * height, 2 * width), no_ladj(z)

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return self.order
