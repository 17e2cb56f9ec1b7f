"""Coupling layers: one part of the entries is transformed by functions of the other part, which is
kept.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flowref.reference.bijection import Bijection, no_ladj, over_event


class Partition(nn.Module):
    """The entries of an event in two parts, kept and transformed, by a boolean mask (True: kept).

    A mask of one axis selects along axis 1, features or channels, by index. A mask of more axes, a
    checkerboard, covers the last axes of the event: the kept part is the event with zeros at the
    other entries, and values computed for kept entries are dropped.

    Raises: `ValueError` for a mask that keeps all entries or none, and for a batch that it does not
    fit.
    """

    mask: Tensor
    kept: Tensor
    changed: Tensor
    back: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        if mask.dtype != torch.bool:
            raise ValueError(
                f"got a mask of {mask.dtype}; expected torch.bool, True where an entry is kept"
            )
        if mask.dim() == 0 or bool(mask.all()) or not bool(mask.any()):
            raise ValueError(
                f"got a mask that keeps {int(mask.sum())} of {mask.numel()} entries; expected "
                "some of them"
            )
        self.register_buffer("mask", mask)
        self.by_index = mask.dim() == 1
        if self.by_index:
            kept, changed = mask.nonzero()[:, 0], (~mask).nonzero()[:, 0]
            self.register_buffer("kept", kept, persistent=False)
            self.register_buffer("changed", changed, persistent=False)
            self.register_buffer("back", torch.cat((kept, changed)).argsort(), persistent=False)
            # Two runs of entries, the usual case, are split as views and joined by one copy.
            self.runs = [len(kept), len(changed)] if bool(mask[0]) else [len(changed), len(kept)]
            self.in_runs = int((mask[1:] != mask[:-1]).sum()) == 1
            self.kept_first = bool(mask[0])

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the kept part, for the conditioner, and the part to transform."""
        if not self.by_index:
            if x.dim() <= self.mask.dim() or x.shape[-self.mask.dim() :] != self.mask.shape:
                raise ValueError(
                    f"got a batch of shape {tuple(x.shape)} for a mask of shape "
                    f"{tuple(self.mask.shape)}; expected the mask's "
                    "axes last"
                )
            # By selection, since 0 * inf is not 0.
            return torch.where(self.mask, x, 0.0), x
        if x.dim() < 2 or x.shape[1] != len(self.mask):
            raise ValueError(
                f"got a batch of shape {tuple(x.shape)} for a mask of {len(self.mask)} entries; "
                "expected as many along axis 1"
            )
        if not self.in_runs:
            return x.index_select(1, self.kept), x.index_select(1, self.changed)
        first, second = x.split(self.runs, 1)
        return (first, second) if self.kept_first else (second, first)

    def join(self, kept: Tensor, changed: Tensor, x: Tensor) -> Tensor:
        """Returns the event with both parts; ``x``: the event that was split."""
        if not self.by_index:
            return torch.where(self.mask, x, changed)
        if not self.in_runs:
            return torch.cat((kept, changed), 1).index_select(1, self.back)
        return torch.cat((kept, changed) if self.kept_first else (changed, kept), 1)

    def free(self, values: Tensor) -> Tensor:
        """Sets values computed for kept entries to zero."""
        return values if self.by_index else torch.where(self.mask, 0.0, values)


class AffineCoupling(Bijection):
    r"""With $x_a$ kept and $x_b$ transformed: $z_b = x_b \odot e^{s(x_a)} + t(x_a)$, $z_a = x_a$.

    ladj: $\sum_i s(x_a)_i$ over the transformed entries.  Inverse:
    $x_b = (z_b - t(z_a)) \odot e^{-s(z_a)}$.

    The conditioner returns $(r, t)$, concatenated along axis 1, and $s = c \tanh r$ with a learned scale
    $c$, one number per transformed entry of axis 1 (a single one under a checkerboard). $c$ starts at 1
    and the conditioners here at 0, so that the layer starts as the identity; if both started at 0, their
    gradients would vanish. Where a checkerboard keeps an entry, $s$ is set to zero before the
    exponential: after it, $0 \cdot \infty$ would be NaN.
    Shapes: x and z `(N, C, ...)`, ladj `(N,)`; the conditioner maps the kept entries `(N, kept,
    ...)` to `(N, 2 changed, ...)`, or `(N, C, H, W)` to `(N, 2C, H, W)` under a checkerboard.
    Units: nats.
    Raises: `ValueError` for a mask that does not fit (see `Partition`), and for a conditioner of
    another shape.
    Source: Dinh et al. 2017, Real NVP (arXiv:1605.08803), sections 3.2 to 3.4.
    """

    def __init__(self, mask: Tensor, conditioner: nn.Module) -> None:
        super().__init__()
        self.partition, self.conditioner = Partition(mask), conditioner
        self.scale = nn.Parameter(torch.ones(int((~mask).sum()) if mask.dim() == 1 else 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        kept, changed = self.partition.split(x)
        s, t = self._log_scale_and_shift(kept, changed)
        return self.partition.join(kept, torch.addcmul(t, changed, s.exp()), x), over_event(s)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        kept, changed = self.partition.split(z)
        s, t = self._log_scale_and_shift(kept, changed)
        return self.partition.join(kept, (changed - t) * torch.exp(-s), z), -over_event(s)

    def _log_scale_and_shift(self, kept: Tensor, changed: Tensor) -> tuple[Tensor, Tensor]:
        raw, shift = conditioned(self.conditioner, kept, changed, 2).chunk(2, 1)
        scale = self.scale if raw.dim() == 2 else self.scale.view(-1, *[1] * (raw.dim() - 2))
        # Half of each row is not contiguous, and tanh would not be vectorized.
        return self.partition.free(scale * raw.contiguous().tanh()), self.partition.free(shift)


class AdditiveCoupling(Bijection):
    r"""With $x_a$ kept and $x_b$ transformed: $z_b = x_b + t(x_a)$, $z_a = x_a$; volumes are
    preserved.

    ladj: 0.  Inverse: $x_b = z_b - t(z_a)$.
    Shapes: as `AffineCoupling`, the conditioner giving t alone.
    Source: Dinh et al. 2015, NICE (arXiv:1410.8516), section 3.2.
    """

    def __init__(self, mask: Tensor, conditioner: nn.Module) -> None:
        super().__init__()
        self.partition, self.conditioner = Partition(mask), conditioner

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        kept, changed = self.partition.split(x)
        shift = self.partition.free(conditioned(self.conditioner, kept, changed, 1))
        return self.partition.join(kept, changed + shift, x), no_ladj(x)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        kept, changed = self.partition.split(z)
        shift = self.partition.free(conditioned(self.conditioner, kept, changed, 1))
        return self.partition.join(kept, changed - shift, z), no_ladj(z)


def conditioned(conditioner: nn.Module, kept: Tensor, changed: Tensor, times: int) -> Tensor:
    """Calls the conditioner on the kept part: returns ``times`` numbers for each transformed
    entry, stacked along axis 1; raises `ValueError` for another shape.
    """
    out: Tensor = conditioner(kept)
    expected = (changed.shape[0], times * changed.shape[1], *changed.shape[2:])
    if out.shape != expected:
        raise ValueError(f"the conditioner gave shape {tuple(out.shape)}; expected {expected}")
    return out
