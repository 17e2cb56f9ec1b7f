"""Normalization layers of timm: of batches or samples, by mean and standard deviation or by the root mean square.

Left out: EvoNorm, which contains its activation and is affine without it; FrozenBatchNormAct2d, which is affine; SimpleNorm,
which divides by the standard deviation without subtracting the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions
from flowref.model import Shape

# Submodules that are replaced by the identity.
ACTIVATIONS = ("act",)
CHANNELS = 4
IMAGE: Shape = (CHANNELS, 2, 3)
LAST: Shape = (3, CHANNELS)
GROUPS = {"num_groups": 2}
# Name -> class, arguments besides the number of channels, and the shape of an event.
NORMS: dict[str, tuple[str, dict[str, Any], Shape]] = {
    "BatchNormAct2d": ("BatchNormAct2d", {}, IMAGE),
    "BatchNormAct2d[affine=False]": ("BatchNormAct2d", {"affine": False}, IMAGE),
    "BatchNormAct2d[momentum=None]": ("BatchNormAct2d", {"momentum": None}, IMAGE),
    "BatchNormAct2d[untracked]": ("BatchNormAct2d", {"track_running_stats": False}, IMAGE),
    "GroupNorm": ("GroupNorm", GROUPS, IMAGE),
    "GroupNorm1": ("GroupNorm1", {}, IMAGE),
    "GroupNormAct": ("GroupNormAct", GROUPS, IMAGE),
    "GroupNorm1Act": ("GroupNorm1Act", {}, IMAGE),
    "LayerNorm": ("LayerNorm", {}, LAST),
    "LayerNorm2d": ("LayerNorm2d", {}, IMAGE),
    "LayerNormExp2d": ("LayerNormExp2d", {}, IMAGE),
    "LayerNormFp32": ("LayerNormFp32", {}, LAST),
    "LayerNormAct": ("LayerNormAct", {}, LAST),
    "LayerNormAct2d": ("LayerNormAct2d", {}, IMAGE),
    "RmsNorm": ("RmsNorm", {}, LAST),
    "RmsNorm2d": ("RmsNorm2d", {}, IMAGE),
    "RmsNormAct": ("RmsNormAct", {}, LAST),
    "RmsNorm2dFp32": ("RmsNorm2dFp32", {}, IMAGE),
    "RmsNormAct2d": ("RmsNormAct2d", {}, IMAGE),
    "FilterResponseNormTlu2d": ("FilterResponseNormTlu2d", {}, IMAGE),
    "FilterResponseNormAct2d": ("FilterResponseNormAct2d", {}, IMAGE),
}


def norm(kind: str, options: dict[str, Any]) -> Callable[[], Any]:
    """Return a function that builds the class ``kind`` for `CHANNELS` channels."""

    def make() -> Any:
        from timm import layers
        from timm.layers import filter_response_norm, norm, norm_act

        places = (layers, norm_act, norm, filter_response_norm)
        place = next(one for one in places if hasattr(one, kind))
        return getattr(place, kind)(CHANNELS, **options)

    return make


def norms() -> Constructions:
    """Return name -> (builder, event shape)."""
    return {name: (norm(kind, options), event) for name, (kind, options, event) in NORMS.items()}
