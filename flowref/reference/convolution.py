"""Invertible 1x1 convolutions: one matrix for the channels at every position."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flowref.reference.bijection import Bijection, repeated_log_det


class InvertibleConv1x1(Bijection):
    r"""$z_{:,p} = W x_{:,p}$ at each position $p$, starting from a random rotation; vectors have
    one position.

    ladj: $S \log|\det W|$ for events of $S$ positions ($H W$ for images).  Inverse:
    $x_{:,p} = W^{-1} z_{:,p}$.

    With ``lu`` the matrix is kept as $W = P L (U + \operatorname{diag}(\sigma e^{d}))$ with a fixed
    permutation $P$, triangular $L$ (ones on its diagonal) and $U$ (zeros there), fixed signs
    $\sigma$ and free $d$: then $\log|\det W| = \sum_c d_c$, and $W$ cannot become singular.
    Shapes: x and z `(N, C, ...)`, ladj `(N,)`, weight `(C, C)`.  Units: nats.
    Raises: `ValueError` for a wrong number of channels; `torch.linalg.LinAlgError` from `inverse`
    where a dense W is singular.
    Source: Kingma and Dhariwal 2018, Glow (arXiv:1807.03039), section 3.2.
    """

    permutation: Tensor
    signs: Tensor

    def __init__(
        self, channels: int, lu: bool = False, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.channels, self.lu = channels, lu
        # Contiguous: qr returns columns, and an optimizer whose state is loaded in rows would pair
        # the wrong entries.
        rotation = torch.linalg.qr(torch.randn(channels, channels, generator=generator))[
            0
        ].contiguous()
        if not lu:
            self.matrix = nn.Parameter(rotation)
            return
        permutation, lower, upper = torch.linalg.lu(rotation)
        diagonal = upper.diagonal()
        self.register_buffer("permutation", permutation)
        self.register_buffer("signs", diagonal.sign())
        self.lower = nn.Parameter(lower.tril(-1))
        self.upper = nn.Parameter(upper.triu(1))
        self.log_diagonal = nn.Parameter(diagonal.abs().log())

    @property
    def weight(self) -> Tensor:
        """The matrix W, `(C, C)`."""
        if not self.lu:
            return self.matrix
        lower, upper = self._factors()
        return self.permutation @ lower @ upper

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        columns = self._columns(x)
        return torch.matmul(self.weight, columns).view_as(x), self._ladj(x)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        columns = self._columns(z)
        if self.lu:
            lower, upper = self._factors()
            solved = torch.linalg.solve_triangular(
                lower, torch.matmul(self.permutation.T, columns), upper=False
            )
            x = torch.linalg.solve_triangular(upper, solved, upper=True)
        else:
            x = torch.linalg.solve(self.matrix, columns)
        return x.view_as(z), -self._ladj(z)

    def _factors(self) -> tuple[Tensor, Tensor]:
        ones = torch.eye(self.channels, dtype=self.lower.dtype, device=self.lower.device)
        return self.lower.tril(-1) + ones, self.upper.triu(1) + torch.diag(
            self.signs * self.log_diagonal.exp()
        )

    def _ladj(self, x: Tensor) -> Tensor:
        logs = self.log_diagonal.sum() if self.lu else torch.linalg.slogdet(self.matrix).logabsdet
        return repeated_log_det(x.shape[2:].numel() * logs, x)

    def _columns(self, x: Tensor) -> Tensor:
        if x.dim() < 2 or x.shape[1] != self.channels:
            raise ValueError(
                f"got a batch of shape {tuple(x.shape)}; expected {self.channels} channels along "
                "axis 1"
            )
        return x.reshape(len(x), self.channels, x.shape[2:].numel())

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return f"{self.channels}, lu={self.lu}"
