"""Normalization layers of PyTorch Geometric. Left out: DiffGroupNorm, which returns its input plus a sum of
normalized clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions
from flowref.model import Shape

FEATURES, NODES = 4, 5
NODE: Shape = (FEATURES,)
GRAPH: Shape = (NODES, FEATURES)


def norm(kind: str, *sizes: Any, **options: Any) -> Callable[[], Any]:
    """Return a function that builds the class ``kind``."""

    def make() -> Any:
        from torch_geometric import nn

        return getattr(nn, kind)(*sizes, **options)

    return make


def norms() -> Constructions:
    """Layers on nodes, ``(features,)``."""
    return {
        "BatchNorm": (norm("BatchNorm", FEATURES), NODE),
        "BatchNorm[affine=False]": (norm("BatchNorm", FEATURES, affine=False), NODE),
    }


def typed() -> Constructions:
    """Layers on nodes with types, here all of type 0."""
    return {"HeteroBatchNorm": (norm("HeteroBatchNorm", FEATURES, num_types=1), NODE)}


def norms_of_graphs() -> Constructions:
    """Layers on graphs, ``(nodes, features)``."""
    tracked = {"affine": True, "track_running_stats": True}
    table = {
        "InstanceNorm": norm("InstanceNorm", FEATURES),
        "InstanceNorm[affine]": norm("InstanceNorm", FEATURES, affine=True),
        "InstanceNorm[tracked]": norm("InstanceNorm", FEATURES, **tracked),
        "LayerNorm": norm("LayerNorm", FEATURES),
        "LayerNorm[node]": norm("LayerNorm", FEATURES, mode="node"),
        "GraphNorm": norm("GraphNorm", FEATURES),
        "PairNorm": norm("PairNorm"),
        "PairNorm[individually]": norm("PairNorm", scale_individually=True),
        "MeanSubtractionNorm": norm("MeanSubtractionNorm"),
        "GraphSizeNorm": norm("GraphSizeNorm"),
    }
    return {name: (build, GRAPH) for name, build in table.items()}


def messages() -> Constructions:
    """Layers on messages, with the node features as context."""
    return {"MessageNorm": (norm("MessageNorm", learn_scale=True), NODE)}
