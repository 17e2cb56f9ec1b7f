"""FrEIA: invertible modules on lists of tensors, and the networks that connect them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common import couplings, multi_scales
from flowref.adapters.common.described import described, lineage
from flowref.adapters.common.torch_transforms import (
    CONSTANT,
    ELEMENTWISE,
    VOLUME,
    Traits,
    composed,
    facts_of,
)
from flowref.adapters.freia import constructions
from flowref.model import REAL, Adapter, Component, Dialect, Facts, Shape, Support, TargetError


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    conditions = {} if context is None else {"c": [context]}
    y, ladj = obj([x], rev=False, jac=True, **conditions)
    return y if hasattr(y, "shape") else y[0], ladj


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    conditions = {} if context is None else {"c": [context]}
    x, ladj = obj([y], rev=True, jac=True, **conditions)
    return x if hasattr(x, "shape") else x[0], ladj


def parts(obj: Any) -> Any:
    return [(f"{index}.{type(part).__name__}", part) for index, part in enumerate(obj.module_list)]


def chain(parts: Sequence[Any]) -> Any:
    from FrEIA.framework import SequenceINN

    # A network is chained as the modules that it is made of, since it returns no list of tensors.
    modules = [module for part in parts for module in getattr(part, "module_list", [part])]
    shape = modules[0].dims_in if isinstance(modules[0].dims_in[0], int) else modules[0].dims_in[0]
    network = SequenceINN(*shape, force_tuple_output=True)
    for module in modules:
        network.append(lambda dims_in, module=module: module)
    return network


def repair(obj: Any) -> None:
    from FrEIA.modules import IResNetLayer, OrthogonalTransform
    from FrEIA.modules.orthogonal import orth_correction

    # What the library does between gradient steps; the power method and the projection each need
    # more than one pass.
    for module in obj.modules():
        if isinstance(module, IResNetLayer):
            for _ in range(20):
                module.lipschitz_correction()
        if isinstance(module, OrthogonalTransform):
            for _ in range(3):
                orth_correction(module.weights.data)


MODULE = Dialect(forward=forward, inverse=inverse, repair=repair)
NETWORK = Dialect(forward=forward, inverse=inverse, parts=parts, chain=chain, repair=repair)
# Its reverse pass is an inverse only once training has made its weights orthogonal.
ONE_WAY = Dialect(forward=forward, repair=repair)

UNIT = Support.parse("unit")
# Fifty steps of a fixed-point iteration that contracts to about a half.
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
    # They approach a volume-preserving map while they are trained, and say so.
    **dict.fromkeys(("InvAutoFC", "InvAutoConv2D"), frozenset({"estimator", "scalar-ladj"})),
}


def traits(module: Any) -> Traits:
    """What is known of a module or a network."""
    names = lineage(module)
    if names & {"SequenceINN", "GraphINN"}:
        return _network_traits(module)
    promises = frozenset[str]().union(*(PROMISES[name] for name in names & set(PROMISES)))
    if "IResNetLayer" in names:
        return Traits(promises=promises, tolerance=FIXED_POINT)
    if "InvertibleSigmoid" in names:
        return Traits(codomain=UNIT, promises=promises)
    if names & {"InvAutoFC", "InvAutoConv2D", "GaussianMixtureModel"}:
        return Traits(promises=promises)
    knots = (0.0,) if names & {"InvAutoAct", "InvAutoActTwoSided"} else ()
    if module.dims_c:  # constant in x, and different for each condition
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
    whole = composed(stages)
    if "SequenceINN" in lineage(network) and all(
        "scalar-ladj" in stage.promises for stage in stages
    ):
        whole = replace(whole, promises=whole.promises | {"scalar-ladj"})
    return whole


def linear(network: Any) -> bool:
    """Whether a network is a chain of modules with one input each, and no conditions."""
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
    event = tuple(int(size) for size in inputs[0])
    if event_shape is not None and event_shape != event:
        raise TargetError(
            f"{name} was built for events of shape {event}, but the shape {event_shape} was given"
        )
    facts = facts_of(traits(obj), event, outputs[0], context=conditions[0] if conditions else None)
    return replace(
        facts,
        coupling=couplings.of_library(obj, event, "FrEIA"),
        squeezing=multi_scales.squeezing(obj),
    )


def _inputs(obj: Any) -> list[Shape]:
    # Some modules keep the shape of their one input where others keep the list of shapes.
    shapes = [obj.dims_in] if isinstance(obj.dims_in[0], int) else list(obj.dims_in)
    if lineage(obj) & {
        "IRevNetUpsampling",
        "HaarUpsampling",
    }:  # they are downsamplings run in reverse, and keep its shapes
        return [(4 * shape[0], shape[1] // 2, shape[2] // 2) for shape in shapes]
    return [tuple(int(size) for size in shape) for shape in shapes]


def _outputs(obj: Any) -> list[Shape]:
    names = lineage(obj)
    if "SequenceINN" in names:
        found = [obj.shapes[-1]]
    elif "GraphINN" in names:
        found = list(obj.global_out_shapes)
    else:
        found = list(obj.output_dims(_inputs(obj)))
    return [tuple(int(size) for size in shape) for shape in found]


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a module or a network, or None."""
    from FrEIA.framework import GraphINN, SequenceINN
    from FrEIA.modules import InvertibleModule

    if isinstance(obj, (SequenceINN, GraphINN)):
        return NETWORK if linear(obj) else MODULE
    if lineage(obj) & {"InvAutoFC", "InvAutoConv2D"}:
        return ONE_WAY
    return MODULE if isinstance(obj, InvertibleModule) else None


def components() -> Mapping[str, Component]:
    """The modules of the library, and networks of them."""
    found = {}
    for name, (build, event) in constructions.modules().items():
        dialect = ONE_WAY if name == "InvAutoFC" else MODULE
        found[name] = described(name, build, dialect, describe, event)
    for name, build in constructions.networks().items():
        found[name] = described(name, build, NETWORK, describe)
    return found


ADAPTER = Adapter(
    name="FrEIA",
    package="FrEIA",
    title="FrEIA",
    components=components,
    recognizes=recognizes,
    describe=describe,
)
