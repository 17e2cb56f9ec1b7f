"""Invertible convolutions with a receptive field: periodic ones, solved per frequency, and masked
ones, solved as triangular systems.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from flowref.reference.bijection import Bijection, Chain, repeated_log_det


class PeriodicConvolution(Bijection):
    r"""$z_{o} = \sum_i k_{oi} * x_i$ over channels, with periodic boundaries: at each frequency a
    matrix, $\hat z(f) = \hat k(f)\,\hat x(f)$.

    ladj: $\sum_f \log|\det \hat k(f)|$.  Inverse: $\hat x(f) = \hat k(f)^{-1}\,\hat z(f)$.
    The kernel is the identity plus weights that start small.
    Shapes: x and z `(N, C, H, W)`, ladj `(N,)`, weight `(C, C, size, size)`.  Units: nats.
    Raises: `ValueError` for another number of channels, and for images smaller than the kernel;
    `torch.linalg.LinAlgError` from `inverse` if the matrix of a frequency is singular.
    Source: Hoogeboom et al. 2019, Emerging Convolutions (arXiv:1901.11137).
    """

    def __init__(self, channels: int, size: int = 3) -> None:
        super().__init__()
        self.channels, self.size = channels, size
        self.weight = nn.Parameter(0.05 * torch.randn(channels, channels, size, size))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        matrices = self._matrices(x)
        if len(x) == 0:  # torch.fft rejects empty batches
            return x + 0 * self.weight.sum(), self._ladj(matrices, x)
        waves = torch.fft.fft2(x).movedim(1, -1)[..., None]
        z = torch.fft.ifft2((matrices @ waves)[..., 0].movedim(-1, 1)).real
        return z, self._ladj(matrices, x)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        matrices = self._matrices(z)
        if len(z) == 0:
            return z + 0 * self.weight.sum(), -self._ladj(matrices, z)
        waves = torch.fft.fft2(z).movedim(1, -1)[..., None]
        solved = torch.linalg.solve(matrices.expand(len(z), *matrices.shape), waves)[..., 0]
        return torch.fft.ifft2(solved.movedim(-1, 1)).real, -self._ladj(matrices, z)

    def _matrices(self, x: Tensor) -> Tensor:
        check_image(x, self.channels)
        if min(x.shape[2:]) < self.size:
            raise ValueError(
                f"got images of {tuple(x.shape[2:])} for a kernel of {self.size}; expected no fewer "
                "pixels a side"
            )
        eye = torch.eye(self.channels, dtype=self.weight.dtype, device=self.weight.device)
        waves: Tensor = torch.fft.fft2(self.weight, s=x.shape[2:])
        return eye + waves.permute(2, 3, 0, 1)

    def _ladj(self, matrices: Tensor, x: Tensor) -> Tensor:
        return repeated_log_det(torch.linalg.slogdet(matrices).logabsdet.sum(), x)

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return f"{self.channels}, size={self.size}"


class MaskedConvolution(Bijection):
    r"""A convolution over the pixels of a neighborhood that are earlier in reading order, and over
    the own pixel's channels up to each: triangular, with $e^{d_c}$ on its diagonal.

    ladj: $H W \sum_c d_c$.  Inverse: back substitution.
    ``backward``: reading order from the other corner, and channels from the last.
    Starts near the identity.
    Shapes: x and z `(N, C, H, W)`, ladj `(N,)`; the inverse makes a matrix of $(CHW)^2$.
    Raises: `ValueError` for another number of channels, and for an even size.
    Source: Hoogeboom et al. 2019, Emerging Convolutions (arXiv:1901.11137).
    """

    mask: Tensor

    def __init__(self, channels: int, size: int = 3, backward: bool = False) -> None:
        super().__init__()
        if size % 2 == 0:
            raise ValueError(f"got size={size}; expected an odd number, with a pixel in the middle")
        self.channels, self.size, self.backward = channels, size, backward
        mask = torch.zeros(channels, channels, size * size, dtype=torch.bool)
        middle = size * size // 2
        mask[:, :, :middle] = True
        mask[:, :, middle] = torch.ones(channels, channels).tril(-1).bool()
        mask = mask.view(channels, channels, size, size)
        self.register_buffer("mask", mask.flip(0, 1, 2, 3) if backward else mask)
        self.weight = nn.Parameter(0.05 * torch.randn(channels, channels, size, size))
        self.log_diagonal = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        check_image(x, self.channels)
        return conv2d(x, self.kernel(), padding=self.size // 2), self._ladj(x)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        check_image(z, self.channels)
        event = z.shape[1:]
        size = event.numel()
        units = torch.eye(size, dtype=z.dtype, device=z.device).view(size, *event)
        # In reading order, with all channels of a pixel together, the matrix is triangular.
        columns = conv2d(units, self.kernel(), padding=self.size // 2)
        matrix = _reading(columns)[_reading_order(event, z.device)].mT
        solved = torch.linalg.solve_triangular(matrix, _reading(z).mT, upper=self.backward)
        x = solved.mT.unflatten(1, (event[1], event[2], event[0])).movedim(-1, 1)
        return x, -self._ladj(z)

    def kernel(self) -> Tensor:
        """The masked weights with the diagonal, `(C, C, size, size)`."""
        middle = self.size // 2
        rest = torch.where(self.mask, self.weight, 0.0)
        place = torch.zeros_like(rest)
        place[:, :, middle, middle] = torch.eye(self.channels, dtype=rest.dtype, device=rest.device)
        return rest + place * self.log_diagonal.exp()[:, None, None, None]

    def _ladj(self, x: Tensor) -> Tensor:
        return repeated_log_det(x.shape[2:].numel() * self.log_diagonal.sum(), x)

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return f"{self.channels}, size={self.size}, backward={self.backward}"


class EmergingConvolution(Chain):
    """Two masked convolutions of opposite orders: together a receptive field on all sides.

    Source: Hoogeboom et al. 2019, Emerging Convolutions (arXiv:1901.11137).
    """

    def __init__(self, channels: int, size: int = 3) -> None:
        super().__init__(
            MaskedConvolution(channels, size), MaskedConvolution(channels, size, backward=True)
        )


def _reading(images: Tensor) -> Tensor:
    """Events as rows in reading order, the channels of a pixel together."""
    return images.movedim(1, -1).flatten(1)


def _reading_order(event: torch.Size, device: torch.device) -> Tensor:
    """The index in a flattened event of each place in reading order."""
    return torch.arange(event.numel(), device=device).view(event).movedim(0, -1).flatten()


def check_image(x: Tensor, channels: int) -> None:
    """Raises `ValueError` unless x is a batch of images with this number of channels."""
    if x.dim() != 4 or x.shape[1] != channels:
        raise ValueError(f"got a batch of shape {tuple(x.shape)}; expected (N, {channels}, H, W)")
