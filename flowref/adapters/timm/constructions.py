"""Norms of timm that normalize a batch, or each sample, by mean and deviation or by a root mean square.

Left out are norms that no law judges: EvoNorm, which is one formula with its activation and, without it, a line; SimpleNorm,
which divides by a deviation and takes no mean away; FrozenBatchNormAct2d, a line; and those that compute in single precision
on purpose (LayerNormFp32 and the like).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions
from flowref.model import Shape

# Children behind a norm.
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
    "LayerNormAct": ("LayerNormAct", {}, LAST),
    "LayerNormAct2d": ("LayerNormAct2d", {}, IMAGE),
    "RmsNorm": ("RmsNorm", {}, LAST),
    "RmsNorm2d": ("RmsNorm2d", {}, IMAGE),
    "RmsNormAct": ("RmsNormAct", {}, LAST),
    "RmsNormAct2d": ("RmsNormAct2d", {}, IMAGE),
    "FilterResponseNormTlu2d": ("FilterResponseNormTlu2d", {}, IMAGE),
    "FilterResponseNormAct2d": ("FilterResponseNormAct2d", {}, IMAGE),
}


def norm(kind: str, options: dict[str, Any]) -> Callable[[], Any]:
    """A builder of a norm."""

    def make() -> Any:
        from timm import layers
        from timm.layers import filter_response_norm, norm, norm_act

        places = (layers, norm_act, norm, filter_response_norm)
        place = next(one for one in places if hasattr(one, kind))
        return getattr(place, kind)(CHANNELS, **options)

    return make


def norms() -> Constructions:
    """Name -> builder and event shape."""
    return {name: (norm(kind, options), event) for name, (kind, options, event) in NORMS.items()}
