"""Flows whose contexts are None by default, and stand behind other arguments; a size opens them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen

FEATURES = 2


class Conditioner(nn.Module):
    """Log-scale and shift of the second entry, of the first and of a context."""

    def __init__(self, num_cond_inputs: int | None = None) -> None:
        super().__init__()
        self.net = nn.Linear(1, 2)
        if num_cond_inputs is not None:
            self.cond = nn.Linear(num_cond_inputs, 2, bias=False)

    def forward(self, kept: Any, cond_inputs: Any = None) -> Any:
        """Two numbers a point."""
        out = self.net(kept)
        if cond_inputs is not None:
            out = out + self.cond(cond_inputs)
        return torch.tanh(out[:, :1]), out[:, 1:]


class Modal(nn.Module):
    """A coupling that is turned around by a word, adds to a running log-det, and takes its context between."""

    def __init__(self, num_cond_inputs: int | None = None, defect: str = "") -> None:
        super().__init__()
        self.net, self.defect = Conditioner(num_cond_inputs), defect

    def forward(
        self, inputs: Any, cond_inputs: Any = None, mode: str = "direct", logdets: Any = None
    ) -> tuple[Any, Any]:
        """Data to latents, or back."""
        if logdets is None:
            logdets = inputs.new_zeros(len(inputs), 1)
        kept, moved = inputs.chunk(2, 1)
        forgotten = self.defect == "forgotten-on-the-way-back" and mode != "direct"
        log_scale, shift = self.net(kept, None if forgotten else cond_inputs)
        if mode == "direct":
            return torch.cat([kept, moved * log_scale.exp() + shift], 1), logdets + log_scale
        return torch.cat([kept, (moved - shift) * (-log_scale).exp()], 1), logdets - log_scale


class Flagged(nn.Module):
    """The same with a flag, the context behind it, and a density that is drawn by keyword."""

    def __init__(self, context_dim: int = 0, defect: str = "") -> None:
        super().__init__()
        self.context_dim, self.defect = context_dim, defect
        self.net = Conditioner(context_dim or None)

    def forward(self, x: Any, reverse: bool = False, context: Any = None) -> tuple[Any, Any]:
        """Data to latents, or back."""
        if self.context_dim and context is None:
            raise ValueError("a context is needed")
        kept, moved = x.chunk(2, 1)
        log_scale, shift = self.net(kept, context)
        if reverse:
            return torch.cat([kept, (moved - shift) * (-log_scale).exp()], 1), -log_scale[:, 0]
        wide = 1.01 if self.defect == "context-in-the-log-det" and context is not None else 1.0
        value = torch.cat([kept, moved * log_scale.exp() + shift], 1)
        return value, wide * log_scale[:, 0]

    def log_prob(self, x: Any, context: Any = None) -> Any:
        """The log-density."""
        z, ladj = self(x, context=context)
        return -0.5 * (z * z).sum(1) - 0.5 * FEATURES * math.log(2 * math.pi) + ladj

    def sample(self, num_samples: int = 1, noise: Any = None, context: Any = None) -> Any:
        """``num_samples`` points for each context, ``(contexts, num_samples, 2)``."""
        contexts = 1 if context is None else len(context)
        if noise is None:
            weight = self.net.net.weight
            noise = torch.randn(
                contexts * num_samples, FEATURES, dtype=weight.dtype, device=weight.device
            )
        if context is None:
            return self(noise, reverse=True)[0]
        tiled = self.defect == "contexts-tiled"
        wide = (
            context.repeat(num_samples, 1)
            if tiled
            else context.repeat_interleave(num_samples, dim=0)
        )
        points, _ = self(noise, reverse=True, context=wide)
        return points.reshape(contexts, num_samples, FEATURES)


def modal(num_cond_inputs: int | None = 2, defect: str = "") -> Modal:
    """With a context of two numbers."""
    return Modal(num_cond_inputs, defect)


def flagged(context_dim: int = 2, defect: str = "") -> Flagged:
    """With a context of two numbers."""
    return Flagged(context_dim, defect)


SPECIMENS = (
    Specimen("modal?num_cond_inputs=2", {"forgotten-on-the-way-back": ("map/inverse",)}),
    Specimen(
        "flagged?context_dim=2",
        {
            "context-in-the-log-det": ("map/log-det",),
            "contexts-tiled": ("sampling/follows-density",),
        },
    ),
)
