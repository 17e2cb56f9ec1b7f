"""Facts of FrEIA modules and networks: shapes, conditions, supports and promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE, VOLUME, class_promises
from flowref.adapters.common.shapes import as_shape
from flowref.adapters.common.traits import Traits, compose, facts_of
from flowref.adapters.freia import structure
from flowref.model import REAL, Facts, Shape, Support, TargetError

UNIT = Support.parse("unit")
# Fifty steps of a fixed-point iteration with contraction factor about one half.
FIXED_POINT = 1e-6

SCALAR = frozenset({"scalar-ladj", "constant-jacobian"})
FREE = VOLUME | SCALAR
PROMISES: dict[str, frozenset[str]] = {
    "ActNorm": CONSTANT | ELEMENTWISE,
    "IResNetLayer": frozenset({"estimator"}),
    "InvAutoAct": ELEMENTWISE,
    "InvAutoActTwoSided": ELEMENTWISE,
    "InvertibleSigmoid": ELEMENTWISE,
    "LearnedElementwiseScaling": SCALAR | ELEMENTWISE,
    **dict.fromkeys(("OrthogonalTransform", "FixedLinearTransform"), CONSTANT),
    **dict.fromkeys(("Fixed1x1Conv", "HaarDownsampling"), SCALAR),
    **dict.fromkeys(
        ("NICECouplingBlock", "GINCouplingBlock", "HouseholderPerm", "PermuteRandom"), FREE
    ),
    **dict.fromkeys(("IRevNetDownsampling", "Flatten", "Reshape"), FREE),
    # Documented to become volume preserving during training only.
    **dict.fromkeys(("InvAutoFC", "InvAutoConv2D"), frozenset({"estimator", "scalar-ladj"})),
}


def traits(module: Any) -> Traits:
    """The traits of a module or network."""
    names = lineage(module)
    if names & {"SequenceINN", "GraphINN"}:
        return _network_traits(module)
    promises = class_promises(PROMISES, names)
    if "IResNetLayer" in names:
        return Traits(promises=promises, tolerance=FIXED_POINT)
    if "InvertibleSigmoid" in names:
        return Traits(codomain=UNIT, promises=promises)
    if names & {"InvAutoFC", "InvAutoConv2D", "GaussianMixtureModel"}:
        return Traits(promises=promises)
    knots = (0.0,) if names & {"InvAutoAct", "InvAutoActTwoSided"} else ()
    if module.dims_c:  # constant in x, but dependent on the condition
        promises -= frozenset() if "volume-preserving" in promises else CONSTANT
    return Traits(codomain=REAL, knots=knots, promises=promises)


def _network_traits(network: Any) -> Traits:
    stages = [traits(module) for module in network.module_list]
    if not linear(network):
        estimators = {name for stage in stages for name in stage.promises & {"estimator"}}
        return Traits(
            promises=frozenset(estimators),
            tolerance=max((stage.tolerance for stage in stages), default=0.0),
        )
    whole = compose(stages)
    if "SequenceINN" in lineage(network) and all(
        "scalar-ladj" in stage.promises for stage in stages
    ):
        whole = replace(whole, promises=whole.promises | {"scalar-ladj"})
    return whole


def linear(network: Any) -> bool:
    """Whether a network is a chain of modules with one input each, without conditions."""
    if "SequenceINN" in lineage(network):
        return all(condition is None for condition in network.conditions)
    nodes = [node for node in network.node_list if node.module is not None]
    return len(network.in_nodes) == 1 and all(
        len(node.inputs) == 1 and not node.conditions and len(node.module.dims_in) == 1
        for node in nodes
    )


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a module or a network with one input and one output."""
    inputs, outputs = _inputs(obj), _outputs(obj)
    name = type(obj).__name__
    if len(inputs) != 1 or len(outputs) != 1:
        raise TargetError(
            f"{name} has {len(inputs)} inputs and {len(outputs)} outputs; a bijection of one "
            "tensor is expected"
        )
    conditions = [tuple(shape) for shape in obj.dims_c]
    if "SequenceINN" in lineage(obj):
        conditions = [shape for module in obj.module_list for shape in map(tuple, module.dims_c)][
            :1
        ]
    if len(conditions) > 1:
        raise TargetError(
            f"{name} takes {len(conditions)} conditions; one is expected, so wrap it to split one "
            "tensor"
        )
    event = inputs[0]
    if event_shape is not None and event_shape != event:
        raise TargetError(
            f"{name} was built for events of shape {event}, but the shape {event_shape} was given"
        )
    return facts_of(
        traits(obj),
        event,
        outputs[0],
        context_shape=conditions[0] if conditions else None,
        coupling=structure.coupling(obj, event),
        squeezing=structure.squeezing(obj),
    )


def _inputs(obj: Any) -> list[Shape]:
    # Some modules store the shape of their input, others a list of shapes.
    shapes = [obj.dims_in] if isinstance(obj.dims_in[0], int) else list(obj.dims_in)
    if lineage(obj) & {
        "IRevNetUpsampling",
        "HaarUpsampling",
    }:  # reversed downsamplings, with those shapes
        return [(4 * shape[0], shape[1] // 2, shape[2] // 2) for shape in shapes]
    return [as_shape(shape) for shape in shapes]


def _outputs(obj: Any) -> list[Shape]:
    names = lineage(obj)
    if "SequenceINN" in names:
        return [as_shape(obj.shapes[-1])]
    if "GraphINN" in names:
        return [as_shape(shape) for shape in obj.global_out_shapes]
    return [as_shape(shape) for shape in obj.output_dims(_inputs(obj))]
