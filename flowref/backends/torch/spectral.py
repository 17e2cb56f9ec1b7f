"""Spectral norms of torch.nn.utils, which keep singular vectors of a weight from one training step
to the next: after a weight is moved they have to be updated.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from flowref.backends.torch.state import modules

# Power iterations after weights were moved.
ITERATIONS = 50


def follow(obj: Any) -> None:
    """Update the stored singular vectors to those of the current weights."""
    for module in modules(obj):
        for part in module.modules():
            _follow(part)


def _follow(layer: nn.Module) -> None:
    with torch.no_grad():
        for held in getattr(layer, "parametrizations", {}).values():
            for norm in held:
                if isinstance(norm, _SpectralNorm) and held.original.ndim > 1:
                    norm._power_method(norm._reshape_weight_to_matrix(held.original), ITERATIONS)
        for hook in layer._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm):
                for _ in range(ITERATIONS):
                    hook.compute_weight(layer, do_power_iteration=True)
