"""Facts of sbi density estimators: shapes, and a support bounded by the prior."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.torch_supports import interval
from flowref.model import REAL, Facts, Shape, Support, TargetError

# Parts of names of Zuko's univariate transforms that are inverted by bisection to 1e-6, and the
# error amplification by layers.
BISECTED, ACCURACY, SPREAD = ("SOSP", "Gaussianization", "Bernstein"), 1e-6, 1e3

# Latents at which prior transforms have reached the ends of their range, and a stand-in for an end
# at 0.
FAR, TINY = 1e4, 1e-30


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of an estimator."""
    shape = tuple(int(size) for size in obj.input_shape)
    condition = getattr(obj, "condition_shape", None)
    if event_shape is not None and event_shape != shape:
        raise TargetError(
            f"{type(obj).__name__} has events of shape {shape}, but the shape {event_shape} was given"
        )
    context = None if condition is None else tuple(int(size) for size in condition)
    promises = {"inverse-tolerance": SPREAD * ACCURACY} if bisects(obj) else {}
    return Facts(shape, shape, _support(obj, shape), context_shape=context, promises=promises)


def _support(obj: Any, shape: Shape) -> Support:
    """The support of the prior, whose parameters a transform maps to the reals coordinatewise."""
    for module in obj.modules():
        if "CallableTransform" in lineage(module):
            ends = zip(*(_image(module.transform, shape, far) for far in (-FAR, FAR)), strict=True)
            return Support.product([interval(low, high) for low, high in ends])
    return REAL


def _image(transform: Any, shape: Shape, far: float) -> list[float]:
    """The preimage of large numbers per coordinate; a sigmoid stops an ulp before its end."""
    import torch

    ends = transform.inv(torch.full(shape, far)).tolist()
    return [float(f"{end:.6g}") if abs(end) > TINY else 0.0 for end in ends]


def bisects(obj: Any) -> bool:
    """Whether samples are found by bisection."""
    univariate = (str(getattr(module, "univariate", "")) for module in obj.modules())
    return any(word in text for text in univariate for word in BISECTED)
