"""Input and outcome transforms of BoTorch, fitted to data as by a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions

FEATURES, POINTS = 3, 64


def fitted(make: Callable[[], Any]) -> Callable[[], Any]:
    """A builder of a transform that was called on training data once."""

    def build() -> Any:
        import torch

        made = make().train()
        made(0.5 + torch.rand(POINTS, FEATURES) * torch.tensor([1.0, 4.0, 0.5]))
        return made.eval()

    return build


def warped() -> Any:
    """Kumaraswamy distribution functions on the unit cube, away from the identity."""
    import torch
    from botorch.models.transforms.input import Warp

    box = torch.stack([torch.zeros(FEATURES), torch.ones(FEATURES)])
    made = Warp(d=FEATURES, indices=list(range(FEATURES)), bounds=box)
    made.concentration0.data = torch.tensor([0.5, 2.0, 3.0])
    made.concentration1.data = torch.tensor([2.0, 0.7, 1.5])
    return made.eval()


def inputs() -> Constructions:
    """Name -> builder and event shape of input transforms."""
    from botorch.models.transforms import input as of

    def chained() -> Any:
        return of.ChainedInputTransform(log=of.Log10(indices=[1]), norm=of.Normalize(d=FEATURES))

    event = (FEATURES,)
    return {
        "Normalize": (fitted(lambda: of.Normalize(d=FEATURES)), event),
        "Normalize[indices]": (fitted(lambda: of.Normalize(d=FEATURES, indices=[0, 2])), event),
        "InputStandardize": (fitted(lambda: of.InputStandardize(d=FEATURES)), event),
        "Log10": (fitted(lambda: of.Log10(indices=[0, 1, 2])), event),
        "Warp": (warped, event),
        "ChainedInputTransform": (fitted(chained), event),
    }


def outcomes() -> Constructions:
    """Name -> builder and event shape of outcome transforms."""
    from botorch.models.transforms import outcome as of

    def chained() -> Any:
        return of.ChainedOutcomeTransform(log=of.Log(), standardize=of.Standardize(m=FEATURES))

    event = (FEATURES,)
    return {
        "Standardize": (fitted(lambda: of.Standardize(m=FEATURES)), event),
        "Log": (fitted(of.Log), event),
        "Power": (fitted(lambda: of.Power(0.5)), event),
        "Bilog": (fitted(of.Bilog), event),
        "ChainedOutcomeTransform": (fitted(chained), event),
    }
