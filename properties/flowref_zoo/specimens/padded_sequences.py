"""Sequences with padding behind them, which a mask that is None by default leaves out."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

CHANNELS = 4


class Coupling(nn.Module):
    """Half of the channels move the others, position by position; (B, C, T), with a mask (B, 1, T)."""

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net = nn.Conv1d(CHANNELS // 2, CHANNELS, 1)

    def forward(self, x: Any, x_mask: Any = None, reverse: bool = False) -> tuple[Any, Any]:
        """Data to latents, or back."""
        mask = torch.ones_like(x[:, :1]) if x_mask is None else x_mask
        kept, moved = (x * mask).chunk(2, 1)
        log_scale, shift = self.net(kept).chunk(2, 1)
        log_scale, shift = torch.tanh(log_scale) * mask, shift * mask
        counted = (
            torch.tanh(self.net(kept).chunk(2, 1)[0]) if self.defect == "all-counted" else log_scale
        )
        if reverse:
            back = (moved - shift) * torch.exp(-log_scale) * mask
            return torch.cat([kept, back], 1), -counted.sum((1, 2))
        return torch.cat([kept, (moved * log_scale.exp() + shift) * mask], 1), counted.sum((1, 2))

    def log_prob(self, x: Any, x_mask: Any = None) -> Any:
        """The log-density of what is kept."""
        z, ladj = self(x, x_mask)
        each = -0.5 * z * z - 0.5 * math.log(2 * math.pi)
        if x_mask is not None and self.defect != "density-of-all":
            each = each * x_mask
        return each.sum((1, 2)) + ladj


class MaskedBatchNorm1d(nn.Module):
    """A batch norm over the positions that are kept; (B, C, T), with a mask (B, T) of truth values."""

    running_mean: Any
    running_var: Any

    def __init__(self, num_features: int = 3, defect: str = "") -> None:
        super().__init__()
        self.defect, self.eps, self.momentum = defect, 1e-5, 0.1
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def forward(self, x: Any, mask: Any = None) -> Any:
        """The same shape, with zeros where nothing is kept."""
        if mask is None:
            mask = x.new_ones(len(x), x.shape[2]).bool()
        weights = (~~mask).unsqueeze(1).to(x.dtype)
        mean, var = self.running_mean, self.running_var
        if self.training:
            count = weights.sum()
            everything = x.new_tensor(float(mask.numel()))
            mean = (x * weights).sum((0, 2)) / (
                everything if self.defect == "mean-of-all" else count
            )
            squares = ((x - mean[:, None]) ** 2 * weights).sum((0, 2))
            var = squares / count
            with torch.no_grad():
                least = (everything if self.defect == "corrected-by-all" else count) - 1
                self.running_mean += self.momentum * (mean - self.running_mean)
                self.running_var += self.momentum * (squares / least - self.running_var)
        slope = self.weight / torch.sqrt(var + self.eps)
        return ((x - mean[:, None]) * slope[:, None] + self.bias[:, None]) * weights


class SpeakerCoupling(nn.Module):
    """The same under a speaker, one vector for all positions; a mask is asked for, and the context stands behind
    it: (B, 3, 1), None by default.
    """

    def __init__(self, defect: str = "") -> None:
        super().__init__()
        self.defect = defect
        self.net, self.speaker = nn.Conv1d(CHANNELS // 2, CHANNELS, 1), nn.Conv1d(3, CHANNELS, 1)

    def forward(self, x: Any, x_mask: Any, g: Any = None, reverse: bool = False) -> tuple[Any, Any]:
        """Data to latents, or back."""
        kept, moved = (x * x_mask).chunk(2, 1)
        parts = self.net(kept)
        if g is not None and not (reverse and self.defect == "forgotten-back"):
            told = self.speaker(g)
            parts = parts + (told.detach() if self.defect == "detached" else told)
        log_scale, shift = parts.chunk(2, 1)
        log_scale, shift = torch.tanh(log_scale) * x_mask, shift * x_mask
        if reverse:
            back = (moved - shift) * torch.exp(-log_scale) * x_mask
            return torch.cat([kept, back], 1), -log_scale.sum((1, 2))
        moved = (moved * log_scale.exp() + shift) * x_mask
        return torch.cat([kept, moved], 1), log_scale.sum((1, 2))

    def log_prob(self, x: Any, x_mask: Any, g: Any = None) -> Any:
        """The log-density of what is kept."""
        z, ladj = self(x, x_mask, None if self.defect == "density-of-nobody" else g)
        return ((-0.5 * z * z - 0.5 * math.log(2 * math.pi)) * x_mask).sum((1, 2)) + ladj


def speaker_coupling(defect: str = "") -> SpeakerCoupling:
    """With a mask of ones, or with padding."""
    return SpeakerCoupling(defect)


def coupling(defect: str = "") -> Coupling:
    """With padding."""
    return Coupling(defect)


def masked_norm(defect: str = "") -> MaskedBatchNorm1d:
    """With padding."""
    return MaskedBatchNorm1d(3, defect)


SPECIMENS = (
    Specimen(
        "coupling?padded=x_mask",
        {
            "all-counted": ("map/log-det",),
            "density-of-all": ("density/base-constant[latents]",),
        },
    ),
    Specimen(
        "speaker_coupling",
        {
            "forgotten-back": ("map/inverse[context]",),
            "detached": ("gradient/reaches-parameters[context]",),
        },
    ),
    Specimen(
        "speaker_coupling?padded=x_mask",
        {
            "forgotten-back": ("map/inverse[context]",),
            "density-of-nobody": ("density/change-of-variables[context]",),
        },
    ),
    Specimen(
        "masked_norm?padded=mask",
        {
            "mean-of-all": ("batch-norm/train-map[reference]",),
            "corrected-by-all": ("batch-norm/statistics[buffers]",),
        },
    ),
)
