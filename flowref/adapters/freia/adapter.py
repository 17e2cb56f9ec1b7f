"""FrEIA: invertible modules on lists of tensors, and networks of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowref.adapters.common.object_components import components_of, lineage, numbered
from flowref.adapters.common.published_models import components_of_models
from flowref.adapters.freia import constructions, published_models
from flowref.adapters.freia.facts import describe, linear
from flowref.model import Adapter, Component, Dialect


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    conditions = {} if context is None else {"c": [context]}
    y, ladj = obj([x], rev=False, jac=True, **conditions)
    return y if hasattr(y, "shape") else y[0], ladj


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    conditions = {} if context is None else {"c": [context]}
    x, ladj = obj([y], rev=True, jac=True, **conditions)
    return x if hasattr(x, "shape") else x[0], ladj


def parts(obj: Any) -> Any:
    return numbered(obj.module_list)


def chain(parts: Sequence[Any]) -> Any:
    from FrEIA.framework import SequenceINN

    # A network is chained by its modules, since it returns no list of tensors.
    modules = [module for part in parts for module in getattr(part, "module_list", [part])]
    shape = modules[0].dims_in if isinstance(modules[0].dims_in[0], int) else modules[0].dims_in[0]
    network = SequenceINN(*shape, force_tuple_output=True)
    for module in modules:
        network.append(lambda dims_in, module=module: module)
    return network


def repair(obj: Any) -> None:
    from FrEIA.modules import IResNetLayer, OrthogonalTransform
    from FrEIA.modules.orthogonal import orth_correction

    # The library does this between gradient steps; the power method and the projection need several
    # passes.
    for module in obj.modules():
        if isinstance(module, IResNetLayer):
            for _ in range(20):
                module.lipschitz_correction()
        if isinstance(module, OrthogonalTransform):
            for _ in range(3):
                orth_correction(module.weights.data)


MODULE = Dialect(forward=forward, inverse=inverse, repair=repair)
NETWORK = Dialect(forward=forward, inverse=inverse, parts=parts, chain=chain, repair=repair)
# Its reverse pass is an inverse only after training has made its weights orthogonal.
ONE_WAY = Dialect(forward=forward, repair=repair)


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
    one_way = {"InvAutoFC": ONE_WAY}
    return {
        **components_of(constructions.modules(), lambda name: one_way.get(name, MODULE), describe),
        **components_of(constructions.networks(), NETWORK, describe),
    }


def models() -> Mapping[str, Component]:
    """Networks of published size."""
    return {
        **components_of_models(published_models.models(), NETWORK, describe),
        **components_of_models(published_models.graphs(), MODULE, describe),
    }


ADAPTER = Adapter(
    name="FrEIA",
    package="FrEIA",
    title="FrEIA",
    components=components,
    published=models,
    recognizes=recognizes,
    describe=describe,
)
