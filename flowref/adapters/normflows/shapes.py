"""Shapes of normflows classes: of events on either side of a flow, and of contexts."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.nflows_family.conditioners import conditioner_context
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.shapes import as_shape
from flowref.model import Shape


def layers_of(obj: Any) -> Any:
    """The flows of a composite or model in the order of forward; None for a single flow."""
    names = lineage(obj)
    if "Composite" in names:
        return obj._flows
    if names & {"NormalizingFlow", "GlowBlock"}:
        return obj.flows
    return None


def flow_event_shape(obj: Any) -> Shape | None:
    """The event shape in a flow's attributes, or None."""
    names = lineage(obj)
    layers = layers_of(obj)
    if "NormalizingFlow" in names and hasattr(obj.q0, "shape"):
        return as_shape(obj.q0.shape)
    if layers is not None:
        for layer in layers:
            if "Squeeze" in lineage(layer):
                return None
            if shape := flow_event_shape(layer):
                return shape
        return None
    if "Reverse" in names:
        return flow_event_shape(obj.flow)
    if names & {"AffineConstFlow", "CCAffineConst"}:
        shape = as_shape(obj.s.shape[1:])
        return shape if len(shape) == 1 or 1 not in shape else None
    for name in ("b", "w", "z_0"):
        if (
            names & {"MaskedAffineFlow", "Planar", "Radial"}
            and hasattr(obj, name)
            and getattr(obj, name).dim() > 1
        ):
            return as_shape(getattr(obj, name).shape[1:])
    if "AffineCouplingBlock" in names:
        linear = [
            module for module in obj.flows[1].param_map.modules() if hasattr(module, "in_features")
        ]
        if not linear or "channel" not in obj.flows[0].mode:
            return None
        parameters = 2 if obj.flows[1].scale else 1
        return (int(linear[0].in_features + linear[-1].out_features // parameters),)
    if "Residual" in names:
        net = obj.iresblock.nnet
        channels = getattr(net, "channels", None) if "LipschitzMLP" in lineage(net) else None
        return (int(channels[0]),) if channels else None
    if names & {"Permute", "InvertibleAffine"}:
        return (int(obj.num_channels),)
    if "LULinearPermute" in names:
        return (int(obj.linear.features),)
    if hasattr(obj, "prqct"):
        return (int(obj.prqct.features),)
    for name in ("mprqat", "autoregressive_net"):
        if hasattr(obj, name):
            inner = getattr(obj, name)
            net = getattr(inner, "autoregressive_net", inner)
            return (int(net.initial_layer.in_features),)
    return (int(obj.features),) if hasattr(obj, "features") else None


def after(obj: Any, shape: Shape) -> Shape:
    """The output shape of forward."""
    for layer in layers_of(obj) or ():
        shape = after(layer, shape)
    if "Squeeze" in lineage(obj):
        return (shape[0] // 4, 2 * shape[1], 2 * shape[2])
    if "Reverse" in lineage(obj):
        return before(obj.flow, shape)
    return shape


def before(obj: Any, shape: Shape) -> Shape:
    """The output shape of inverse."""
    for layer in reversed(layers_of(obj) or ()):
        shape = before(layer, shape)
    if "Squeeze" in lineage(obj):
        return (4 * shape[0], shape[1] // 2, shape[2] // 2)
    if "Reverse" in lineage(obj):
        return after(obj.flow, shape)
    return shape


def context_of(obj: Any) -> Shape | None:
    """The context shape of a conditioner; None if there is none."""
    for module in obj.modules():
        if "CCAffineConst" in lineage(module):
            return (int(module.s_cc.shape[0]),)
        if features := conditioner_context(module):
            return features
    return None


def takes_context(obj: Any) -> bool:
    """Whether any layer of a model takes a context."""
    return context_of(obj) is not None
