"""Dequantization: uniform noise turns levels into reals, so that a density can be fitted to counts
and pixels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flowref.reference.bijection import no_ladj


class Dequantize(nn.Module):
    r"""$x = k + u$ with $u$ uniform on $[0, 1)$ for levels $k = 0, \dots, b - 1$; rounding down is
    undone by noise.

    ladj: $-\log q(u \mid k) = 0$. By Jensen's inequality
    $E_u \log p(k + u) \le \log \int p(k + u)\,du$, the log-probability of k.
    Inverse: $k = \lfloor x \rfloor$, held to the levels.
    $x$ stays below $k + 1$ also where $k + u$ would round up to it; the next level would begin
    there.
    Shapes: k, u and x `(N, *event)`, ladj `(N,)`.  Units: x in levels.
    Raises: `ValueError` for a level that is no whole number of the range, and for noise outside
    $[0, 1)$.
    Source: Theis et al. 2016, A note on the evaluation of generative models (arXiv:1511.01844),
    section 3.1.
    """

    def __init__(self, bins: int = 256) -> None:
        super().__init__()
        self.bins = bins

    def forward(
        self, k: Tensor, noise: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Levels to reals, `(x, ladj)`; noise is drawn if it is not given."""
        levels = k if k.is_floating_point() else k.to(torch.get_default_dtype())
        check_levels(levels, self.bins)
        if noise is None:
            noise = torch.rand(
                levels.shape, generator=generator, dtype=levels.dtype, device=levels.device
            )
        elif bool(((noise < 0) | (noise >= 1)).any()):
            raise ValueError("got noise outside [0, 1)")
        highest = torch.nextafter(levels + 1, levels)
        return torch.minimum(levels + noise, highest), no_ladj(levels)

    def inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reals to levels, `(k, ladj)`."""
        return x.floor().clamp(0, self.bins - 1), no_ladj(x)

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return f"bins={self.bins}"


def check_levels(levels: Tensor, bins: int) -> None:
    """Raises `ValueError` unless every entry is one of 0, ..., bins - 1."""
    if levels.numel() == 0:
        return
    least, most = (float(end) for end in levels.aminmax())
    if not (least >= 0 and most <= bins - 1):
        raise ValueError(
            f"got levels from {least:g} to {most:g}; expected whole numbers from 0 to {bins - 1}"
        )
    if bool((levels != levels.floor()).any()):
        raise ValueError(
            f"got levels that are no whole numbers; expected 0 to {bins - 1}, before any scaling"
        )
