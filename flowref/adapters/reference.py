"""flowref's own reference layers, held to the laws like those of any library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowref.adapters import _normalisers
from flowref.adapters import _reference_constructions as constructions
from flowref.adapters._described import described
from flowref.adapters._reference_facts import describe
from flowref.model import Adapter, Component, Dialect


def forward(obj: Any, x: Any, context: Any) -> Any:
    y, ladj = obj(x)
    return y, ladj


def inverse(obj: Any, y: Any, context: Any) -> Any:
    x, ladj = obj.inverse(y)
    return x, ladj


def parts(obj: Any) -> Any:
    return [(f"{index}.{type(part).__name__}", part) for index, part in enumerate(getattr(obj, "bijections", ()))]


def chain(parts: Sequence[Any]) -> Any:
    from flowref.reference import Chain

    return Chain(*parts)


def invert(obj: Any) -> Any:
    from flowref.reference import Inverse

    return Inverse(obj)


def flow_parts(obj: Any) -> Any:
    return parts(obj.bijection)


def log_prob(obj: Any, x: Any, context: Any) -> Any:
    return obj.log_prob(x)


def sample(obj: Any, n: int, context: Any) -> Any:
    return obj.sample(n)


def base_log_prob(obj: Any, z: Any, context: Any) -> Any:
    return obj.base.log_prob(z)


LAYER = Dialect(forward=forward, inverse=inverse, parts=parts, chain=chain, invert=invert)
FLOW = Dialect(
    forward=forward,
    inverse=inverse,
    log_prob=log_prob,
    sample=sample,
    base_log_prob=base_log_prob,
    parts=flow_parts,
)


def components() -> Mapping[str, Component]:
    """Every layer that is a map, in every rank and with every option that changes what it computes; and the densities."""
    found = {}
    for name, (build, event) in constructions.normalisers().items():
        dialect = _normalisers.DIALECT if name.startswith("BatchNorm") else LAYER
        found[name] = described(name, build, dialect, describe, event)
    for name, (build, event) in constructions.bijections().items():
        found[name] = described(name, build, LAYER, describe, event)
    for name, (build, event) in constructions.flows().items():
        found[name] = described(name, build, FLOW, describe, event)
    return found


def recognises(obj: Any) -> Dialect | None:
    """The dialect of a reference layer or of a subclass of one; None for all else, that of this package included."""
    from flowref.reference import BatchNorm, Bijection, Flow

    if isinstance(obj, BatchNorm):
        return _normalisers.DIALECT
    if isinstance(obj, Flow):
        return FLOW
    return LAYER if isinstance(obj, Bijection) else None


ADAPTER = Adapter(
    name="reference",
    package="flowref",
    title="flowref.reference",
    components=components,
    recognises=recognises,
    describe=describe,
)
