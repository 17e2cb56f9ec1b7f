"""Constructions of diffusion and flow matching: probability flows of each schedule and prediction, their
densities, and token diffusion.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from flowref.adapters.reference.constructions import Construction
from flowref.adapters.reference.constructions_wide import MOST, PLANE, SOLVED

if TYPE_CHECKING:
    from flowref.reference.continuous import Trace
    from flowref.reference.schedule import Prediction

RATES = [[-1.0, 0.7, 0.3], [0.2, -0.5, 0.3], [0.4, 0.4, -0.8]]
# Schedule with parameters, and predicted quantity. Since laws make hundreds of calls, noise is
# small and time short, so that a solve takes few steps.
FLOWS: dict[str, tuple[str, tuple[float, ...], Prediction]] = {
    "line": ("StraightLine", (), "velocity"),
    "cosine": ("Cosine", (), "v"),
    "preserving": ("VariancePreserving", (0.1, 2.0, 0.5), "epsilon"),
    "exploding": ("VarianceExploding", (0.5, 1.5), "score"),
}


def bijections() -> Mapping[str, Construction]:
    """The maps."""
    table: dict[str, Construction] = {
        f"ProbabilityFlow[{name}]": (partial(_map, name), PLANE) for name in FLOWS
    }
    table["ProbabilityFlow[hutchinson]"] = partial(_map, "line", "hutchinson"), PLANE
    return table


def flows() -> Mapping[str, Construction]:
    """Densities of data under these maps."""
    return {
        "Flow[flow matching]": (partial(_density, "line"), PLANE),
        "Flow[diffusion]": (partial(_density, "exploding"), PLANE),
    }


def tokens() -> Mapping[str, Construction]:
    """Probabilities of sequences of two tokens from three."""
    return {"TokenDiffusion": (_tokens, (2,))}


def _map(name: str, trace: Trace = "exact") -> Any:
    from flowref import reference

    kind, numbers, prediction = FLOWS[name]
    schedule = getattr(reference, kind)(*numbers)
    model = reference.TimedMLP(2, (6,))
    return reference.ProbabilityFlow(model, schedule, prediction, trace, SOLVED, MOST)


def _density(name: str) -> Any:
    from flowref.reference import noise_flow

    return noise_flow(_map(name), 2)


def _tokens() -> Any:
    import torch

    from flowref.reference import TokenDiffusion

    return TokenDiffusion(torch.tensor(RATES), 2, 3)
