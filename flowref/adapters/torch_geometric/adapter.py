"""PyTorch Geometric: normalization of nodes, ``(features,)``, of graphs with equally many nodes, ``(nodes,
features)``, and of messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowref.adapters.common.normalizers.constructions import components_by_calls, facts_by_calls
from flowref.adapters.common.object_components import components_of, lineage
from flowref.adapters.torch_geometric import constructions
from flowref.model import Adapter, Component, Dialect, Facts, Shape, TargetError

# Layers on graphs that normalize by mean and standard deviation, and others.
STANDARD = ("InstanceNorm", "LayerNorm")
OTHER = ("GraphNorm", "PairNorm", "MeanSubtractionNorm", "GraphSizeNorm")
# Attributes with the number of features.
WIDTHS = ("in_channels", "num_features")


def of_graphs(obj: Any, x: Any, context: Any = None) -> Any:
    import torch

    # The index of the graph of each node.
    graphs = torch.arange(len(x), device=x.device).repeat_interleave(x.shape[1])
    return obj(x.flatten(0, 1), graphs, len(x)).reshape(x.shape), None


def of_one_type(obj: Any, x: Any, context: Any = None) -> Any:
    import torch

    return obj(x, torch.zeros(len(x), dtype=torch.long, device=x.device)), None


def of_messages(obj: Any, message: Any, context: Any) -> Any:
    return obj(context, message), None


GRAPHS = Dialect(forward=of_graphs)
TYPED = Dialect(forward=of_one_type)
MESSAGES = Dialect(forward=of_messages)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a layer on graphs or messages; None for layers on nodes, which are recognized by behavior."""
    names = lineage(obj)
    if "MessageNorm" in names:
        return MESSAGES
    of_package = {cls.__name__ for cls in type(obj).__mro__ if "torch_geometric" in cls.__module__}
    return GRAPHS if of_package & {*STANDARD, *OTHER} else None


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a layer on graphs or messages. Without ``event_shape`` the number of features is that of the
    layer. Raises `TargetError` if a graph's event is not ``(nodes, features)``.
    """
    if "MessageNorm" in lineage(obj):
        event = event_shape or constructions.NODE
        return Facts(event, event, context_shape=event)
    width = next((getattr(obj, name) for name in WIDTHS if hasattr(obj, name)), None)
    event = event_shape or (constructions.NODES, width or constructions.FEATURES)
    if len(event) != 2:
        raise TargetError(
            f"an event of {type(obj).__name__} is a graph, nodes by features: say ?event=5,4"
        )
    if lineage(obj) & set(STANDARD):
        return facts_by_calls(obj, GRAPHS, event, {})
    return Facts(event, event)


def components() -> Mapping[str, Component]:
    """Layers on nodes, nodes of one type, graphs and messages."""
    return {
        **components_by_calls(constructions.norms()),
        **components_by_calls(constructions.typed(), TYPED),
        **components_of(constructions.norms_of_graphs(), GRAPHS, describe),
        **components_of(constructions.messages(), MESSAGES, describe),
    }


ADAPTER = Adapter(
    name="torch_geometric",
    package="torch_geometric",
    title="PyTorch Geometric",
    components=components,
    recognizes=recognizes,
    describe=describe,
    extra="apps",
    healthy=lambda: ("BatchNorm", "InstanceNorm", "GraphNorm"),
)
